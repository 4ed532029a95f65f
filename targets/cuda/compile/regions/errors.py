"""Errors of Numba in a kernel that is compiled by the region IR, with the user's line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from numba import errors

from kerneldsl.contract import Specialization
from kerneldsl.errors import KernelError
from kerneldsl.lowering.errors import translate
from targets.cuda.compile.numba_device import descriptor

__all__ = ["explained_errors"]


@contextmanager
def explained_errors(specialization: Specialization) -> Iterator[None]:
    """Raise errors of this project for those of Numba.

    The caller holds Numba's compiler lock, and has made this target the current one.
    """
    try:
        yield
    except errors.NumbaError as error:
        raise _explained(error, specialization) from error


def _explained(error: errors.NumbaError, specialization: Specialization) -> KernelError:
    """Return an error with Numba's whole text, which inference of the functions gives."""
    from kerneldsl.lowering.typed_unit import infer_unit  # only errors need it

    unit, kinds = specialization.unit, specialization.kinds
    own = translate(error, unit, kinds)
    try:
        infer_unit(unit, kinds, descriptor())
    except KernelError as found:
        if own.where is None or found.where is None or own.where.lineno == found.where.lineno:
            return found
    return own
