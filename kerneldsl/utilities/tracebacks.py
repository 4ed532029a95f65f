"""Tracebacks and warnings that show the user's frames; `error.details` has the rest.

Public functions shorten an error as it leaves them, and raise it again as it is. CPython adds no
frame for a bare ``raise``, so nothing of this project is between the user's line and the message.
No hook of the interpreter is changed. Pytest, pdb, logging and IPython see the same.
``KERNELDSL_TRACEBACK=full`` leaves errors as they are.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, TracebackType
from typing import Any, ParamSpec, TypeVar

from kerneldsl.errors import KernelError
from kerneldsl.utilities.environment import traceback_is_full

__all__ = [
    "OWN_FOLDERS",
    "TranslatedError",
    "causes_of",
    "error_of_handler",
    "passes_on",
    "shorten",
    "shorten_errors",
    "shorten_errors_of",
    "shorten_raised",
    "warn_user",
]

P = ParamSpec("P")
R = TypeVar("R")
_Class = TypeVar("_Class", bound=type)

#: Code of functions that hand all their arguments on to a public one.
_wrappers: set[CodeType] = set()
#: Methods by which Python inspects objects and deletes them.
_NEVER_SHORTENED = frozenset({"__del__", "__dir__", "__init_subclass__", "__new__", "__repr__"})

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
#: Folders of the packages of this distribution, each with the separator after it. Their frames are
#: not the user's; a program may have modules of the same names elsewhere.
OWN_FOLDERS = tuple(
    os.path.join(_ROOT, name, "")
    for name in ("kerneldsl", "targets", "stdlib_kernels", "kerneldsl_demo")
)
#: Libraries through which errors of kerneldsl come, and the folder of Python's own; programs may
#: have modules with names of the latter.
_LIBRARIES = frozenset({"llvmlite", "numba", "numpy"})
_PYTHON_FOLDER = os.path.join(os.path.dirname(os.__file__), "")
_INSTALLED_FOLDERS = ("dist-packages", "site-packages")


class TranslatedError(Exception):
    """An error in the place of one of kerneldsl, of a class that another library has."""

    #: The error of kerneldsl.
    error: KernelError


def shorten_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Shorten the errors of kerneldsl that a public function raises; a decorator.

    A call with arguments that do not fit the parameters is Python's error, on the user's line.
    """

    @functools.wraps(function)
    def shortening(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (KernelError, TypeError, IndexError) as error:
            shorten_raised(error)
            raise

    return shortening


def shorten_raised(error: KernelError | TypeError | IndexError) -> None:
    """Shorten what a public function has raised, as `shorten_errors` does; see `shorten`."""
    if isinstance(error, KernelError):
        shorten(error)
    elif not traceback_is_full():
        is_own = _is_internal(error) if isinstance(error, IndexError) else not _was_entered(error)
        if is_own:
            error.__traceback__ = None


def passes_on(wrapper: Callable[P, R]) -> Callable[P, R]:
    """Mark what is between a public function and `shorten_errors`; a decorator.

    Arguments that do not fit are found when it calls the function with all its arguments.
    """
    assert isinstance(wrapper, FunctionType)
    _wrappers.add(wrapper.__code__)
    return wrapper


def _was_entered(error: TypeError) -> bool:
    """Return whether an error comes from within a public function, and not from its call."""
    codes = [entry.tb_frame.f_code for entry in _entries(error.__traceback__)]
    return len(codes) > 1 and codes[-1] not in _wrappers


def shorten_errors_of(*but: str) -> Callable[[_Class], _Class]:
    """Make a decorator that shortens the errors of a class's public methods, operators included.

    A wrapper costs a tenth of a microsecond. Methods named in `but` are those that are called often
    and shorten their errors themselves, and those that are called by this project alone.
    """

    def decorate(kind: _Class) -> _Class:
        for name, found in list(vars(kind).items()):
            is_private = name.startswith("_") and not name.endswith("__")
            if is_private or name in but or name in _NEVER_SHORTENED:
                continue
            if isinstance(found, FunctionType):
                setattr(kind, name, shorten_errors(found))
            elif isinstance(found, classmethod):
                setattr(kind, name, classmethod(shorten_errors(found.__func__)))
        return kind

    return decorate


def shorten(error: KernelError | TranslatedError) -> None:
    """Leave the user's frames in an error's traceback, and the causes that the user can act on.

    Everything else is in ``error.details``. Call it where the error is caught, and raise the error
    again with a bare ``raise``.
    """
    if traceback_is_full():
        return
    if isinstance(error, TranslatedError):
        error.error.keep_details()
        error.__traceback__ = _users_part(error.__traceback__)
        error.__cause__ = None  # it has the same text
        return
    error.keep_details()
    _shorten_chain(error, set())


def _shorten_chain(error: KernelError, seen: set[int]) -> None:
    seen.add(id(error))
    cause, context = error.__cause__, error.__context__
    if cause is not None:
        if isinstance(cause, KernelError):
            if id(cause) not in seen:
                _shorten_chain(cause, seen)
        elif _is_internal(cause):
            error.__cause__ = None  # and so the context is not printed either
    elif context is not None and not error.__suppress_context__ and _is_internal(context):
        error.__suppress_context__ = True
    error.__traceback__ = _users_part(error.__traceback__)


def _is_internal(error: BaseException) -> bool:
    """Return whether an exception was raised and caught in libraries alone."""
    return _users_part(error.__traceback__) is None


def _users_part(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of libraries."""
    kept = None
    for entry in reversed(tuple(_entries(traceback))):
        frame = entry.tb_frame
        if not _is_of_library(frame.f_code, frame.f_globals.get("__name__")):
            kept = TracebackType(kept, frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_of_library(code: CodeType, module: object) -> bool:
    file = code.co_filename
    if file.startswith(
        (*OWN_FOLDERS, "<frozen ", "<kerneldsl.")
    ):  # the last is of written functions
        return True
    if file.startswith(_PYTHON_FOLDER):
        installed = file[len(_PYTHON_FOLDER) :].startswith(_INSTALLED_FOLDERS)
        if not installed:
            return True
    return isinstance(module, str) and module.partition(".")[0] in _LIBRARIES


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that led to it, each once, the latest first."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__


def warn_user(text: str, category: type[Warning]) -> None:
    """Warn at the nearest line of code that is not of this distribution."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OWN_FOLDERS):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


# Errors of a program's signal handlers, which may be raised between any two instructions.


def error_of_handler(error: BaseException) -> BaseException | None:
    """Return the error that a signal handler raised, if it is this error or caused it.

    A compiler reports every error in it as a failure to compile. A timeout is not a failure.
    """
    codes = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    for each in causes_of(error):
        if any(entry.tb_frame.f_code in codes for entry in _entries(each.__traceback__)):
            return each
    return None


def _code_of(handler: Any) -> CodeType | None:
    """Return the code of a function, a method, a partial or an object that is called."""
    handler = getattr(handler, "func", handler)
    handler = getattr(handler, "__func__", handler)
    if not isinstance(handler, FunctionType):
        handler = getattr(type(handler), "__call__", None)  # noqa: B004 -- of its class
    return handler.__code__ if isinstance(handler, FunctionType) else None
