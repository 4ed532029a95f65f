"""Assignments, expressions and reductions of rows."""

from __future__ import annotations

import warnings

import numpy as np

import kerneldsl as kd
from tests.support.arrays import HOST_DTYPES, poisoned, strided
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("rows")
CASES = _list.cases

WEIGHTS = np.array([1, -2, 3, -4, 5], np.int64)
WEIGHTS.setflags(write=False)


def _pairs(dtype=np.int64, columns=5):
    def make(rng):
        def array():
            return rng.integers(1, 9, (37, columns)).astype(dtype)

        return array(), array(), poisoned((37, columns), dtype)

    return make


def _case(function, dtype=np.int64, name=None, **fields):
    """Add an element kernel of signature (x, y, out), each of 37 rows."""
    _list.add(name or function.__name__, function, _pairs(dtype), extent=(37,), **fields)
    return function


@_case
@kd.kernel
def assigned(x, y, out):
    i = kd.grid(1)
    out[i, :] = x[i, :]
    y[i] = x[(i + 1) % 37]


@_case
@kd.kernel
def parts(x, y, out):
    i = kd.grid(1)
    out[i, 3:] = 7
    out[i, :2] = x[i, 2:4]
    out[i, 2:3] = y[i, -1:]
    y[i, ::2] = x[i, 1:4] * 2
    y[i, 1] = 100


@_case
@kd.kernel
def in_place(x, y, out):
    i = kd.grid(1)
    out[i] = 1
    out[i] += x[i] * y[i]
    out[i, 1:4] -= y[i, 2:]
    x[i] *= x[i, 0]
    x[i] -= x[i]


@_case
@kd.kernel
def expressions(x, y, out):
    i = kd.grid(1)
    k = x[i, 0]
    out[i] = (x[i] + k) * y[i] - WEIGHTS * -x[i] + abs(WEIGHTS) // 2
    y[i] = np.maximum(x[i], y[i, 2]) * np.minimum(y[i], 4)


@_case
@kd.kernel
def views_in_variables(x, y, out):
    i = kd.grid(1)
    mine, row = out[i], x[i, 1:]
    mine[:] = y[i]
    mine[:4] += row
    mine[4] = row[3]
    last = mine[3:]
    last[:] = last * 2


@kd.func
def put(array, i, row, factor=2):
    array[i] = row * factor


def swap(array, i):
    mine = kd.local.array(5, np.int64)
    mine[:] = array[i]
    array[i, 1:] = mine[:4]
    array[i, 0] = mine[4]


@_case
@kd.kernel
def in_functions(x, y, out):
    i = kd.grid(1)
    put(out, i, x[i])
    put(y, i, y[i], 3)
    swap(x, i)


@kd.kernel
def of_a_tuple(pair, out):
    i = kd.grid(1)
    out[i] = pair[0][i] + pair[1][i]


def _tuple(rng):
    x, y, out = _pairs()(rng)
    return (x, y), out


_list.add("of_a_tuple", of_a_tuple, _tuple, extent=(37,))


def _blocks(rng):
    return rng.integers(-9, 9, (3, 4, 5)), poisoned((3, 4, 5), np.int64)


@kd.kernel
def planes(x, out):
    i = kd.grid(1)
    out[i] = x[i] * 2
    out[i, 1:3] += x[i, 0]
    out[i, :, 4] = x[i, :, 0]


_list.add("planes", planes, _blocks, extent=(3,))


@kd.kernel
def any_strides(x, y, out):
    i = kd.grid(1)
    out[i] = x[i] - y[:, i]


def _strided(rng):
    x = strided(rng.integers(-9, 9, (37, 5)), (2, -3))
    return x, np.asfortranarray(rng.integers(-9, 9, (5, 37))), poisoned((37, 5), np.int64, "F")


_list.add("any_strides", any_strides, _strided, extent=(37,))


@kd.kernel
def through_shared_memory(x, y, out):
    tile = kd.shared.array((37, 5), np.int64)
    t = kd.threadIdx.x
    tile[t] = x[t]
    kd.syncthreads()
    out[t] = tile[(t + 1) % 37] + tile[0].max()


_list.add("through_shared_memory", through_shared_memory, _pairs(), grid=(1,), block=(37,))


def _reductions(dtype):
    @kd.kernel
    def reductions(x, y, out):
        i = kd.grid(1)
        out[i, 0] = x[i].sum()
        out[i, 1] = x[i, 1:3].prod()
        out[i, 2] = x[i].max() - y[i, ::2].min()
        out[i, 3] = np.dot(x[i], y[i]) if x[i].any() and y[i, :0].all() else dtype(0)
        out[i, 4] = np.sum(y[i]) + np.max(y[i])

    return reductions


for _name in HOST_DTYPES:
    if np.dtype(_name).kind in "iuf" and np.dtype(_name).itemsize > 1:
        _case(_reductions(np.dtype(_name).type), _name, f"reductions_{_name}")


@kd.kernel
def means_and_places(x, y, out):
    i = kd.grid(1)
    out[i] = x[i].mean() * y[i].argmax() + x[i].argmin()


def _floats(rng):
    x, y = rng.normal(size=(2, 37, 4))
    x[::3, 1] = np.nan
    y[::5, 2:] = np.nan
    y[1::7] = 0.0
    return np.round(x * 8), y, poisoned((37, 4), np.float64)


_list.add("means_and_places", means_and_places, _floats, extent=(37,))


@kd.kernel
def numbers_beside_nan(x, y, out):
    i = kd.grid(1)
    out[i, 0] = np.nanmax(x[i])
    out[i, 1] = np.nanmin(y[i])
    out[i, 2] = np.count_nonzero(y[i]) + 10 * np.count_nonzero(x[i : i + 2])
    out[i, 3] = np.nanmax(y[i, 2:])


def _numbers_beside_nan(x, y, out):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of rows without a number
        largest, beyond = np.nanmax(x, axis=1), np.nanmax(y[:, 2:], axis=1)
        least = np.nanmin(y, axis=1)
    counts = [np.count_nonzero(x[i : i + 2]) for i in range(len(x))]
    count = np.count_nonzero(y, axis=1) + 10 * np.array(counts)
    return {2: np.stack([largest, least, count, beyond], axis=1)}


_list.add(
    "numbers_beside_nan",
    numbers_beside_nan,
    _floats,
    extent=(37,),
    expected=_numbers_beside_nan,
)


@kd.kernel
def extremes(x, y, out):
    i = kd.grid(1)
    out[i, 0] = x[i].max()
    out[i, 1] = x[i].min()
    out[i, 2:] = np.exp2(x[i, :2])


_list.add("extremes", extremes, _floats, extent=(37,), ulp=2)
