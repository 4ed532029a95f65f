"""Weights of a box of up to three axes, each applied at once: direct convolution.

The array is first copied with its border, so that the kernel knows no edges; a thread computes some
elements of a column, and reads what they have in common once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from stdlib_kernels.arrays import Array, check_array, is_on_host, to_like
from stdlib_kernels.functions import library_function
from stdlib_kernels.parameters import integer_of
from stdlib_kernels.stencil.borders import border_of, offset_of, padded
from stdlib_kernels.stencil.calls import checked, delivered
from stdlib_kernels.stencil.lines import computing, stored

__all__ = ["convolve", "correlate"]

#: Elements of a column that a thread computes, on a GPU; on the host one, and lanes do the rest.
ITEMS = 4


@kd.kernel(wraparound=False)
def weigh_box(x, weights, out, *, box, items, number, store, skips):
    """Add up products: ``x[a + …, b + …, c + …], weights[box], out[a, b, c]``."""
    i, part, k = kd.grid(3)
    j = part * items
    sums = kd.local.array(items, number)
    near = kd.local.array(items, number)
    for r in range(items):
        sums[r] = number(0)
    for p in range(box[0]):
        for s in range(box[2]):
            for r in range(1, items):
                near[r] = x[i + p, j + r - 1, k + s]
            for q in range(box[1]):
                for r in range(items - 1):
                    near[r] = near[r + 1]
                near[items - 1] = x[i + p, j + q + items - 1, k + s]
                w = weights[p, q, s]
                for r in range(items):
                    # What has no weight has no part, be it infinite.
                    v = number(0) if skips and w == 0 else near[r]
                    sums[r] += w * v
    for r in range(items):
        if j + r < out.shape[1]:
            out[i, j + r, k] = store(sums[r])


@library_function
def correlate(
    x: Array,
    weights: Any,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: int | tuple[int, ...] = 0,
    *,
    out: Array | None = None,
) -> Any:
    """Add up the neighbours of each element, each multiplied by a weight.

    Parameters
    ----------
    {filtered}
    weights : array
        Of as many axes as `x`, one to three; read on the host.
    {border}
    origin : int or tuple of int
        How far the middle of the weights is moved, along all axes or each.
    {filtered result}

    See Also
    --------
    scipy.ndimage.correlate

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.stencil import correlate
    >>> correlate(np.array([1.0, 2.0, 4.0]), np.array([0.0, 1.0, 10.0])).tolist()
    [21.0, 42.0, 44.0]
    """
    box = _weights(weights, x)
    return _apply(x, box, mode, cval, _origins(origin, box), out)


@library_function
def convolve(
    x: Array,
    weights: Any,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: int | tuple[int, ...] = 0,
    *,
    out: Array | None = None,
) -> Any:
    """Correlate with the weights in reversed order along each axis, as `correlate` does.

    See Also
    --------
    scipy.ndimage.convolve
    """
    box = _weights(weights, x)
    moved = tuple(
        -by - (n % 2 == 0) for by, n in zip(_origins(origin, box), box.shape, strict=True)
    )
    return _apply(x, np.flip(box), mode, cval, moved, out)


def _weights(weights: Any, x: Array) -> np.ndarray[Any, Any]:
    """Check the weights, and bring them to the host."""
    check_array("x", x, kinds="iuf", halves=True)
    found = weights.copy_to_host() if isinstance(weights, kd.DeviceArray) else np.asarray(weights)
    check_array("weights", found, kinds="biuf")
    if found.ndim != x.ndim or not 1 <= found.ndim <= 3 or not found.size:
        raise ArgumentValueError(
            f"x has {x.ndim} axes, and weights the shape {found.shape}",
            value=found.shape,
            limit="Both have one to three axes, as many as the other, and there is a weight",
        )
    return found.astype(np.float64)


def _origins(origin: Any, box: np.ndarray[Any, Any]) -> tuple[int, ...]:
    given = origin if isinstance(origin, tuple | list) else (origin,) * box.ndim
    if len(given) != box.ndim:
        raise ArgumentValueError(
            f"origin has {len(given)} numbers", value=origin, limit="There is one for each axis"
        )
    return tuple(integer_of("origin", each) for each in given)


def _apply(
    x: Array, box: np.ndarray[Any, Any], mode: Any, cval: Any, origin: Any, out: Array | None
) -> Any:
    border = border_of(mode, cval)
    first = [offset_of(n, by) for n, by in zip(box.shape, origin, strict=True)]
    source, result = checked(x, out)
    if x.size:
        number = computing(x.dtype)
        missing = 3 - x.ndim
        shape, around = (1,) * missing + tuple(x.shape), (1,) * missing + box.shape
        box = np.where(np.abs(box) > np.finfo(np.float64).eps, box, 0)
        items = 1 if is_on_host(source) else ITEMS
        parts = -(-shape[1] // items)
        extents = (
            shape[0] + around[0] - 1,
            parts * items + around[1] - 1,
            shape[2] + around[2] - 1,
        )
        wide = padded(source[(None,) * missing], number, border, [0] * missing + first, extents)
        weights = to_like(source, np.ascontiguousarray(box.reshape(around), number))
        weigh_box.forall(shape[0], parts, shape[2])(
            wide,
            weights,
            result.reshape(shape),
            box=around,
            items=items,
            number=number.type,
            store=stored(x.dtype),
            skips=bool(math.prod(box.shape) > np.count_nonzero(box)),
        )
    return delivered(result, x, out)
