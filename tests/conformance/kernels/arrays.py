"""What a kernel takes: scalars, tuples, arrays of every layout, and how they are indexed."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

import kerneldsl as kd
from tests.support.arrays import HOST_DTYPES, poisoned, random_array, strided
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("arrays")
CASES = _list.cases


@kd.kernel
def copy_1d(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i]


def _pair(dtype, size):
    return lambda rng: (random_array(rng, size, dtype), poisoned(size, dtype))


for _name in HOST_DTYPES:
    _list.add(f"copy_{_name}", copy_1d, _pair(_name, 101), extent=(101,), dtype=_name)


@kd.kernel
def fill(value, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = value


def _scalar(dtype):
    def make(rng):
        value = random_array(rng, (), dtype)[()]
        return value, poisoned(45, dtype)

    return make


for _name in HOST_DTYPES:
    _list.add(f"scalar_{_name}", fill, _scalar(_name), grid=(2,), block=(32,), dtype=_name)
for _label, _value, _out in (
    ("python_int", -(2**63), np.int64),
    ("python_float", 1e-310, np.float64),
    ("python_bool", True, np.bool_),
    ("python_complex", 1.5 - 2j, np.complex128),
    ("int_into_float", 3, np.float32),
):
    _list.add(
        f"scalar_{_label}",
        fill,
        lambda rng, v=_value, o=_out: (v, poisoned(45, o)),
        grid=(2,),
        block=(32,),
    )


@kd.kernel
def many_scalars(flag, a, b, c, d, e, out):
    # Sizes that need padding between the parameters.
    i = kd.grid(1)
    if i < out.size:
        out[i] = (a + b + d) if flag else c * e


def _many_scalars(flag):
    return lambda rng: (
        np.bool_(flag),
        np.int8(-3),
        np.int64(2**40),
        np.float32(1.5),
        np.uint16(65535),
        np.float64(0.25),
        poisoned(20, np.float64),
    )


for _flag in (True, False):
    _list.add(f"many_scalars_{_flag}".lower(), many_scalars, _many_scalars(_flag), extent=(20,))


@kd.kernel
def tuple_arguments(pair, nested, out):
    i = kd.grid(1)
    a, b = pair
    if i < out.size:
        out[i] = a * i + b + nested[0] * nested[1][0] - nested[1][1]


_list.add(
    "tuple_arguments",
    tuple_arguments,
    lambda rng: ((3, 4), (2, (5, 6)), poisoned(20, np.int64)),
    extent=(20,),
)


@kd.kernel
def tuple_of_arrays(arrays, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = arrays[0][i] + arrays[1][i, 0] * len(arrays)


def _tuple_of_arrays(rng):
    return (
        (rng.integers(-9, 9, 20), rng.integers(-9, 9, (20, 2))),
        poisoned(20, np.int64),
    )


_list.add("tuple_of_arrays", tuple_of_arrays, _tuple_of_arrays, extent=(20,))


_Limits = namedtuple("_Limits", ["low", "high"])
_Pair = namedtuple("_Pair", ["low", "high", "arrays", "limits", "steps"])


@kd.func
def clamped(value, limits):
    return min(max(value, limits.low), limits.high)


@kd.kernel
def named_tuple(pair, out):
    i = kd.grid(1)
    if i < pair.arrays[0].size:
        value = clamped(pair.arrays[0][i] * pair.steps[1], pair.limits)
        out[i] = value + pair.arrays[1][i, 0] - pair.limits.high * pair[0] + len(pair)


@kd.kernel
def named_arrays(data, out):
    i = kd.grid(1)
    low, high = data.low, data.high
    for k in range(low.size):
        out[i] += low[k] * high[i, k]


@kd.kernel
def named_barrier(limits, out):
    """A loop around a barrier, whose end is a member."""
    t = kd.threadIdx.x
    cells = kd.shared.array(32, np.int64)
    cells[t] = t
    for k in range(limits.high):
        kd.syncthreads()
        other = cells[(t + k) % 32]
        kd.syncthreads()
        cells[t] += other * limits.low
    out[t] = cells[t]


def _named_tuple(rng):
    arrays = rng.integers(-9, 9, 20), rng.integers(-9, 9, (20, 2))
    pair = _Pair(3, 2.5, arrays, _Limits(np.int32(-8), np.int64(7)), (1, 2))
    return pair, poisoned(20, np.int64)


_list.add("named_tuple", named_tuple, _named_tuple, extent=(20,))
_list.add(
    "named_arrays",
    named_arrays,
    lambda rng: (
        _Limits(rng.integers(-9, 9, 5), rng.integers(-9, 9, (20, 5))),
        rng.integers(0, 9, 20),
    ),
    extent=(20,),
)
_list.add("named_barrier", named_barrier, lambda rng: (_Limits(3, 4), poisoned(32, np.int64)))


@kd.kernel
def zero_dimensional(x, out, result):
    i = kd.grid(1)
    out[i] = x[()] * i + x.size
    if i == 0:
        result[()] = x[()] + x.ndim


_list.add(
    "zero_dimensional",
    zero_dimensional,
    lambda rng: (np.array(7), poisoned(20, np.int64), poisoned((), np.int64)),
    extent=(20,),
)


@kd.kernel
def combine_2d(x, y, out):
    i, j = kd.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] * np.float32(2) + y[i, j]


def _layouts(rng):
    def source():
        # Whole numbers, so that contraction cannot change the result.
        return rng.integers(-99, 99, (19, 33)).astype(np.float32)

    return {
        "c": np.ascontiguousarray,
        "f": np.asfortranarray,
        "strided": lambda a: strided(a, (2, 3)),
        "rows": lambda a: strided(a, (2, 1)),
        "negative": lambda a: strided(a, (-1, -1)),
        "negative_step": lambda a: strided(a, (1, -2)),
        "transposed_strided": lambda a: strided(a.T.copy(), (2, 2)).T,
        "row_broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
        "column_broadcast": lambda a: np.broadcast_to(a[:, :1], a.shape),
        "scalar_broadcast": lambda a: np.broadcast_to(a[3, 4], a.shape),
    }, source


def _layout_arguments(left, right, result):
    def make(rng):
        ways, source = _layouts(rng)
        out = ways[result](poisoned((19, 33), np.float32))
        return ways[left](source()), ways[right](source()), out

    return make


for _left, _right, _result in (
    ("c", "c", "c"),
    ("f", "f", "f"),
    ("c", "f", "c"),
    ("strided", "c", "f"),
    ("rows", "strided", "rows"),
    ("negative", "negative_step", "strided"),
    ("c", "c", "negative"),
    ("transposed_strided", "f", "negative_step"),
    ("row_broadcast", "column_broadcast", "c"),
    ("scalar_broadcast", "row_broadcast", "f"),
):
    _list.add(
        f"layout_{_left}_{_right}_{_result}",
        combine_2d,
        _layout_arguments(_left, _right, _result),
        extent=(19, 33),
    )


@kd.kernel
def combine_3d(x, out):
    i, j, k = kd.grid(3)
    out[k, i, j] = x[i, j, k] + np.int32(1)


def _three_dimensional(rng):
    x = rng.integers(-99, 99, (5, 7, 9)).astype(np.int32)
    return strided(x, (1, -2, 3)), poisoned((9, 5, 7), np.int32, "F")


_list.add("layout_3d", combine_3d, _three_dimensional, extent=(5, 7, 9))


@kd.kernel
def attributes(x, out):
    i = kd.grid(1)
    if i == 0:
        out[0] = x.size
        out[1] = x.ndim
        out[2] = x.shape[0]
        out[3] = x.shape[1]
        out[4] = len(x)
        rows, columns = x.shape
        out[5] = rows * columns


_list.add(
    "attributes",
    attributes,
    lambda rng: (random_array(rng, (4, 7), np.float32), poisoned(6, np.int64)),
    extent=(1,),
)


@kd.kernel
def negative_indices(x, m, out):
    i = kd.grid(1)
    out[i, 0] = x[-1 - i]
    out[i, 1] = x[i - x.size]
    out[i, 2] = m[-1, i]
    out[-1 - i, -1] = m[i % 3 - 3, -i - 1]


_list.add(
    "negative_indices",
    negative_indices,
    lambda rng: (
        random_array(rng, 20, np.int64),
        random_array(rng, (3, 20), np.int64),
        poisoned((20, 4), np.int64),
    ),
    extent=(20,),
)


@kd.kernel(wraparound=False)
def promised_nonnegative(x, m, out):
    i = kd.grid(1)
    out[i] = x[x.size - 1 - i] + m[i % 3, 19 - i]


_list.add(
    "promised_nonnegative",
    promised_nonnegative,
    lambda rng: (
        rng.integers(-9, 9, 20),
        rng.integers(-9, 9, (3, 20)),
        poisoned(20, np.int64),
    ),
    extent=(20,),
)


@kd.kernel
def gather(x, index, out):
    i = kd.grid(1)
    out[i] = x[index[i]]


for _name in ("int8", "int32", "int64", "uint8", "uint32", "uint64"):
    _list.add(
        f"gather_by_{_name}",
        gather,
        lambda rng, d=_name: (
            random_array(rng, 100, np.float32),
            rng.integers(-100 if d[0] == "i" else 0, 100, 77).astype(d),
            poisoned(77, np.float32),
        ),
        extent=(77,),
    )


@kd.kernel
def booleans(x, y, out):
    i = kd.grid(1)
    out[0, i] = x[i] and y[i]
    out[1, i] = x[i] or y[i]
    out[2, i] = not x[i]
    out[3, i] = x[i] ^ y[i]
    out[4, i] = x[i] == y[i]
    out[5, i] = x[i] & y[i]
    out[6, i] = x[i] | y[i]
    out[7, i] = 2.5


_list.add(
    "booleans",
    booleans,
    lambda rng: (
        random_array(rng, 50, bool),
        random_array(rng, 50, bool),
        poisoned((8, 50), bool),
    ),
    extent=(50,),
)


@kd.kernel
def in_place(x):
    i = kd.grid(1)
    x[i] = x[i] * 2 + 1


_list.add("in_place", in_place, lambda rng: (rng.integers(-9, 9, 70),), extent=(70,))


@kd.kernel
def aliased(x, y):
    i = kd.grid(1)
    y[i] = x[i] + 1


def _aliased(rng):
    x = rng.integers(-9, 9, 70)
    return x, x


def _incremented(x, y):
    return {0: x + 1, 1: x + 1}


_list.add("aliased", aliased, _aliased, extent=(70,), expected=_incremented)


@kd.kernel
def reshaped(x, out):
    i = kd.grid(1)
    rows, cubes = x.reshape(4, -1), out.reshape((out.size // 6, 2, 3))
    if i < x.size:
        cubes[i // 6, i // 3 % 2, i % 3] = rows[i % 4, i // 4]


_list.add(
    "reshaped",
    reshaped,
    lambda rng: (random_array(rng, (2, 12), np.float32), poisoned((3, 8), np.float32)),
    extent=(24,),
    expected=lambda x, out: {1: x.reshape(4, 6).T.reshape(3, 8)},
)


@kd.kernel
def raveled(x, out):
    i = kd.grid(1)
    if i < x.size:
        out.ravel()[i] = x.ravel()[x.size - 1 - i] + x.dtype.itemsize


_list.add(
    "raveled",
    raveled,
    lambda rng: (random_array(rng, (2, 12), np.float32), poisoned((3, 8), np.float32)),
    extent=(24,),
    expected=lambda x, out: {1: x.ravel()[::-1].reshape(3, 8) + 4},
)
