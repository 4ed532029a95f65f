"""The kernel under sums and scans: each block adds up one chunk of an array.

A block walks through its chunk a row of `BLOCK` elements at a time, each thread adds up one column
of the rows, and a tree in shared memory adds up the threads' sums. All threads take the same
number of steps, and only the last row is guarded, which lets a CPU run neighbouring threads as the
lanes of one vector.

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

__all__ = ["BLOCK", "chunk_sums", "neutral_element"]

#: Threads of a block; a power of two, as the tree needs.
BLOCK = 256


def neutral_element(dtype: np.dtype[Any], *, keeps_sign: bool) -> Any:
    """Return a number to begin a sum with.

    Parameters
    ----------
    dtype : dtype
        Of the sum.
    keeps_sign : bool
        A sum of negative zeros is a negative zero. That takes -0 to begin with, since 0 + -0 is 0.
    """
    return dtype.type(-0.0 if keeps_sign and dtype.kind == "f" else 0)


@cache
def chunk_sums(dtype: np.dtype[Any], *, keeps_sign: bool) -> Any:
    """Make the kernel that adds in one dtype: ``(x[n], sums[chunks], chunk)``.

    Block b stores the sum of the elements from ``b * chunk`` on, `chunk` of them or what is left.
    """
    number = dtype.type
    neutral = neutral_element(dtype, keeps_sign=keeps_sign)

    @kd.kernel(wraparound=False)
    def chunk_sums(x, sums, chunk):
        tile = kd.shared.array(BLOCK, number)
        t = kd.threadIdx.x
        first = kd.blockIdx.x * chunk
        last = min(first + chunk, x.size)
        whole = first + (last - first) // BLOCK * BLOCK
        total = neutral
        for row in range(first, whole, BLOCK):
            total += number(x[row + t])
        if whole + t < last:
            total += number(x[whole + t])
        tile[t] = total
        kd.syncthreads()
        width = BLOCK // 2
        while width > 0:
            if t < width:
                tile[t] += tile[t + width]
            kd.syncthreads()
            width //= 2
        if t == 0:
            sums[kd.blockIdx.x] = tile[0]

    return chunk_sums
