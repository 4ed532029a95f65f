"""The product of two large matrices of floats on a GPU: each thread adds up 64 elements.

A block of 256 threads makes 128 rows of 128 columns. It walks along the inner dimension in steps of
`DEPTH`: the parts of both factors lie in shared memory, and while they are multiplied, the next
ones are on their way to registers. Of each factor a thread reads eight numbers for 64 products.

References
----------
V. Volkov and J. W. Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra", SC08 (2008): products
in registers.
"""

from __future__ import annotations

from typing import Any

import kerneldsl as kd
from stdlib_kernels.arrays import Array
from stdlib_kernels.repeating import launch

__all__ = ["MIN_SIDE", "multiply_blocks"]

#: Rows and columns of a block's part of the product; steps of the inner dimension at a time.
SIDE, DEPTH = 128, 8
#: Threads; rows and columns of a thread's part, `STRIDE` apart, so that neighbouring threads read
#: neighbouring numbers.
THREADS, OWN, STRIDE = 256, 8, 16
#: Numbers between the rows of the first factor's part, so that its columns lie in different banks.
PAD = 4
#: Fewest rows and columns of a product that fill a block well enough.
MIN_SIDE = 96
#: Most blocks of a grid along y on every device.
MAX_GRID_Y = 65535


def _multiply(
    left: Any, right: Any, k: Any, row: Any, column: Any, sums: Any, a: Any, b: Any
) -> None:
    """Add the products of one step to a thread's sums."""
    for i in range(OWN):
        a[i] = left[k, row + STRIDE * i]
        b[i] = right[k, column + STRIDE * i]
    for i in range(OWN):
        for j in range(OWN):
            sums[i, j] += a[i] * b[j]


def _store(out: Any, sums: Any, i: Any, r: Any, c: Any) -> None:
    """Store a row of a thread's sums."""
    if r < out.shape[0]:
        for j in range(OWN):
            if c + STRIDE * j < out.shape[1]:
                out[r, c + STRIDE * j] = sums[i, j]


@kd.kernel(wraparound=False)
def matmul_blocks(a, b, out, *, number):
    """Multiply: ``a[m, k], b[k, n], out[m, n]``."""
    left = kd.shared.array((DEPTH, SIDE + PAD), number)
    right = kd.shared.array((DEPTH, SIDE), number)
    sums = kd.local.array((OWN, OWN), number)
    near_a = kd.local.array(OWN, number)
    near_b = kd.local.array(OWN, number)
    next_a = kd.local.array(4, number)
    next_b = kd.local.array(4, number)
    t = kd.threadIdx.x
    row, column = t // STRIDE, t % STRIDE
    top, first = kd.blockIdx.y * SIDE, kd.blockIdx.x * SIDE
    inner = a.shape[1]
    # What a thread loads: four neighbours of a row of a, and every 32nd of a row of b.
    ar, ak = top + t // 2, t % 2 * 4
    bk, bc = t // 32, first + t % 32
    for i in range(OWN):
        for j in range(OWN):
            sums[i, j] = number(0)
    # Beyond the edges are zeros: those threads' infinities never meet an element of the product.
    for r in range(4):
        is_a, is_b = ar < a.shape[0] and ak + r < inner, bk < inner and bc + 32 * r < b.shape[1]
        next_a[r] = number(a[ar, ak + r]) if is_a else number(0)
        next_b[r] = number(b[bk, bc + 32 * r]) if is_b else number(0)
    for start in range(DEPTH, inner + DEPTH, DEPTH):
        for r in range(4):
            left[ak + r, t // 2] = next_a[r]
            right[bk, t % 32 + 32 * r] = next_b[r]
        kd.syncthreads()
        for r in range(4):
            k, c = start + ak + r, bc + 32 * r
            is_a, is_b = ar < a.shape[0] and k < inner, start + bk < inner and c < b.shape[1]
            next_a[r] = number(a[ar, k]) if is_a else number(0)
            next_b[r] = number(b[start + bk, c]) if is_b else number(0)
        # Written out, the steps stay in registers.
        _multiply(left, right, 0, row, column, sums, near_a, near_b)
        _multiply(left, right, 1, row, column, sums, near_a, near_b)
        _multiply(left, right, 2, row, column, sums, near_a, near_b)
        _multiply(left, right, 3, row, column, sums, near_a, near_b)
        _multiply(left, right, 4, row, column, sums, near_a, near_b)
        _multiply(left, right, 5, row, column, sums, near_a, near_b)
        _multiply(left, right, 6, row, column, sums, near_a, near_b)
        _multiply(left, right, 7, row, column, sums, near_a, near_b)
        kd.syncthreads()
    _store(out, sums, 0, top + row, first + column)
    _store(out, sums, 1, top + row + STRIDE, first + column)
    _store(out, sums, 2, top + row + 2 * STRIDE, first + column)
    _store(out, sums, 3, top + row + 3 * STRIDE, first + column)
    _store(out, sums, 4, top + row + 4 * STRIDE, first + column)
    _store(out, sums, 5, top + row + 5 * STRIDE, first + column)
    _store(out, sums, 6, top + row + 6 * STRIDE, first + column)
    _store(out, sums, 7, top + row + 7 * STRIDE, first + column)


def multiply_blocks(a: Array, b: Array, out: Array) -> None:
    """Multiply two matrices of any size into a third one, whose dtype is a float."""
    most = MAX_GRID_Y * SIDE
    for top in range(0, out.shape[0], most):
        part = out[top : top + most]
        grid = (-(-part.shape[1] // SIDE), -(-part.shape[0] // SIDE))
        launch(matmul_blocks, grid, THREADS, a[top : top + most], b, part, number=out.dtype.type)
