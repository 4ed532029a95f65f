"""Counts of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from kerneldsl.repeating.recorded_calls import end_by, launch
from stdlib_kernels.arrays import (
    allocate,
    computed,
    contiguous_1d,
    finish,
    is_on_host,
    on_device,
    to_host,
)
from stdlib_kernels.checks import Array, check_alike, check_array
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.histogram.counting import count_bins, itself
from stdlib_kernels.operations import larger
from stdlib_kernels.parameters import integer_of, integers_in, wrong_value
from stdlib_kernels.reduce.arrangement import arrange
from stdlib_kernels.reduce.folding import Rule, fold

__all__ = ["bincount", "checked_weights"]

#: Dtypes with few values, all at least 0.
_SHORT = ("bool", "uint8")
#: The dtype in which a GPU counts faster than in int64: twice as many fit into its registers.
_NARROW = np.dtype(np.int32)
#: The largest number of counters.
MAX_BINS = 1 << 31
#: The largest number of integers that one thread of a host counts.
FEW = 1 << 10
_NEGATIVE = np.iinfo(np.int64).max


def _or_negative(v: Any, w: Any, parameter: Any) -> Any:
    """Return a value, or for a negative value one that is larger than all others."""
    return v if v >= 0 else _NEGATIVE


@kd.kernel(wraparound=False)
def count_few(x, counts, largest):
    """Count integers that have a counter, and find the largest one, by one thread."""
    found = np.int64(-1)
    for i in range(x.size):
        v = np.int64(x[i])
        found = max(found, v if v >= 0 else np.int64(_NEGATIVE))
        if v >= 0 and v < counts.size:
            counts[v] += 1
    largest[0] = found


@repeated_function
def bincount(x: Array, weights: Array | None = None, minlength: int = 0) -> Any:
    """Count how often each integer occurs, or add up the weights of its occurrences.

    Parameters
    ----------
    x : array of shape (n,)
        bool or integer, at least 0; any layout.
    weights : array of shape (n,), optional
        Same kind as `x`; bool, integer or float.
    minlength : int
        The minimum length of the result.

    Returns
    -------
    int64 or float64 array
        Same kind as `x`, with an element for each integer up to the largest one in `x`. With
        weights of elements it is float64. On a GPU, weights are added in another order at each
        launch.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If an array has another dtype or rank, or `weights` another length.
    kerneldsl.errors.ArgumentValueError
        If an element or `minlength` is negative.

    See Also
    --------
    numpy.bincount

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.histogram import bincount
    >>> bincount(np.array([0, 1, 1, 3])).tolist()
    [1, 2, 0, 1]
    """
    check_array("x", x, dtypes=integers_in(x, "biu"), ndim=1)
    # Without elements, the result is counts without weights, as in NumPy.
    weighted = checked_weights(weights, x) if x.size or weights is None else None
    least = integer_of("minlength", minlength, 0, MAX_BINS)
    source = contiguous_1d(on_device(x))
    if x.dtype.name in ("uint64", "float64"):  # int64 holds all integers that may have a counter
        source = source.view(np.int64)
    if x.size <= FEW and weighted is None and is_on_host(source):
        counts = allocate(source, (max(least, 256),), np.dtype(np.int64), zero=True)
        largest = allocate(source, (1,), np.dtype(np.int64))
        launch(count_few, 1, 1, source, counts, largest)
        return end_by(_counted_already, counts, largest, least, source, x)
    if x.dtype.name in _SHORT and x.size and weighted is None:
        # The counts of few possible values show the largest one.
        counts = count_bins(source, source, max(least, 256), itself, _NARROW)
        return end_by(_used, counts, least, x)
    return end_by(_counted, _largest(source), least, source, weighted, x)


def _counted_already(counts: Array, largest: Array, least: int, x: Array, like: Array) -> Any:
    """Return the counters if they are enough for the largest integer, or count again."""
    last = int(computed(largest, -1))
    if last >= counts.size:
        return _counted(largest, least, x, None, like)
    return finish(counts[: max(least, last + 1)], like=like)


def _used(counts: Array, least: int, like: Array) -> Any:
    """Return the counters up to the last nonzero one."""
    used = np.flatnonzero(to_host(counts[:256])).max(initial=-1) + 1
    return finish(counts[: max(least, int(used))], like=like)


def _counted(found: Array, least: int, x: Array, weights: Array | None, like: Array) -> Any:
    """Count integers; an array of one element has the largest."""
    largest = int(computed(found, -1))
    if largest == _NEGATIVE:
        what = f"an element of x is {'negative' if like.dtype.kind == 'i' else '2**63 or more'}"
        limit = "Elements must be from 0 to 2**63 - 1"
        raise ArgumentValueError(what, value=x, limit=limit, remedy="Subtract reduce.min(x) from x")
    bins = max(least, largest + 1)
    if bins > MAX_BINS:
        remedy = "Count the ranks of the elements, or use histogram.histogram with edges"
        limit = f"There is a counter for each integer up to it, {MAX_BINS} at most"
        raise wrong_value("an element of x", bins - 1, limit, remedy)
    number = _NARROW if np.can_cast(x.dtype, _NARROW) else np.dtype(np.int64)
    return finish(count_bins(x, x, bins, itself, number, weights=weights), like=like)


def checked_weights(weights: Any, x: Array) -> Array | None:
    """Return weights on the device of kernels, one for each element of an array."""
    if weights is None:
        return None
    check_array("weights", weights, kinds="biuf", halves=True)
    check_alike("weights", weights, "x", x)
    return contiguous_1d(on_device(weights))


def _largest(x: Array) -> Array:
    """Return the largest element as an array of one element, or -1 if there is none."""
    rule = Rule(larger, np.int64(-1), np.int64, lift=_or_negative)
    result = allocate(x, (1, 1, 1), np.dtype(np.int64))
    fold(rule, arrange(x, (0,))[0], result)
    return result
