"""Products of many small matrices, and of a matrix and a vector."""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from stdlib_kernels.arrays import Array, to_like
from stdlib_kernels.repeating import launch, launch_over, refuse_to_repeat

__all__ = ["multiply_batches", "multiply_vector"]

#: Longest inner dimension that is a constant of the code.
MAX_DEPTH = 32
#: Threads of a block that multiplies rows by a vector, a warp for each.
BLOCK = 256


@kd.kernel(wraparound=False)
def matmul_small(a, b, places_a, places_b, out, *, depth, number, repeats_a, repeats_b):
    """Add up an element of a product by a thread: ``a[s, m, k], b[t, k, n], out[p, m, n]``.

    ``places_a[p]`` and ``places_b[p]`` are factors of product p, where some are in several.
    """
    p, i, j = kd.grid(3)
    u = places_a[p] if repeats_a else p
    v = places_b[p] if repeats_b else p
    total = number(0)
    for k in range(depth or a.shape[2]):
        total += number(a[u, i, k]) * number(b[v, k, j])
    out[p, i, j] = total


@kd.kernel(wraparound=False)
def rows_by_vector(a, x, out, *, number):
    """Multiply a row by the vector by a warp: ``a[m, k], x[k], out[m]``."""
    row = kd.blockIdx.x * (BLOCK // 32) + kd.threadIdx.x // 32
    total = number(0)
    if row < out.size:
        for k in range(kd.laneid, a.shape[1], 32):
            total = number(total + number(a[row, k]) * number(x[k]))
    total = kd.warp.sum(total)
    if row < out.size and kd.laneid == 0:
        out[row] = total


def multiply_batches(a: Array, b: Array, out: Array, batches: tuple[Any, Any, Any]) -> None:
    """Multiply ``a[s, m, k]`` by ``b[t, k, n]`` into ``out[p, m, n]``.

    `batches` are the shapes of the factors' other axes, and what they are broadcast to.
    """
    places = [_places(shape, batches[2]) for shape in batches[:2]]
    taken = [out if each is None else to_like(out, each) for each in places]
    if any(each is not None for each in places):
        refuse_to_repeat()
    depth = a.shape[2] if a.shape[2] <= MAX_DEPTH else 0
    launch_over(
        matmul_small,
        tuple(out.shape),
        a,
        b,
        *taken,
        out,
        depth=depth,
        number=out.dtype.type,
        repeats_a=places[0] is not None,
        repeats_b=places[1] is not None,
    )


def _places(shape: tuple[int, ...], wanted: tuple[int, ...]) -> np.ndarray[Any, Any] | None:
    """Return which matrix each product takes, or ``None`` where it is its own."""
    if shape == wanted:
        return None
    count = int(np.prod(shape, dtype=np.int64))
    numbers = np.arange(count).reshape(shape)
    return np.ascontiguousarray(np.broadcast_to(numbers, wanted)).reshape(-1)


def multiply_vector(a: Array, x: Array, out: Array) -> None:
    """Multiply ``a[m, k]`` by ``x[k]`` into ``out[m]``."""
    grid = -(-out.shape[0] // (BLOCK // 32))
    launch(rows_by_vector, grid, BLOCK, a, x, out, number=out.dtype.type)
