"""The product of two matrices on a CPU: each thread adds up eight elements of a column.

A panel contains `WIDTH` bytes of each row of the second factor, one row after the other, and is
read from its beginning to its end. The threads of a block are its columns. A row of them is two
vectors of the widest processors, and the sums of eight rows are sixteen, which fit into registers.
If there are fewer last rows or columns, the preceding ones are computed once more, with the same
bits.

References
----------
K. Goto and R. A. van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM
Transactions on Mathematical Software 34 (2008): panels in the cache's order.
"""

from __future__ import annotations

from typing import Any

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch
from stdlib_kernels.arrays import allocate
from stdlib_kernels.checks import Array

__all__ = ["fits_panels", "multiply_panels"]

#: Rows that a thread adds up: as many as the kernel has sums.
ROWS = 8
#: Bytes of a panel's row.
WIDTH = 128
#: Rows of the second factor that a block copies.
COPIED = 64
#: Fewest products for which it pays to copy, and to launch twice.
MIN_PRODUCTS = 1 << 18


@kd.kernel(wraparound=False)
def copy_to_panels(b, panels, *, number, columns):
    """Copy neighbouring columns: ``b[k, n]`` to ``panels[p, k, columns]``."""
    t, p = kd.threadIdx.x, kd.blockIdx.x
    c = min(p * columns, b.shape[1] - columns) + t
    first = kd.blockIdx.y * COPIED
    for k in range(first, min(first + COPIED, b.shape[0])):
        panels[p, k, t] = number(b[k, c])


@kd.kernel(wraparound=False)
def matmul_panels(a, panels, out, *, number, columns):
    """Multiply: ``a[m, k], panels[p, k, columns], out[m, n]``."""
    t, p = kd.threadIdx.x, kd.blockIdx.x
    c = min(p * columns, out.shape[1] - columns) + t
    top = min(kd.blockIdx.y * ROWS, out.shape[0] - ROWS)
    sums = kd.local.array(ROWS, number)
    for r in range(ROWS):
        sums[r] = number(0)
    for k in range(a.shape[1]):
        x = panels[p, k, t]
        for r in range(ROWS):
            sums[r] += number(a[top + r, k]) * x
    for r in range(ROWS):
        out[top + r, c] = sums[r]


def fits_panels(out: Array, inner: int) -> bool:
    """Return whether a product on the host is large enough, and of numbers that vectors hold."""
    dtype, (rows, columns) = out.dtype, out.shape[-2:]
    is_of_vectors = dtype.kind in "iuf" and dtype.itemsize >= 4
    has_room = rows >= ROWS and columns * dtype.itemsize >= WIDTH
    return is_of_vectors and has_room and rows * columns * inner >= MIN_PRODUCTS


def multiply_panels(a: Array, b: Array, out: Array) -> None:
    """Multiply two matrices on the host into a third one of fitting size."""
    columns = WIDTH // out.dtype.itemsize
    static: dict[str, Any] = {"number": out.dtype.type, "columns": columns}
    inner, count = b.shape[0], -(-out.shape[1] // columns)
    panels = allocate(out, (count, inner, columns), out.dtype)
    launch(copy_to_panels, (count, -(-inner // COPIED)), columns, b, panels, **static)
    launch(matmul_panels, (count, -(-out.shape[0] // ROWS)), columns, a, panels, out, **static)
