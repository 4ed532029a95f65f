"""Report a name of Numba or llvmlite that a release has moved, instead of a later error."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType, TracebackType
from typing import TypeVar

from kerneldsl._version import TESTED_RANGES
from kerneldsl.errors import CompileError
from kerneldsl.utilities.tracebacks import OWN_FOLDERS, causes_of

__all__ = ["moved_name", "overriding"]

_Class = TypeVar("_Class", bound=type)

_LIBRARIES = ("numba", "llvmlite")


def overriding(*own: str, beside: type | None = None) -> Callable[[_Class], _Class]:
    """Make a decorator that holds that all a class defines replaces something of its bases.

    If a release renames a method, Numba would call its own under the new name. Integers that must
    wrap around would not, for example. `own` are names that replace nothing. `beside` is a class of
    Numba's. Some names of its are in the class, too, and in no base of both.

    Raises `CompileError` for a name that no base has.
    """

    def check(kind: _Class) -> _Class:
        bases = (*kind.__mro__[1:], *(beside.__mro__ if beside is not None else ()))
        for name in vars(kind):
            is_own = name.startswith("__") or name in own
            if not is_own and not any(name in vars(base) for base in bases):
                missing = f"{bases[0].__module__}.{bases[0].__qualname__}.{name}"
                raise _told(missing, f"{kind.__module__}.{kind.__qualname__}")
        return kind

    return check


def moved_name(error: BaseException) -> CompileError | None:
    """Return the error to raise if kerneldsl's code needs a name that a library does not have.

    The causes of the error are searched, too. For any other error the result is ``None``.
    """
    for each in causes_of(error):
        place = _place_of(each.__traceback__)
        missing = _missing(each)
        if missing is not None and place is not None:
            return _told(missing, place)
    return None


def _told(missing: str, place: str) -> CompileError:
    library = missing.partition(".")[0]
    lowest, below = TESTED_RANGES[library]
    tested = f"{library}>={lowest},<{below}"
    try:
        installed = version(library)
    except PackageNotFoundError:
        installed = "of an unknown version"
    return CompileError(
        f"{library} {installed} has no {missing}, which {place} needs",
        value=missing,
        limit=f"kerneldsl is tested with {tested}",
        remedy=f'Run: pip install "{tested}"; see docs/releases.md for other releases',
    )


def _missing(error: BaseException) -> str | None:
    """Return the full name of what a library should have."""
    if isinstance(error, ImportError):
        module, name = error.name or "", re.match(r"cannot import name '(\w+)'", error.msg or "")
        missing = f"{module}.{name[1]}" if name else module
        return missing if missing.partition(".")[0] in _LIBRARIES and "." in missing else None
    if not isinstance(error, AttributeError) or error.name is None:
        return None
    owner = error.obj
    if isinstance(owner, ModuleType):
        names = [owner.__name__]
    else:
        kinds = (owner if isinstance(owner, type) else type(owner)).__mro__
        names = [f"{kind.__module__}.{kind.__qualname__}" for kind in kinds]
    theirs = [name for name in names if name.partition(".")[0] in _LIBRARIES]
    return f"{theirs[0]}.{error.name}" if theirs else None


def _place_of(traceback: TracebackType | None) -> str | None:
    """Return the file and line of kerneldsl that raised an error; ``None`` for other files."""
    if traceback is None:
        return None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    file = traceback.tb_frame.f_code.co_filename
    if not file.startswith(OWN_FOLDERS):
        return None
    return f"{os.path.relpath(file, os.path.dirname(OWN_FOLDERS[0][:-1]))}:{traceback.tb_lineno}"
