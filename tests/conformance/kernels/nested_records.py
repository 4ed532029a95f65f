"""Records in records and in arrays of those, and records by themselves as arguments."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("nested_records")
CASES = _list.cases
_SIZE = 77
_BLOCK = 32

_POINT = [("tag", np.int8), ("x", np.float32), ("v", np.float64, (3,))]


def _dtype(*, outer: bool, inner: bool) -> np.dtype:
    point = np.dtype(_POINT, align=inner)
    pair = np.dtype([("near", np.int16), ("far", point)], align=inner)
    fields = [("k", np.int8), ("point", point), ("many", point, (2,)), ("pair", pair)]
    return np.dtype([*fields, ("z", np.complex64)], align=outer)


_DTYPES = {
    "aligned": _dtype(outer=True, inner=True),
    "packed": _dtype(outer=False, inner=False),
    "packed_in_aligned": _dtype(outer=True, inner=False),
    "aligned_in_packed": _dtype(outer=False, inner=True),
}


def _fill(rng, array):
    """Give every field of every record, and of those in it, a value."""
    for name in array.dtype.names:
        field = array[name]
        if field.dtype.names:
            _fill(rng, field)
        elif field.dtype.kind == "i":
            field[...] = rng.integers(-9, 9, field.shape)
        else:
            field[...] = rng.integers(-50, 50, field.shape) / 4
            if field.dtype.kind == "f" and field.size > 3:
                field.flat[:3] = [np.nan, -0.0, np.inf]
    return array


def _records(rng, dtype, shape=_SIZE):
    return _fill(rng, np.zeros(shape, dtype))


@kd.kernel
def read(a, out):
    i = kd.grid(1)
    if i < a.size:
        total = np.float64(a[i]["point"]["x"]) + a["point"]["v"][i, 1] + a[i]["many"][1]["v"][2]
        record = a[i]
        total += record["pair"]["far"]["tag"] + a["many"][i, 0]["x"] * a["pair"]["near"][i]
        out[i] = total + a["pair"]["far"]["v"][i, 0]


@kd.kernel
def read_attributes(a, out):
    i = kd.grid(1)
    if i < a.size:
        near = a[i].pair
        out[i] = np.float64(a[i].many[1].x) + a.point.v[i, 2] + near.far.v[0] + a.pair.far.tag[i]


def _read_attributes(a, out):
    x, near = a["many"]["x"][:, 1].astype(np.float64), a["pair"]["far"]
    return {1: x + a["point"]["v"][:, 2] + near["v"][:, 0] + near["tag"]}


@kd.kernel
def write(a, b):
    i = kd.grid(1)
    if i < a.size:
        a[i]["point"]["x"] = np.float32(i)
        a["point"]["v"][i, 0] += 1.5
        a[i]["many"][1]["tag"] = a[i]["k"]
        a[i]["many"][0]["v"][2] -= 0.5
        a["pair"]["far"]["x"][i] = np.float32(0.25)
        record = a[i]
        record["pair"]["near"] += np.int16(7)
        b[i] = a[i]["point"]
        a[i]["many"][1] = a[i]["pair"]["far"]
        a[i]["point"] = b[i]


@kd.kernel
def write_attributes(a):
    i = kd.grid(1)
    if i < a.size:
        a[i].point.x = a[i].point.x * np.float32(2)
        a[i].pair.far.v[1] = 4.5
        a[i].many[1].x -= np.float32(3)


def _write_attributes(a):
    a["point"]["x"] *= 2
    a["pair"]["far"]["v"][:, 1] = 4.5
    a["many"]["x"][:, 1] -= 3
    return {0: a}


@kd.func
def furthest(record, k):
    return record["point"]["v"][k % 3] + np.float64(record["many"][k % 2]["x"])


@kd.kernel
def argument(p, n, out):
    """A record by itself: numbers, arrays, records, and whole in a device function."""
    i = kd.grid(1)
    if i < out.size:
        point = p["point"]
        total = np.float64(p["k"]) * n + point["x"] + p["many"][i % 2]["v"][i % 3]
        for k in range(p["pair"]["near"] & 3):
            total += p["many"][k % 2]["tag"]
        out[i] = total + furthest(p, i) + p["z"].imag


@kd.kernel
def argument_attributes(p, out):
    i = kd.grid(1)
    out[i] = p.pair.far.v[i % 3] * p.k + p.many[i % 2].x


def _argument_attributes(p, out):
    i = np.arange(out.size)
    return {1: p["pair"]["far"]["v"][i % 3] * p["k"] + p["many"]["x"][i % 2]}


@kd.kernel
def argument_over_barriers(p, out):
    t, i = kd.threadIdx.x, kd.grid(1)
    held = kd.shared.array(_BLOCK, np.float64)
    held[t] = p["point"]["v"][t % 3] * p["k"]
    kd.syncthreads()
    other = held[_BLOCK - 1 - t]
    kd.syncthreads()
    if i < out.size:
        out[i] = other + p["pair"]["far"]["x"]


@kd.kernel
def copied(p, a, b):
    """All fields of an argument, and of a record in it."""
    i = kd.grid(1)
    if i < a.size:
        a[i] = p
        b[i] = p["pair"]["far"]


_Given = namedtuple("_Given", ["scale", "record"])


@kd.kernel
def in_a_tuple(given, out):
    i = kd.grid(1)
    out[i] = given.scale * given.record["point"]["v"][i % 3] + given[1]["many"][1]["x"]


def _one(rng, dtype):
    return _records(rng, dtype, 3)[1]


for _label, _layout in _DTYPES.items():
    _point = _layout["point"].base
    _list.add(
        f"read_{_label}",
        read,
        lambda rng, d=_layout: (_records(rng, d), poisoned(_SIZE, np.float64)),
        grid=(3,),
    )
    _list.add(
        f"read_attributes_{_label}",
        read_attributes,
        lambda rng, d=_layout: (_records(rng, d), poisoned(_SIZE, np.float64)),
        grid=(3,),
        expected=_read_attributes,
    )
    _list.add(
        f"write_{_label}",
        write,
        lambda rng, d=_layout, p=_point: (_records(rng, d), _records(rng, p)),
        grid=(3,),
    )
    _list.add(
        f"write_attributes_{_label}",
        write_attributes,
        lambda rng, d=_layout: (_records(rng, d),),
        grid=(3,),
        expected=_write_attributes,
    )
    _list.add(
        f"argument_{_label}",
        argument,
        lambda rng, d=_layout: (_one(rng, d), np.int32(3), poisoned(_SIZE, np.float64)),
        grid=(3,),
    )
    _list.add(
        f"argument_attributes_{_label}",
        argument_attributes,
        lambda rng, d=_layout: (_one(rng, d), poisoned(_SIZE, np.float64)),
        extent=(_SIZE,),
        expected=_argument_attributes,
    )
    _list.add(
        f"argument_over_barriers_{_label}",
        argument_over_barriers,
        lambda rng, d=_layout: (_one(rng, d), poisoned(_SIZE, np.float64)),
        grid=(3,),
        block=(_BLOCK,),
    )
    _list.add(
        f"copied_{_label}",
        copied,
        lambda rng, d=_layout, p=_point: (
            _one(rng, d),
            _records(rng, d),
            _records(rng, p),
        ),
        grid=(3,),
    )
    _list.add(
        f"in_a_tuple_{_label}",
        in_a_tuple,
        lambda rng, d=_layout: (_Given(0.5, _one(rng, d)), poisoned(_SIZE, np.float64)),
        extent=(_SIZE,),
    )
