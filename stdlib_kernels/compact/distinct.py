"""Elements that differ from those before them, and those that differ from all others."""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.utilities.flags import read_flag
from stdlib_kernels.arrays import Array, allocate, check_array, contiguous_1d, finish, on_device
from stdlib_kernels.compact.chosen import begins_run, choose
from stdlib_kernels.functions import library_function
from stdlib_kernels.sort.rows import as_rows, sort_rows

__all__ = ["run_length", "unique"]


@kd.kernel(wraparound=False)
def measure_runs(x, starts, n, values, lengths):
    """Describe runs by their starts: ``x[n], starts[m], values[m], lengths[m]``."""
    i = kd.grid(1)
    if i < starts.size:
        end = starts[i + 1] if i + 1 < starts.size else n
        values[i] = x[starts[i]]
        lengths[i] = end - starts[i]


@library_function
def run_length(x: Array) -> Any:
    """Find the runs of equal elements.

    {parameters: array}
    {returns: values : array of shape (m,)}
        The element of each run, in the order of the elements in C order; of `x`'s kind and dtype.
        NaN are equal to each other, and 0 and -0 are.
    lengths : int64 array of shape (m,)
        How many there are of it, of `x`'s kind.
    {raises and see: numpy.unique}
    {examples}
    >>> values, lengths = run_length(np.array([7, 7, 3, 7]))
    >>> values.tolist(), lengths.tolist()
    ([7, 3, 7], [2, 1, 1])
    """
    check_array("x", x, halves=True)
    return tuple(finish(e, like=x, out=None) for e in _runs(contiguous_1d(on_device(x))))


@library_function
def unique(x: Array, *, return_counts: bool = False) -> Any:
    """Find the elements that differ from each other, in rising order.

    They are sorted for that.

    {parameters: real array}
    return_counts : bool
        Whether the result has how many there are of each, too.
    {returns: values : array of shape (m,)}
        Of `x`'s kind and dtype. NaN are equal to each other and come last; 0 and -0 are equal.
    counts : int64 array of shape (m,), where `return_counts` is True
    {raises and see: numpy.unique}
    {examples}
    >>> unique(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    check_array("x", x, kinds="biuf", halves=True)
    asked = read_flag("return_counts", return_counts)
    rows, restored = as_rows(on_device(x), None)
    ordered = restored(sort_rows(rows)[0])
    if not asked:
        return finish(choose(ordered, ordered, begins_run), like=x, out=None)
    return tuple(finish(each, like=x, out=None) for each in _runs(ordered))


def _runs(x: Array) -> tuple[Array, Array]:
    starts = choose(x, None, begins_run)
    values = allocate(x, starts.shape, x.dtype)
    lengths = allocate(x, starts.shape, np.dtype(np.int64))
    if starts.size:
        measure_runs.forall(starts.size)(x, starts, x.size, values, lengths)
    return values, lengths
