"""Places in user code: a function of kerneldsl has none, so its caller's place is shown."""

from __future__ import annotations

from kerneldsl.errors import KernelError, SourceLocation
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.utilities.tracebacks import OWN_FOLDERS

__all__ = ["is_own", "move_to_user", "user_place"]

#: Files of this distribution, and texts that the front end writes.
_OWN = (*OWN_FOLDERS, "<kerneldsl.frontend.")


def is_own(place: SourceLocation | FunctionUnit) -> bool:
    """Return whether a place or a function is in a file or a text of this distribution."""
    return place.filename.startswith(_OWN)


def user_place(where: SourceLocation, kernel: FunctionUnit) -> SourceLocation:
    """Return a place, or the innermost call of a user's that leads to it, if it is in our files.

    In a kernel of kerneldsl every place is what it is.
    """
    if not is_own(where) or is_own(kernel):
        return where
    for caller in kernel.reachable():
        if is_own(caller):
            continue
        for node in walk_here(caller.tree):
            callee = caller.callee_of(node)
            if callee is not None and any(_holds(each, where) for each in callee.reachable()):
                return caller.locate(node)
    return kernel.locate(kernel.tree)


def move_to_user(error: KernelError, kernel: FunctionUnit) -> None:
    """Give an error over a kernel that names a place in our files the user's place."""
    if error.where is not None and is_own(error.where):
        error.move(user_place(error.where, kernel))


def _holds(unit: FunctionUnit, where: SourceLocation) -> bool:
    last = unit.tree.end_lineno or unit.first_line
    return unit.filename == where.filename and unit.first_line <= where.lineno <= last
