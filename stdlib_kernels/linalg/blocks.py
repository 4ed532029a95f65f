"""The product of two large matrices of floats on a GPU: each thread adds up 64 or 128 elements.

A block of 256 threads computes 128 rows of 128 or 256 columns. It goes along the inner dimension in
steps of `DEPTH`. Shared memory has two buffers for parts of both factors. While one is multiplied,
the next parts are loaded into the other one through registers. A thread reads eight numbers of each
factor, four neighbours at once, for 64 products, or for 128 in wide blocks. The lanes of a warp,
eight rows of four, read from different banks.

References
----------
V. Volkov and J. W. Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra", SC08 (2008): products
in registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch
from stdlib_kernels.checks import Array
from stdlib_kernels.vectors import read_vectors, vectors_of

__all__ = ["MAX_GRID_Y", "MIN_SIDE", "multiply_blocks"]

#: Rows of a block's part of the product, and columns for each half of a thread's sums; steps of the
#: inner dimension at a time.
SIDE, DEPTH = 128, 8
#: Threads; rows and columns of half a thread's part, in two groups of four.
THREADS, OWN = 256, 8
#: Distance of the two groups: the extent of a warp's lanes along rows and columns.
ROW_SPAN, COLUMN_SPAN = 32, 16
#: Numbers between the rows of the first factor's part, so that its columns are in different banks.
PAD = 4
#: Time of a block of two halves, relative to a block of one half: on an H100 it is 0.94 per half.
WIDE_TIME = 1.88
#: Fewest rows and columns of a product that fill a block well enough.
MIN_SIDE = 96
#: Most blocks of a grid along y on every device (CUDA C++ Programming Guide, "Technical
#: Specifications per Compute Capability").
MAX_GRID_Y = 65535


def _multiply(
    left: Any, right: Any, k: Any, row: Any, column: Any, sums: Any, more: Any, a: Any, b: Any
) -> None:
    """Add the products of one step to a thread's sums; `b` is as long as they have columns."""
    for g in range(2):
        read_vectors(left, k, row + g * ROW_SPAN, a, 4 * g, 4)
    for g in range(b.size // 4):
        read_vectors(right, k, column + g * COLUMN_SPAN, b, 4 * g, 4)
    _add(sums, a, b, 0)
    if b.size > OWN:
        _add(more, a, b, OWN)


def _add(sums: Any, a: Any, b: Any, first: Any) -> None:
    for i in range(OWN):
        for j in range(OWN):
            sums[i, j] += a[i] * b[first + j]


def _store_vectors(outs: Any, sums: Any, top: Any, first: Any) -> None:
    """Store a half of a thread's sums, both looked at as vectors."""
    width = len(outs[0, 0])
    for i in range(OWN):
        for j in range(0, OWN, width):
            c = first + j // 4 * COLUMN_SPAN + j % 4
            outs[top + i // 4 * ROW_SPAN + i % 4, c // width] = sums[i, j // width]


def _store_row(out: Any, sums: Any, i: Any, top: Any, first: Any) -> None:
    r = top + i // 4 * ROW_SPAN + i % 4
    for j in range(OWN):
        c = first + j // 4 * COLUMN_SPAN + j % 4
        if r < out.shape[0] and c < out.shape[1]:
            out[r, c] = sums[i, j]


def _store(out: Any, sums: Any, top: Any, first: Any) -> None:
    """Store those of half of a thread's sums that are within the product."""
    # Written out, the sums stay in registers.
    _store_row(out, sums, 0, top, first)
    _store_row(out, sums, 1, top, first)
    _store_row(out, sums, 2, top, first)
    _store_row(out, sums, 3, top, first)
    _store_row(out, sums, 4, top, first)
    _store_row(out, sums, 5, top, first)
    _store_row(out, sums, 6, top, first)
    _store_row(out, sums, 7, top, first)


@kd.kernel(wraparound=False, launch_bounds=THREADS)
def matmul_blocks(a, b, out, *, number, vector, halves, whole):
    """Multiply: ``a[m, k], b[k, n], out[m, n]``; `whole` blocks are read by vectors."""
    left = kd.shared.array((2 * DEPTH, SIDE + PAD), number)
    right = kd.shared.array((2 * DEPTH, halves * SIDE), number)
    lefts, rights = kd.view(left, vector), kd.view(right, vector)
    # The second half has a separate array, since otherwise ptxas chooses worse registers.
    sums, more = kd.local.array((OWN, OWN), number), kd.local.array((OWN, OWN), number)
    near_a, near_b = kd.local.array(OWN, number), kd.local.array(halves * OWN, number)
    next_a, next_b = kd.local.array(4, number), kd.local.array(4 * halves, number)
    t = kd.threadIdx.x
    warp, lane = t // 32, t % 32
    row = warp % 2 * (2 * ROW_SPAN) + lane // 4 * 4
    column = warp // 2 * (2 * halves * COLUMN_SPAN) + lane % 4 * 4
    top, first = kd.blockIdx.y * SIDE, kd.blockIdx.x * halves * SIDE
    # Beyond the last row or column, it is read again and not stored. Beyond the inner dimension
    # there are zeros.
    inner, last_row, last_column = a.shape[1], a.shape[0] - 1, b.shape[1] - 1
    # A thread loads four neighbours of a row of a, and of one of b for each half.
    ar, ak = t // 2, t % 2 * 4
    bk, bc = t // 32, t % 32 * 4
    for i in range(OWN):
        for j in range(OWN):
            sums[i, j] = number(0)
            more[i, j] = number(0)
    for start in range(-DEPTH, inner, DEPTH):
        now = start // DEPTH % 2 * DEPTH
        k = start + DEPTH
        if k < inner:
            if whole:
                read_vectors(kd.view(a, vector), top + ar, k + ak, next_a, 0, 4)
                for h in range(halves):
                    c = first + h * SIDE + bc
                    read_vectors(kd.view(b, vector), k + bk, c, next_b, 4 * h, 4)
            else:
                for i in range(4):
                    ka = k + ak + i
                    next_a[i] = number(a[min(top + ar, last_row), ka]) if ka < inner else number(0)
                for i in range(4 * halves):
                    c = min(first + i // 4 * SIDE + bc + i % 4, last_column)
                    next_b[i] = number(b[k + bk, c]) if k + bk < inner else number(0)
        if start >= 0:
            # Written out, the steps' loads are under way before their products.
            _multiply(lefts, rights, now + 0, row, column, sums, more, near_a, near_b)
            _multiply(lefts, rights, now + 1, row, column, sums, more, near_a, near_b)
            _multiply(lefts, rights, now + 2, row, column, sums, more, near_a, near_b)
            _multiply(lefts, rights, now + 3, row, column, sums, more, near_a, near_b)
            _multiply(lefts, rights, now + 4, row, column, sums, more, near_a, near_b)
            _multiply(lefts, rights, now + 5, row, column, sums, more, near_a, near_b)
            _multiply(lefts, rights, now + 6, row, column, sums, more, near_a, near_b)
            _multiply(lefts, rights, now + 7, row, column, sums, more, near_a, near_b)
        if k < inner:
            for i in range(4):
                left[DEPTH - now + ak + i, ar] = next_a[i]
            for i in range(4 * halves):
                right[DEPTH - now + bk, i // 4 * SIDE + bc + i % 4] = next_b[i]
        kd.syncthreads()
    row, column = top + row, first + column
    if whole:
        outs = kd.view(out, vector)
        _store_vectors(outs, kd.view(sums, vector), row, column)
        if halves == 2:
            _store_vectors(outs, kd.view(more, vector), row, column + 2 * COLUMN_SPAN)
    else:
        _store(out, sums, row, column)
        if halves == 2:
            _store(out, more, row, column + 2 * COLUMN_SPAN)


def multiply_blocks(a: Array, b: Array, out: Array) -> None:
    """Multiply two matrices of any size into a third one of a float dtype."""
    vectors, halves = vectors_of(out.dtype, a, b, out), _halves(out)
    is_whole = not (out.shape[0] % SIDE or out.shape[1] % (halves * SIDE) or a.shape[1] % DEPTH)
    how = {"vector": vectors["vector"], "whole": is_whole and vectors["width"] > 1}
    kernel: Any = matmul_blocks
    member = kernel.member(number=out.dtype.type, halves=halves, **how)
    most = MAX_GRID_Y * SIDE
    for top in range(0, out.shape[0], most):
        part = out[top : top + most]
        grid = (-(-part.shape[1] // (halves * SIDE)), -(-part.shape[0] // SIDE))
        launch(member, grid, THREADS, a[top : top + most], b, part)


def _halves(out: Array) -> int:
    """Return 2 where wide blocks, one at a time on a multiprocessor, are done sooner."""
    if out.dtype != np.float32:
        return 1  # of float64 the sums fill the registers
    device: Any = out.device
    multiprocessors: int = device.limits.multiprocessor_count

    def rounds(columns: int) -> int:
        blocks = -(-out.shape[0] // SIDE) * -(-out.shape[1] // columns)
        return -(-blocks // multiprocessors)

    return 2 if WIDE_TIME * rounds(2 * SIDE) < rounds(SIDE) else 1
