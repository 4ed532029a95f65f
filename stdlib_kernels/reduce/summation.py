"""The sum of an array's elements, in two passes without atomics.

In the first pass each thread adds the elements a whole grid apart, each block then adds its
threads' sums by a tree in shared memory and stores one partial sum. The second pass is the same
kernel over the partial sums, with one block. The order of the additions depends on the number of
elements alone, so the result has the same bits on every device and in every run.

References
----------
Mark Harris, "Optimizing Parallel Reduction in CUDA", NVIDIA, 2007: the tree with sequential
addressing, and several elements a thread.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import kerneldsl as kd
from stdlib_kernels.arrays import (
    Array,
    accumulator_dtype,
    allocate,
    check_array,
    check_out,
    contiguous_1d,
    finish,
    on_device,
)

__all__ = ["sum"]

#: Threads of a block; a power of two, as the tree needs.
BLOCK = 256
#: Elements that a thread adds by itself before a further block is worth its cost.
ITEMS = 16
#: Largest number of blocks, so that one more block adds up what they leave.
MAX_BLOCKS = 1024


@cache
def block_sums(dtype: np.dtype[Any]) -> Any:
    """Make the kernel that adds in one dtype: ``(x[n], partial[blocks])``."""
    number = dtype.type

    @kd.kernel
    def block_sums(x, partial):
        tile = kd.shared.array(BLOCK, number)
        t = kd.threadIdx.x
        total = number(0)
        for i in range(kd.grid(1), x.size, kd.gridsize(1)):
            total += number(x[i])
        tile[t] = total
        kd.syncthreads()
        width = BLOCK // 2
        while width > 0:
            if t < width:
                tile[t] += tile[t + width]
            kd.syncthreads()
            width //= 2
        if t == 0:
            partial[kd.blockIdx.x] = tile[0]

    return block_sums


def sum(x: Array, *, out: Array | None = None) -> Any:
    """Add all elements of an array.

    Parameters
    ----------
    x : ndarray or device array
        Of any rank and layout; bool, integer, float or complex.
    out : array of rank 0, optional
        Where the sum goes, of the result's dtype and of `x`'s kind.

    Returns
    -------
    NumPy scalar, or device array of rank 0
        `out`, where it is given. Booleans and signed integers add up as int64, unsigned integers
        as uint64, and wrap around as in NumPy; floating numbers add up in their own dtype. The sum
        of no elements is 0.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        Where `x` is no array, or is of a dtype without a sum, or `out` does not fit.

    See Also
    --------
    numpy.sum

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import sum
    >>> int(sum(np.arange(10, dtype=np.int32)))
    45
    """
    check_array("x", x, kinds="biufc")
    dtype = accumulator_dtype(x.dtype)
    check_out(out, like=x, shape=(), dtype=dtype)
    source = on_device(contiguous_1d(x))
    blocks = min(MAX_BLOCKS, max(1, -(-source.size // (BLOCK * ITEMS))))
    partial = allocate(source, (blocks,), dtype)
    kernel = block_sums(dtype)
    kernel[blocks, BLOCK](source, partial)
    if blocks > 1:
        total = allocate(source, (1,), dtype)
        kernel[1, BLOCK](partial, total)
        partial = total
    return finish(partial.reshape(()), like=x, out=out)
