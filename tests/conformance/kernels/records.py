"""Arrays of records, aligned and packed: fields by name, whole records, arrays in records."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from kerneldsl.language.element_types import numpy_dtype
from tests.support.arrays import HOST_DTYPES, poisoned
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("records")
CASES = _list.cases
_SIZE = 77
_BLOCK = 32

_FIELDS = [
    ("flag", np.bool_),
    ("x", np.float32),
    ("n", np.int8),
    ("count", np.uint64),
    ("m", np.float64, (2, 3)),
    ("z", np.complex64),
    ("y", np.int32),
]
ALIGNED, PACKED = np.dtype(_FIELDS, align=True), np.dtype(_FIELDS)
_NARROW_FIELDS = [("n", np.int8), ("h", np.float16), ("many", np.float16, (3,)), ("x", np.float32)]
_NARROW = {"aligned": np.dtype(_NARROW_FIELDS, align=True), "packed": np.dtype(_NARROW_FIELDS)}
if "bfloat16" in HOST_DTYPES:
    _more = [*_NARROW_FIELDS, ("b", numpy_dtype("bfloat16")), ("e", numpy_dtype("float8_e5m2"))]
    _NARROW |= {"aligned_more": np.dtype(_more, align=True), "packed_more": np.dtype(_more)}
#: Fields out of order, with gaps.
SPARSE = np.dtype(
    {
        "names": ["x", "y", "count"],
        "formats": ["f4", "i4", "u8"],
        "offsets": [20, 4, 8],
        "itemsize": 29,
    }
)
_DTYPES = {"aligned": ALIGNED, "packed": PACKED}


def _records(rng, dtype, shape=_SIZE):
    records = np.zeros(shape, dtype)
    for name in dtype.names:
        field = records[name]
        if field.dtype.kind in "fcV":
            field[...] = rng.standard_normal(field.shape).astype(field.dtype)
        else:
            field[...] = rng.integers(0, 2 if field.dtype.kind == "b" else 100, field.shape)
    return records


def _and(dtype, *others):
    """A maker of records, and of poisoned arrays of other dtypes and the same size."""

    def make(rng):
        return (_records(rng, dtype), *(poisoned(_SIZE, other) for other in others))

    return make


@kd.kernel
def read(a, out):
    i = kd.grid(1)
    if i < a.size:
        total = np.float64(a[i]["x"]) + a["y"][i] + a[i]["m"][1, 2] + a["m"][i, 0, 1]
        record = a[i]
        if record["flag"]:
            total += np.float64(record["count"])
        out[i] = total + a[i]["z"].real * np.float64(a[i]["n"])


@kd.kernel
def read_attributes(a, out):
    i = kd.grid(1)
    if i < a.size:
        out[i] = np.float64(a[i].x) + a.y[i] + a[i].m[1, 2]


def _read_attributes(a, out):
    return {1: a["x"].astype(np.float64) + a["y"] + a["m"][:, 1, 2]}


@kd.kernel
def write(a):
    i = kd.grid(1)
    if i < a.size:
        a[i]["x"] = np.float32(a[i]["y"])
        a[i]["y"] += np.int32(3)
        a["count"][i] = np.uint64(i) << np.uint64(40)
        a[i]["flag"] = not a[i]["flag"]
        a[i]["m"][0, 1] = a[i]["m"][1, 2]
        a["m"][i, 1, 0] = 0.5
        a[i]["z"] = np.complex64(2 - 1j)
        record = a[i]
        record["n"] = np.int8(-5)


@kd.kernel
def write_attributes(a):
    i = kd.grid(1)
    if i < a.size:
        a[i].x = a[i].x * np.float32(2)
        a[i].y -= np.int32(7)
        a[i].m[1, 1] = 3.0
        record = a[i]
        record.count, record.n = np.uint64(i), np.int8(4)
        record.n += np.int8(1)


def _write_attributes(a):
    a["x"] *= 2
    a["y"] -= 7
    a["m"][:, 1, 1] = 3
    a["count"], a["n"] = np.arange(a.size), 5
    return {0: a}


@kd.kernel
def copied(a, b):
    i = kd.grid(1)
    if i < a.size:
        b[a.size - 1 - i] = a[i]


@kd.func
def swap(records, i, j):
    old = records[i]["x"]
    records[i]["x"] = records[j]["x"]
    records[j]["x"] = old
    return old


@kd.kernel
def called(a, out):
    i = kd.grid(1)
    if 2 * i + 1 < a.size:
        out[i] = swap(a, 2 * i, 2 * i + 1)


@kd.kernel
def transposed(a, b):
    j, i = kd.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        b[j, i]["x"] = a[i, j]["x"]
        b[j, i]["m"][0, 0] = a["m"][i, j, 1, 1]


def _matrices(dtype):
    def make(rng):
        wide = _records(rng, dtype, (20, 18))
        return wide[::2, ::-3], _records(rng, dtype, (6, 10))

    return make


def _forall(a, out):
    return {1: (a["x"] + a["y"]).astype(np.float32)}


@kd.kernel
def element(a, out):
    i = kd.grid(1)
    out[i] = a[i]["x"] + np.float32(a[i]["y"])


for _label, _dtype in _DTYPES.items():
    _list.add(f"read_{_label}", read, _and(_dtype, np.float64), grid=(3,))
    _list.add(
        f"read_attributes_{_label}", read_attributes, _and(_dtype, np.float64), grid=(3,),
        expected=_read_attributes,
    )  # fmt: skip
    _list.add(f"write_{_label}", write, _and(_dtype), grid=(3,))
    _list.add(
        f"write_attributes_{_label}", write_attributes, _and(_dtype), grid=(3,),
        expected=_write_attributes,
    )  # fmt: skip
    _list.add(f"copied_{_label}", copied, _and(_dtype, _dtype), grid=(3,))
    _list.add(f"called_{_label}", called, _and(_dtype, np.float32), grid=(2,))
    _list.add(f"transposed_{_label}", transposed, _matrices(_dtype), grid=(1, 1), block=(8, 16))
    _list.add(f"forall_{_label}", element, _and(_dtype, np.float32), extent=(_SIZE,))
_list.add("forall_sparse", element, _and(SPARSE, np.float32), extent=(_SIZE,))


@kd.kernel(contract=False)
def narrow(a, out):
    i = kd.grid(1)
    if i < a.size:
        out[i] = kd.float32(a[i].h) + kd.float32(a["many"][i, 1]) * a[i].x
        a[i].h = a[i].h * kd.float16(2) + a[i].many[2]
        a[i].many[0] = kd.float16(a[i].n)


def _narrow(a, out):
    total = a["h"].astype(np.float32) + a["many"][:, 1].astype(np.float32) * a["x"]
    a["h"] = a["h"] * np.float16(2) + a["many"][:, 2]
    a["many"][:, 0] = a["n"]
    return {0: a, 1: total}


@kd.kernel
def narrower(a):
    i = kd.grid(1)
    if i < a.size:
        a[i].b = kd.float32(a[i].e) * a[i].x
        a["e"][i] = kd.float32(a[i].h)


def _narrower(a):
    a["b"] = (a["e"].astype(np.float32) * a["x"]).astype(a["b"].dtype)
    a["e"] = a["h"].astype(np.float32).astype(a["e"].dtype)
    return {0: a}


for _label, _dtype in _NARROW.items():
    _list.add(f"narrow_{_label}", narrow, _and(_dtype, np.float32), grid=(3,), expected=_narrow)
    if "more" in _label:
        _list.add(f"narrower_{_label}", narrower, _and(_dtype), grid=(3,), expected=_narrower)


def _reversing(dtype):
    @kd.kernel
    def reversing(a, out):
        tile = kd.shared.array(_BLOCK, dtype)
        own = kd.local.array(2, dtype)
        t = kd.threadIdx.x
        tile[t] = a[kd.blockIdx.x * _BLOCK + t]
        own[0]["x"] = tile[t]["x"]
        own[1] = own[0]
        kd.syncthreads()
        other = tile[_BLOCK - 1 - t]["x"]
        kd.syncthreads()
        tile[t]["y"] += np.int32(1)
        kd.syncthreads()
        a[kd.blockIdx.x * _BLOCK + t]["y"] = tile[t ^ 1]["y"]
        out[kd.blockIdx.x * _BLOCK + t] = other + own[1]["x"]

    return reversing


for _label, _dtype in _DTYPES.items():
    _list.add(
        f"shared_and_local_{_label}",
        _reversing(_dtype),
        lambda rng, d=_dtype: (_records(rng, d, 96), poisoned(96, np.float32)),
        grid=(3,),
        block=(_BLOCK,),
    )


@kd.kernel
def without_axes(record, a):
    i = kd.grid(1)
    if i < 1:
        record.x = a[3].x + np.float32(a.size)
        record["y"] += np.int32(2)
        record.m[1, 2] = record.m[0, 0]
        record.z = np.complex64(1 - 2j)
        a[0] = record
        a[1].m[:] = record.m


def _without_axes(record, a):
    record["x"] = a[3]["x"] + np.float32(a.size)
    record["y"] += 2
    record["m"][1, 2] = record["m"][0, 0]
    record["z"] = 1 - 2j
    a[0] = record
    a[1]["m"] = record["m"]
    return {0: record, 1: a}


@kd.kernel
def by_number(a, out):
    i = kd.grid(1)
    if i < a.size:
        out[i] = np.float64(a[i][1]) + a[i][-1] + a[i][4][1, 2]


def _by_number(a, out):
    return {1: a["x"].astype(np.float64) + a["y"] + a["m"][:, 1, 2]}


def _captured(dtype):
    table = _records(np.random.default_rng(7), dtype, 5)
    table.setflags(write=False)
    none = table[:0]

    @kd.kernel
    def captured(a, out):
        c = kd.const.array_like(table)
        i = kd.grid(1)
        if i < a.size:
            out[i] = np.float64(c[i % 5].x) + table[(i + 1) % 5]["m"][1, 0] + len(none)
            a[i] = c[i % 5]

    def expected(a, out):
        i = np.arange(a.size)
        values = table["x"][i % 5].astype(np.float64) + table["m"][(i + 1) % 5, 1, 0]
        return {0: table[i % 5], 1: values}

    return captured, expected


for _label, _dtype in _DTYPES.items():
    _list.add(
        f"without_axes_{_label}",
        without_axes,
        lambda rng, d=_dtype: (_records(rng, d, ()), _records(rng, d)),
        grid=(1,),
        block=(2,),
        expected=_without_axes,
    )
    _list.add(
        f"by_number_{_label}",
        by_number,
        _and(_dtype, np.float64),
        grid=(3,),
        expected=_by_number,
    )
    _kernel, _expected = _captured(_dtype)
    _list.add(
        f"captured_{_label}", _kernel, _and(_dtype, np.float64), grid=(3,), expected=_expected
    )
