"""Errors in a kernel that is compiled by the region IR, with the user's line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba import errors

from kerneldsl.contract import Specialization
from kerneldsl.errors import KernelError, UnsupportedConstructError
from kerneldsl.ir.frontend.reader import NotReadError

__all__ = ["explained_errors", "unsupported_construct"]


@contextmanager
def explained_errors(specialization: Specialization, contexts: Callable[[], Any]) -> Iterator[None]:
    """Raise errors of this project for those of Numba.

    `contexts` returns Numba's contexts of the target. The caller holds Numba's compiler lock, and
    has made this target the current one.
    """
    try:
        yield
    except errors.NumbaError as error:
        raise _explained(error, specialization, contexts) from error


def _explained(
    error: errors.NumbaError, specialization: Specialization, contexts: Callable[[], Any]
) -> KernelError:
    """Return an error with Numba's whole text, which inference of the functions gives."""
    from kerneldsl.lowering.errors import translate  # only errors need these
    from kerneldsl.lowering.typed_unit import infer_unit

    unit, kinds = specialization.unit, specialization.kinds
    own = translate(error, unit, kinds)
    try:
        infer_unit(unit, kinds, contexts())
    except KernelError as found:
        if own.where is None or found.where is None or own.where.lineno == found.where.lineno:
            return found
    return own


def unsupported_construct(
    specialization: Specialization, reason: NotReadError, *, where: str
) -> UnsupportedConstructError:
    """Return the error for a construct that the region IR does not have.

    `where` is the kind of device, such as ``"on a GPU"``.
    """
    unit = specialization.unit
    return UnsupportedConstructError(
        f"{unit.qualname} has a construct that a kernel {where} cannot have: {reason}",
        where=unit.locate(unit.tree),
        limit="These are methods that are kept in a variable, and starred arguments",
        remedy="Call the method directly, and name each argument",
    )
