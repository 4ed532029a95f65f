"""NumPy's functions that choose, limit and round, called with numbers."""

from __future__ import annotations

import math

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("numpy_functions")
CASES = _list.cases
_VALUES = (0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -7.25, 1e20, math.inf, -math.inf, math.nan)


@kd.kernel
def choices(x, out):
    i = kd.grid(1)
    out[0, i] = np.clip(x[i], -1.0, 2.0)
    out[1, i] = np.clip(x[i], -1, 2)
    out[2, i] = np.clip(x[i], None, 0.25)
    out[3, i] = np.clip(x[i], x[2], None)
    out[4, i] = np.where(x[i] > 0, 3, 0.5)
    out[5, i] = np.where(x[i] > 0, x[i], -x[i])
    out[6, i] = np.fix(x[i])
    out[7, i] = np.heaviside(x[i], 0.75)


def _chosen(x, out):
    rows = [
        *(np.clip(x, -1, 2), np.clip(x, -1, 2), np.clip(x, None, 0.25), np.clip(x, x[2], None)),
        *(np.where(x > 0, 3, 0.5), np.where(x > 0, x, -x), np.fix(x), np.heaviside(x, 0.75)),
    ]
    return {1: np.stack([row.astype(x.dtype) for row in rows])}


for _dtype in ("float32", "float64"):
    _list.add(
        f"choices_{_dtype}",
        choices,
        lambda rng, d=_dtype: (np.array(_VALUES, d), poisoned((8, len(_VALUES)), d)),
        extent=(len(_VALUES),),
        expected=_chosen,
    )


@kd.kernel
def choices_of_integers(x, out):
    i = kd.grid(1)
    out[0, i] = np.clip(x[i], -5, 9)
    out[1, i] = np.where(x[i] & 1, x[i], 0)
    out[2, i] = x[...][i]


_list.add(
    "choices_of_integers",
    choices_of_integers,
    lambda rng: (rng.integers(-20, 20, 50), poisoned((3, 50), np.int64)),
    extent=(50,),
    expected=lambda x, out: {1: np.stack([np.clip(x, -5, 9), np.where(x & 1, x, 0), x])},
)


@kd.kernel
def whole_arrays(x, out):
    row = x[...]
    out[...][kd.grid(1)] = row[kd.grid(1), 1] + x[..., 0][kd.grid(1)]


_list.add(
    "whole_arrays",
    whole_arrays,
    lambda rng: (rng.uniform(size=(40, 2)), poisoned(40, np.float64)),
    extent=(40,),
    expected=lambda x, out: {1: x[:, 1] + x[:, 0]},
)


@kd.kernel
def results_in_arrays(x, y, out):
    # The result goes to an array that is an argument, which is all that the call does.
    i = kd.grid(1)
    np.add(x[i], y[i], out[0, i : i + 1])
    np.maximum(x[i], y[i], out[1, i : i + 1])
    np.fmax(x[i], y[i], out[2, i : i + 1])
    np.minimum(x[i], y[i], out[3, i : i + 1])
    np.fmin(x[i], y[i], out[4, i : i + 1])
    if x[i] > y[i]:
        np.copysign(x[i], y[i], out[5, i : i + 1])
    else:
        np.negative(x[i], out[5, i : i + 1])


def _in_arrays(x, y, out):
    signs = np.where(x > y, np.copysign(x, y), -x)
    rows = [x + y, np.maximum(x, y), np.fmax(x, y), np.minimum(x, y), np.fmin(x, y), signs]
    return {2: np.stack(rows)}


_list.add(
    "results_in_arrays",
    results_in_arrays,
    lambda rng: (*rng.normal(size=(2, 40)), poisoned((6, 40), np.float64)),
    extent=(40,),
    expected=_in_arrays,
)


@kd.kernel
def extremes_in_arrays(x, y, out):
    i = kd.grid(1)
    np.maximum(x[i], y[i], out[0, i : i + 1])
    np.fmax(x[i], y[i], out[1, i : i + 1])
    np.minimum(x[i], y[i], out[2, i : i + 1])
    np.fmin(x[i], y[i], out[3, i : i + 1])


for _dtype in ("int8", "int32", "uint32", "int64", "uint64"):
    _list.add(
        f"extremes_in_arrays_{_dtype}",
        extremes_in_arrays,
        lambda rng, dtype=_dtype: (
            *rng.integers(0, 100, (2, 40)).astype(dtype),
            poisoned((4, 40), dtype),
        ),
        extent=(40,),
        expected=lambda x, y, out: {2: np.stack([np.maximum(x, y)] * 2 + [np.minimum(x, y)] * 2)},
    )
