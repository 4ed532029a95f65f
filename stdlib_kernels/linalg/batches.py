"""Products of many small matrices, and of a matrix and a vector."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch, launch_over, refuse_to_repeat
from stdlib_kernels.arrays import contiguous_1d, is_contiguous, is_on_host, to_like
from stdlib_kernels.checks import Array
from stdlib_kernels.vectors import read_vectors, vectors_of

__all__ = ["multiply_batches", "multiply_vector", "places_of"]

#: Largest extent of a product that is a constant of the code.
MAX_CONSTANT = 32
#: Most neighbours of a row that a thread adds up, on a GPU; on the host one, and lanes do the rest.
MAX_OWN = 4
#: Threads of a block that multiplies rows by a vector, a warp for each.
BLOCK = 256
#: Neighbours of 16 bits that a lane reads at once, and how many such reads are under way.
NEAR, AHEAD = 4, 8


@kd.kernel(wraparound=False)
def matmul_small(
    a, b, places_a, places_b, out, m,
    *, rows, depth, parts, own, number, vector, width, repeats_a, repeats_b,
):  # fmt: skip
    """Add up `own` neighbours of a product by a thread: ``a[s m, k], b[t k, n], out[p m, n]``.

    ``places_a[p]`` and ``places_b[p]`` are factors of product p, where some are in several. Numbers
    are read `width` at once. `rows`, `depth` and `parts` are extents, or 0 for those of any length.
    """
    at = kd.grid(1)
    m, inner, across = rows or m, depth or a.shape[1], parts or out.shape[1] // own
    row, j = at // across, at % across * own
    p = row // m
    u = places_a[p] * m + row % m if repeats_a else row
    v = (places_b[p] if repeats_b else p) * inner
    near_a, near_b = kd.local.array(width, number), kd.local.array(own, number)
    sums = kd.local.array(own, number)
    for c in range(own):
        sums[c] = number(0)
    for k in range(0, inner, width):
        if width > 1:
            read_vectors(kd.view(a, vector), u, k, near_a, 0, width)
        else:
            near_a[0] = number(a[u, k])
        for s in range(width):
            if width > 1:
                read_vectors(kd.view(b, vector), v + k + s, j, near_b, 0, own)
            else:
                for c in range(own):
                    near_b[c] = number(b[v + k, j + c])
            for c in range(own):
                sums[c] += near_a[s] * near_b[c]
    for c in range(own):
        out[row, j + c] = sums[c]


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


@kd.func
def _add_near(rows, at, near, c, total, number):
    left, right = rows[at], near[c]
    for i in range(NEAR):
        one, two = kd.bitcast(left[i], number), kd.bitcast(right[i], number)
        total = kd.fma(kd.float32(one), kd.float32(two), total)
    return total


@kd.kernel(wraparound=False)
def halves_by_vector(a, x, out, *, number):
    """Multiply a row of 16-bit floats by the vector by a warp: ``a[m * k], x[k], out[m]``.

    The arrays have the bits of the numbers.
    """
    rows, near = kd.view(a, kd.uint16x4), kd.view(x, kd.uint16x4)
    row = kd.blockIdx.x * (BLOCK // 32) + kd.threadIdx.x // 32
    total, count = kd.float32(0), near.shape[0]
    if row < out.size:
        whole = count // (32 * AHEAD) * (32 * AHEAD)
        for first in range(kd.laneid, whole, 32 * AHEAD):
            for i in range(AHEAD):
                c = first + 32 * i
                total = _add_near(rows, row * count + c, near, c, total, number)
        for c in range(whole + kd.laneid, count, 32):
            total = _add_near(rows, row * count + c, near, c, total, number)
    total = kd.warp.sum(total)
    if row < out.size and kd.laneid == 0:
        out[row] = total


def multiply_batches(a: Array, b: Array, out: Array, batches: tuple[Any, Any, Any]) -> None:
    """Multiply ``a[s, m, k]`` by ``b[t, k, n]`` into ``out[p, m, n]``.

    `batches` are the shapes of the factors' other axes, and what they are broadcast to.
    """
    places = [places_of(shape, batches[2]) for shape in batches[:2]]
    taken = [out if each is None else to_like(out, each) for each in places]
    if any(each is not None for each in places):
        refuse_to_repeat()
    _, rows, columns = out.shape
    vectors, most = vectors_of(out.dtype, a, b), MAX_OWN
    extents = {"rows": rows, "depth": a.shape[2]}
    if is_on_host(out):
        vectors["width"] = most = 1
        extents["rows"] = 0
    own = max(n for n in range(1, most + 1) if columns % n == n % vectors["width"] == 0)
    extents["parts"] = columns // own if extents["rows"] else 0
    how = {name: n if n <= MAX_CONSTANT else 0 for name, n in extents.items()}
    how |= {"own": own, "number": out.dtype.type, **vectors}
    how |= {"repeats_a": places[0] is not None, "repeats_b": places[1] is not None}
    flat = (contiguous_1d(x).reshape((x.shape[0] * x.shape[1], x.shape[2])) for x in (a, b))
    arrays = (*flat, *taken, out.reshape((-1, columns)))
    launch_over(matmul_small, (out.size // own,), *arrays, rows, **how)


def places_of(shape: tuple[int, ...], wanted: tuple[int, ...]) -> np.ndarray[Any, Any] | None:
    """Return the matrix number of each product, or ``None`` if each has its own."""
    if shape == wanted:
        return None
    numbers = np.arange(math.prod(shape)).reshape(shape)
    return np.broadcast_to(numbers, wanted).reshape(-1)


def multiply_vector(a: Array, x: Array, out: Array, number: np.dtype[Any]) -> None:
    """Multiply ``a[m, k]`` by ``x[k]`` into ``out[m]``, in the dtype `number`."""
    grid = -(-out.shape[0] // (BLOCK // 32))
    is_near = is_contiguous(a) and is_contiguous(x) and a.shape[1] % NEAR == 0
    if a.dtype == x.dtype and a.dtype.itemsize == 2 and number.kind == "f" and is_near:
        bits = (contiguous_1d(a).view(np.uint16), x.view(np.uint16))
        launch(halves_by_vector, grid, BLOCK, *bits, out, number=a.dtype.type)
    else:
        launch(rows_by_vector, grid, BLOCK, a, x, out, number=number.type)
