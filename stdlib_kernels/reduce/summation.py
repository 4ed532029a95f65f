"""The sum of an array's elements, in two passes without atomics.

In the first pass each block adds up one chunk of the array; the second pass is the same kernel over
those sums, with one block. The order of the additions depends on the number of elements alone, so
the result has the same bits on every device and in every run.
"""

from __future__ import annotations

from typing import Any

from kerneldsl.utilities.tracebacks import shorten_errors
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
from stdlib_kernels.reduce.chunks import BLOCK, chunk_sums

__all__ = ["sum"]

#: Elements of a chunk at least, so that a block is worth its cost.
MIN_CHUNK = 16 * BLOCK
#: Largest number of chunks, so that one more block adds up what they leave.
MAX_CHUNKS = 1024


@shorten_errors
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
    kernel = chunk_sums(dtype, keeps_sign=False)
    chunk = max(MIN_CHUNK, -(-source.size // MAX_CHUNKS))
    chunks = max(1, -(-source.size // chunk))
    sums = allocate(source, (chunks,), dtype)
    kernel[chunks, BLOCK](source, sums, chunk)
    if chunks > 1:
        total = allocate(source, (1,), dtype)
        kernel[1, BLOCK](sums, total, chunks)
        sums = total
    return finish(sums.reshape(()), like=x, out=out)
