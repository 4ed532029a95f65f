"""Arrays of filters, which the functions have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.errors import ArgumentValueError
from stdlib_kernels.arrays import (
    Array,
    allocate,
    check_array,
    check_out,
    destination,
    finish,
    is_contiguous,
    on_device,
)

__all__ = ["checked", "delivered", "per_axis"]


def checked(x: Array, out: Array | None, dtype: np.dtype[Any] | None = None) -> tuple[Array, Array]:
    """Check what is filtered and where it goes, and return both where kernels can reach them.

    Raises
    ------
    ArgumentError
        Where one of them is none that filters take.
    """
    check_array("x", x, kinds="iuf", halves=True)
    shape, kind = tuple(x.shape), x.dtype if dtype is None else dtype
    check_out(out, like=x, shape=shape, dtype=kind)
    source = on_device(x)
    if out is None or not is_contiguous(out):
        return source, allocate(source, shape, kind)
    return source, destination(source, shape, kind, out)


def delivered(result: Array, x: Array, out: Array | None) -> Any:
    """Return a result as the caller wants it."""
    return out if result is out else finish(result, like=x, out=out)


def per_axis(name: str, value: Any, ndim: int) -> tuple[Any, ...]:
    """Return one value for each axis, of one for all or a sequence.

    Raises
    ------
    ArgumentValueError
        Where there are more or fewer than axes.
    """
    found = tuple(value) if isinstance(value, tuple | list) else (value,) * ndim
    if len(found) != ndim:
        raise ArgumentValueError(
            f"{name} has {len(found)} values",
            value=value,
            limit=f"There is one for all axes, or for each of the {ndim}",
        )
    return found
