"""Compile-time parameters: constants that a launch gives."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList, integers_into

__all__ = ["CASES"]

_list = CaseList("compile_time")
CASES = _list.cases


@kd.kernel
def stencil(x, out, *, width, pair=(2, -3), mode="sum", dtype=np.int64, op=lambda v: v * v):
    i = kd.grid(1)
    near = kd.local.array((width, 2), dtype)
    for k in range(width):
        near[k, 0] = x[(i + k) % x.size]
        near[k, 1] = dtype(pair[k % 2])
    total = dtype(0)
    for k in range(width):
        if mode == "sum":
            total += near[k, 0] * near[k, 1]
        elif width > 3:
            total = max(total, op(near[k, 0]))
        else:
            total -= near[k, 1]
    out[i] = np.int64(total)


def _cube(v):
    return v * v * v


for _name, _values in {
    "defaults": {"width": 3},
    "another_mode": {"width": 5, "mode": "most"},
    "static_branch": {"width": 2, "mode": "most", "pair": (np.int64(7), 1)},
    "dtype": {"width": 4, "dtype": np.float64},
    "function": {"width": 4, "mode": "most", "op": _cube},
    "numpy_scalar": {"width": np.int16(1)},
}.items():
    _list.add(_name, stencil.member(**_values), integers_into(53), extent=(53,))


@kd.kernel
def reversed_tile(x, out, *, size, is_doubled=True):
    tile = kd.shared.array(size, np.int64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    tile[t] = x[i] if i < x.size else 0
    kd.syncthreads()
    if is_doubled:
        tile[t] *= 2
        kd.syncthreads()
    if i < out.size:
        out[i] = tile[size - 1 - t]


def _tiles(rng):
    return rng.integers(-99, 99, 96), poisoned(96, np.int64)


for _size, _is_doubled in ((32, True), (48, False)):
    _list.add(
        f"shared_{_size}",
        reversed_tile.member(size=_size, is_doubled=_is_doubled),
        _tiles,
        grid=(96 // _size,),
        block=(_size,),
    )
