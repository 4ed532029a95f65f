"""Public functions of the library: the arrays, the words and the errors that all have in common."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.calls import refuse_to_repeat, repeat_calls
from kerneldsl.utilities.tracebacks import passes_on, shorten_errors
from kerneldsl.utilities.user_warnings import warn_user
from stdlib_kernels.documentation import documented

__all__ = ["library_function", "repeated_function", "warn"]

P = ParamSpec("P")
R = TypeVar("R")

#: Of a type, what shares the memory of its objects.
_PROTOCOLS = ("__cuda_array_interface__", "__dlpack__")

#: Types of most arguments, which are no arrays of others.
_PLAIN = frozenset([np.ndarray, kd.DeviceArray, bool, int, float, tuple, type(None)])


def library_function(function: Callable[P, R]) -> Callable[P, R]:
    """Make a public function of the library; a decorator.

    Arrays of other libraries are taken over without a copy, and results given back as theirs.
    The docstring is filled by `documented`, and errors are shortened.
    """
    return shorten_errors(documented(_of_any_kind(function, function)))


def repeated_function(function: Callable[P, R]) -> Callable[P, R]:
    """Make a public function whose launches depend on its arrays' forms and its options alone.

    As `library_function`; the launches of a call are made again at the next one like it.
    """
    return documented(repeat_calls(function, functools.partial(_of_any_kind, function)))


def _of_any_kind(function: Callable[P, R], of_ours: Callable[P, R]) -> Callable[P, R]:
    """Return what calls a function, and one of our arrays in the place of others."""

    @passes_on
    @functools.wraps(function)
    def of_any_kind(*args: P.args, **kwargs: P.kwargs) -> R:
        # Few calls have arrays of others: those that have none pass as they are.
        given = [array for each in (*args, *kwargs.values()) for array in _foreign_in(each)]
        if not given:
            refuse_to_repeat()
            return function(*args, **kwargs)
        taken = {id(each): kd.as_array(each) for each in given}
        ours = functools.partial(_exchanged, taken)
        call: Callable[..., Any] = of_ours
        found: Any = call(*map(ours, args), **{name: ours(each) for name, each in kwargs.items()})
        # A result that is `out` is given back itself, as its library has been told to wait.
        give, theirs = _giver(given[0]), {id(taken[id(each)]): each for each in given}
        if isinstance(found, tuple):
            return cast("R", type(found)(_given_back(each, theirs, give) for each in found))
        return cast("R", _given_back(found, theirs, give))

    return of_any_kind


def warn(text: str) -> None:
    """Warn of a result, on the line of the program that calls the library."""
    refuse_to_repeat()
    warn_user(text, RuntimeWarning)


def _foreign_in(value: Any) -> list[Any]:
    """Return the arrays of other libraries that an argument is, or that its tuple holds."""
    if type(value) is tuple:
        return [each for each in value if _is_foreign(each)]
    return [value] if _is_foreign(value) else []


def _exchanged(taken: dict[int, Any], value: Any) -> Any:
    if type(value) is tuple:
        return tuple(taken.get(id(each), each) for each in value)
    return taken.get(id(value), value)


def _is_foreign(value: Any) -> bool:
    kind = type(value)
    if kind in _PLAIN or issubclass(kind, np.ndarray | np.generic | kd.DeviceArray):
        return False
    return any(hasattr(kind, name) for name in _PROTOCOLS)


def _giver(array: Any) -> Callable[[Any], Any]:
    """Return what makes an array of a foreign array's library, which then waits for our stream."""
    space = getattr(array, "__array_namespace__", None)
    library = space() if callable(space) else sys.modules.get(type(array).__module__.split(".")[0])
    take: Callable[[Any], Any] = getattr(library, "from_dlpack", lambda found: found)
    return take


def _given_back(found: Any, theirs: dict[int, Any], give: Callable[[Any], Any]) -> Any:
    made = give(found) if isinstance(found, kd.DeviceArray) else found
    return theirs.get(id(found), made)
