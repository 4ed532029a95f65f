"""Public functions of the library: the arrays, the words and the errors that all have in common."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import kerneldsl as kd
from kerneldsl.repeating.foreign_calls import working_with
from kerneldsl.repeating.recorded_calls import refuse_captured, refuse_to_repeat, repeat_calls
from kerneldsl.utilities.tracebacks import passes_on, shorten_errors, warn_user
from stdlib_kernels.inputs import Call, Parameters, call_with_foreign

__all__ = ["library_function", "repeated_function", "warn"]

# Every family imports this module. A checkout has no compiled kernels, and compiles them.
kd.load_package("stdlib_kernels")

P = ParamSpec("P")
R = TypeVar("R")

#: The error that all functions raise, in the words of numpydoc.
_RAISED = """kerneldsl.errors.ArgumentError
    If `x` is not an array, or its dtype, the axis or another argument does not fit.
"""
#: Place of the text in a docstring: the section of errors, or the first one after that.
_PLACE = re.compile(r"^( *)(Raises\n *------\n|(?:Warns|See Also|Notes|Examples)\n)", re.MULTILINE)


def library_function(function: Callable[P, R]) -> Callable[P, R]:
    """Make a public function of the library; a decorator.

    Arguments are taken as :mod:`stdlib_kernels.inputs` says, and errors are shortened. Unless its
    docstring describes an `ArgumentError`, that of a wrong argument is added to it.
    """
    _document_error(function)
    return shorten_errors(_accept_any(Parameters(function), function))


def repeated_function(function: Callable[P, R]) -> Callable[P, R]:
    """Make a public function with launches that depend only on its arrays' forms and its options.

    As `library_function`; the launches of a call are made again at the next one like it.
    """
    _document_error(function)
    parameters = Parameters(function)
    planned = _accept_any(parameters, function, is_apart=False)
    return repeat_calls(planned, lambda repeating: _accept_any(parameters, function, repeating))


def _document_error(function: Callable[..., Any]) -> None:
    text = function.__doc__ or ""
    found = _PLACE.search(text)
    if found is None or "kerneldsl.errors.ArgumentError\n" in text:
        return
    has_section = found[2].startswith("Raises")
    added = textwrap.indent(_RAISED if has_section else f"Raises\n------\n{_RAISED}\n", found[1])
    at = found.end() if has_section else found.start()
    function.__doc__ = f"{text[:at]}{added}{text[at:]}"


def _accept_any(
    parameters: Parameters,
    function: Callable[P, R],
    repeating: Callable[P, R] | None = None,
    *,
    is_apart: bool = True,
) -> Callable[P, R]:
    """Return a function that passes its arguments as NumPy arrays or device arrays.

    If an argument is another array, `repeating` is called. If `is_apart`, a recording of another
    call does not contain this one.
    """

    @passes_on
    @functools.wraps(function)
    def accepting_any(*args: P.args, **kwargs: P.kwargs) -> R:
        # A call without a key has an array of another library, most often.
        if repeating is not None or not parameters.are_plain(args, kwargs):
            made = call_with_foreign(repeating or accepting_any, args, kwargs)
            if made is not None:
                return cast("R", made[0])
            with working_with((*args, *kwargs.values())):
                call = Call(parameters, args, kwargs)
                if call.is_changed:
                    with_ours: Any = repeating or function
                    return cast("R", call.returned(with_ours(*call.args, **call.named)))
        if is_apart:
            refuse_captured((*args, *kwargs.values()))
            refuse_to_repeat()
        return function(*args, **kwargs)

    return accepting_any


def warn(text: str) -> None:
    """Warn of a result, on the line of the program that calls the library."""
    refuse_to_repeat()
    warn_user(text, RuntimeWarning)
