"""The median of a box around each element, by sorting as much of it as is needed."""

from __future__ import annotations

import math
from typing import Any

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from stdlib_kernels.arrays import Array, check_array
from stdlib_kernels.functions import library_function
from stdlib_kernels.parameters import integer_of
from stdlib_kernels.stencil.borders import border_of, padded
from stdlib_kernels.stencil.calls import checked, delivered, per_axis

__all__ = ["median_filter"]


@kd.kernel(wraparound=False)
def median_box(x, out, *, box, count, number):
    """Move the smallest of what is left to the front, up to the middle: ``x[a + …], out[a]``."""
    i, j, k = kd.grid(3)
    v = kd.local.array(count, number)
    for p in range(box[0]):
        for q in range(box[1]):
            for r in range(box[2]):
                v[(p * box[1] + q) * box[2] + r] = x[i + p, j + q, k + r]
    for a in range(count // 2 + 1):
        for b in range(a + 1, count):
            low, high = min(v[a], v[b]), max(v[a], v[b])
            v[a] = low
            v[b] = high
    out[i, j, k] = v[count // 2]


@library_function
def median_filter(
    x: Array,
    size: int | tuple[int, ...] = 3,
    mode: str = "reflect",
    cval: float = 0.0,
    *,
    out: Array | None = None,
) -> Any:
    """Take the median of the box around each element.

    {parameters: filtered}
    size : int or tuple of int
        Extent of the box along all axes, or along each. Of an even number of elements it is the
        upper one of the two in the middle.
    {border}
    {filtered result}

    Notes
    -----
    Of a box with a NaN the result is not defined. Work grows with the square of the number of
    elements of the box.
    {see: scipy.ndimage.median_filter}
    {examples}
    >>> median_filter(np.array([1, 9, 2, 3, 8]), 3).tolist()
    [1, 2, 3, 3, 8]
    """
    check_array("x", x, kinds="iuf")
    sizes = tuple(integer_of("size", n) for n in per_axis("size", size, x.ndim))
    if not 1 <= x.ndim <= 3 or min(sizes) < 1:
        raise ArgumentValueError(
            f"x has {x.ndim} axes, and size is {size}",
            value=size,
            limit="There are one to three axes, and sizes are 1 or more",
        )
    border = border_of(mode, cval)
    source, result = checked(x, out)
    if x.size:
        missing = 3 - x.ndim
        shape, box = (1,) * missing + tuple(x.shape), (1,) * missing + sizes
        extents = tuple(n + m - 1 for n, m in zip(shape, box, strict=True))
        before = [-(n // 2) for n in box]
        wide = padded(source[(None,) * missing], x.dtype, border, before, extents)
        median_box.forall(*shape)(
            wide, result.reshape(shape), box=box, count=math.prod(box), number=x.dtype.type
        )
    return delivered(result, x, out)
