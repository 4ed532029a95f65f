"""float16, bfloat16, floats of 8 bits: conversions, arithmetic that is rounded each time, views.

What must come out is NumPy's and ml_dtypes' own arithmetic, bit for bit.
"""

from __future__ import annotations

import operator

import numpy as np

import kerneldsl as kd
from kerneldsl.language.element_types import ELEMENT_TYPES, names_of, numpy_dtype
from tests.conformance.kernels.reference import binary_case
from tests.support.arrays import HOST_DTYPES, poisoned, random_array, strided
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("narrow_floats")
CASES = _list.cases
_NAMES = [name for name in HOST_DTYPES if ELEMENT_TYPES[name].is_narrow]
#: Every pattern of 16 bits.
_EVERY = np.arange(2**16, dtype=np.uint16)


def _every(name):
    """Every number of a narrow type."""
    dtype = numpy_dtype(name)
    bits = _EVERY if dtype.itemsize == 2 else np.arange(2**8, dtype=np.uint8)
    return bits.view(dtype).copy()


def _pairs(rng, name):
    """Every number of 16 bits, each with a random one, every fifth with itself; every pair of 8."""
    dtype = numpy_dtype(name)
    if dtype.itemsize == 1:
        pairs = _EVERY.view(dtype).reshape(-1, 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy()
    y = rng.permutation(_EVERY)
    y[::5] = _EVERY[::5]
    return _every(name), y.view(dtype)


# --------------------------------------------------------------------------- conversions


@kd.kernel
def convert(x, out):
    i = kd.grid(1)
    if i < x.size:
        out[i] = x[i]


@np.errstate(all="ignore")
def _converted(x, out):
    if "float8_e8m0fnu" in (x.dtype.name, out.dtype.name) and x.itemsize == out.itemsize:
        x = _widened(x)  # ml_dtypes has no conversions between it and the others of 8 bits
    return {1: x.astype(out.dtype)}


def _widened(x):
    return x.astype(np.float32) if x.dtype.kind not in "biu" else x


def _integers(rng, name):
    """Over the whole range, small ones, and those about which a narrow type has ties."""
    limits = np.iinfo(name)
    powers = 2.0 ** np.arange(0, 8 * limits.dtype.itemsize - 1)
    near = [np.minimum(powers * (1 + f), limits.max / 2).astype(name) for f in _TIES]
    small = np.arange(128, dtype=name)
    edges = np.array([limits.min, limits.max], name)
    return np.concatenate([random_array(rng, 2000, name), small, edges, *near])


#: One and a half, two and a half units of the last place of each narrow type.
_TIES = tuple(steps / unit for unit in (4, 8, 128, 1024) for steps in (1.5, 2.5))


@np.errstate(all="ignore")
def _floats(rng, name, narrow):
    """What lies on numbers of a narrow type, half-way between two, and next to half-way."""
    exact = _every(narrow)
    exact = np.sort(exact[np.isfinite(exact)].astype(name))
    ties = exact[:-1] / 2 + exact[1:] / 2
    beyond = exact[::64] * np.asarray(1e30, name)
    special = [
        np.inf,
        -np.inf,
        np.nan,
        0.0,
        -0.0,
        *np.asarray([1e-45, -1e-40, 65520.0, 464.0, 480.0, 61440.0], name),
    ]
    steps = [np.nextafter(ties, np.asarray(side, name)) for side in (-np.inf, np.inf)]
    return np.concatenate([exact, ties, *steps, beyond, np.asarray(special, name)])


def _given(source, narrow):
    """A maker of numbers of a type that are converted to a narrow one."""
    row = ELEMENT_TYPES[source]

    def make(rng):
        if source == "bool":
            x = random_array(rng, 67, bool)
        elif row.is_integer:
            x = _integers(rng, source)
        elif row.is_narrow:
            x = _every(source)
        else:
            x = _floats(rng, source, narrow)
        return x, poisoned(x.size, numpy_dtype(narrow))

    return make


def _whole(name, target):
    """A maker of those numbers of a narrow type that an integer type can hold, cut off."""
    low, high = ELEMENT_TYPES[target].integer_range

    @np.errstate(all="ignore")
    def make(rng):
        x = _every(name)
        wide = np.trunc(x.astype(np.float64))
        x = x[(wide >= low) & (wide < high + 1)]
        return x, poisoned(x.size, target)

    return make


_REAL = [name for name in HOST_DTYPES if not ELEMENT_TYPES[name].is_complex]
for _name in _NAMES:
    for _other in (name for name in _REAL if name != _name):
        _list.add(
            f"{_name}_from_{_other}", convert, _given(_other, _name), extent=(2**19,),
            expected=_converted,
        )  # fmt: skip
    for _other in sorted({"bool", "float32", "float64"}):
        _list.add(
            f"{_name}_to_{_other}",
            convert,
            lambda rng, n=_name, o=_other: (_every(n), poisoned(_every(n).size, o)),
            extent=(2**16,),
            expected=_converted,
        )
    for _other in sorted(names_of(*(ELEMENT_TYPES[n].kind for n in ("int8", "uint8")))):
        _list.add(
            f"{_name}_to_{_other}", convert, _whole(_name, _other), extent=(2**16,),
            expected=_converted,
        )  # fmt: skip


# --------------------------------------------------------------------------- arithmetic


@kd.kernel
def unary(x, out):
    i = kd.grid(1)
    if i < x.size:
        a = x[i]
        out[0, i] = -a
        out[1, i] = +a
        out[2, i] = abs(a)
        out[3, i] = a


def _unary(x, out):
    return {1: np.stack([-x, +x, abs(x), x])}


@kd.kernel(contract=False)
def binary(x, y, out):
    i = kd.grid(1)
    if i < x.size:
        a, b = x[i], y[i]
        out[0, i] = a + b
        out[1, i] = a - b
        out[2, i] = a * b
        out[3, i] = a / b
        c = a
        c += b
        c *= b
        c -= a
        c /= b
        out[4, i] = c
        out[5, i] = a if a < b else b


@np.errstate(all="ignore")
def _binary(x, y, out):
    chain = ((x + y) * y - x) / y
    return {2: np.stack([x + y, x - y, x * y, x / y, chain, np.where(x < y, x, y)])}


@kd.kernel
def compared(x, y, out):
    i = kd.grid(1)
    if i < x.size:
        a, b = x[i], y[i]
        out[0, i] = a < b
        out[1, i] = a <= b
        out[2, i] = a > b
        out[3, i] = a >= b
        out[4, i] = a == b
        out[5, i] = a != b
        out[6, i] = not a
        out[7, i] = bool(b)
        out[8, i] = a and b


@np.errstate(all="ignore")
def _compared(x, y, out):
    compare = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
    truth, other = x != 0, y != 0  # a NaN is true
    return {2: np.stack([*(c(x, y) for c in compare), ~truth, other, truth & other])}


@kd.kernel
def extremes(x, y, out):
    i = kd.grid(1)
    if i < x.size:
        out[0, i] = min(x[i], y[i])
        out[1, i] = max(x[i], y[i])


@np.errstate(all="ignore")
def _numbers(rng, name):
    """Pairs without NaN and without zeros of both signs, of which either is the smaller."""
    x, y = _pairs(rng, name)
    is_clear = ~np.isnan(x) & ~np.isnan(y) & ((x != 0) | (y != 0))
    return x[is_clear], y[is_clear]


def _extremes(x, y, out):
    return {2: np.stack([np.where(x < y, x, y), np.where(x > y, x, y)])}


def _by_division(a, b, out, i):
    out[0, i] = a // b
    out[1, i] = a % b


_division_kernel, _division_expected = binary_case(_by_division)


@np.errstate(all="ignore")
def _divided(x, y, out):
    """The quotient and the remainder of float32, rounded."""
    wide = np.empty(out.shape, np.float32)
    _division_expected(x.astype(np.float32), y.astype(np.float32), wide)
    return {2: wide.astype(out.dtype)}


@kd.kernel(contract=False)
def accumulated(x, n, factor, out):
    i = kd.grid(1)
    if i < out.size:
        total = x[0] - x[0]
        for k in range(n):
            total += x[(i + k) % x.size] * factor
            if total > x[1]:
                total = x[1]
        out[i] = total


def _accumulated(x, n, factor, out):
    total = np.zeros_like(out)
    for k in range(n):
        total = total + x[(np.arange(out.size) + k) % x.size] * factor
        total = np.where(total > x[1], x[1], total)
    return {3: total}


def _to_accumulate(name):
    def make(rng):
        x = random_array(rng, 61, name)
        x[1] = 2.5
        return x, 12, numpy_dtype(name).type(0.7), poisoned(200, x.dtype)

    return make


for _name in _NAMES:
    _dtype = numpy_dtype(_name)
    _common = {"extent": (2**16,)}
    _list.add(
        f"unary_{_name}",
        unary,
        lambda rng, n=_name, d=_dtype: (_every(n), poisoned((4, _every(n).size), d)),
        expected=_unary,
        **_common,
    )
    for _label, _kernel, _expected, _rows in (
        ("binary", binary, _binary, 6),
        ("division", _division_kernel, _divided, 2),
    ):
        _list.add(
            f"{_label}_{_name}",
            _kernel,
            lambda rng, n=_name, d=_dtype, r=_rows: (*_pairs(rng, n), poisoned((r, 2**16), d)),
            expected=_expected,
            **_common,
        )
    _list.add(
        f"compared_{_name}",
        compared,
        lambda rng, n=_name: (*_pairs(rng, n), poisoned((9, 2**16), bool)),
        expected=_compared,
        **_common,
    )
    _list.add(
        f"extremes_{_name}",
        extremes,
        lambda rng, n=_name, d=_dtype: (
            *(pair := _numbers(rng, n)),
            poisoned((2, pair[0].size), d),
        ),
        expected=_extremes,
        **_common,
    )
    _list.add(
        f"accumulated_{_name}",
        accumulated,
        _to_accumulate(_name),
        extent=(200,),
        expected=_accumulated,
    )


# --------------------------------------------------------------------------- with other types


@kd.kernel(contract=False)
def mixed(x, y, out):
    i = kd.grid(1)
    if i < x.size:
        out[0, i] = x[i] + y[i]
        out[1, i] = y[i] - x[i]
        out[2, i] = x[i] * y[i]


def _in(kind):
    """What comes of a narrow type and another where it counts as float32."""

    def expected(x, y, out):
        a, b = x.astype(kind), y.astype(kind)
        return {2: np.stack([a + b, b - a, a * b]).astype(out.dtype)}

    return expected


def _two(name, other, kind):
    return lambda rng: (
        random_array(rng, 999, name),
        random_array(rng, 999, other),
        poisoned((3, 999), kind),
    )


for _name in _NAMES:
    for _other, _kind in (
        ("float32", np.float32),
        ("float64", np.float64),
        ("int8", np.float32),
        ("int64", np.float64),
        ("uint32", np.float64),
        *((other, np.float32) for other in _NAMES if other != _name),
    ):
        _list.add(
            f"{_name}_with_{_other}",
            mixed,
            _two(_name, _other, _kind),
            extent=(999,),
            expected=_in(_kind),
        )


def _constants(dtype):
    @kd.kernel(contract=False)
    def constants(x, out, wide):
        i = kd.grid(1)
        if i < x.size:
            out[0, i] = x[i] * dtype(3) + dtype(0.1)
            out[1, i] = dtype(x[i] > dtype(1))
            convert = dtype
            out[2, i] = convert(i)
            wide[0, i] = x[i] * 0.1
            wide[1, i] = float(x[i]) + 1
            wide[2, i] = int(x[i])
            wide[3, i] = np.float64(x[i]) * np.float32(x[i])

    return constants


def _with_constants(x, out, wide):
    dtype, double = out.dtype.type, x.astype(np.float64)
    index = np.arange(x.size)
    narrow = [x * dtype(3) + dtype(0.1), (x > dtype(1)).astype(dtype), index.astype(dtype)]
    whole = np.where(np.isnan(double), 0.0, np.trunc(double) + 0.0)
    widened = [double * 0.1, double + 1, whole, double * double]
    return {1: np.stack(narrow), 2: np.stack(widened)}


for _name in _NAMES:
    _dtype = numpy_dtype(_name)
    _list.add(
        f"constants_{_name}",
        _constants(_dtype.type),
        lambda rng, d=_dtype: (
            random_array(rng, 999, d),
            poisoned((3, 999), d),
            poisoned((4, 999), np.float64),
        ),
        extent=(999,),
        expected=_with_constants,
    )


# --------------------------------------------------------------------------- memory


@kd.kernel(contract=False)
def views(x, y, out):
    i, j = kd.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] - y[-1 - i, j]


def _views(name, steps):
    def make(rng):
        x, y = (strided(random_array(rng, (13, 21), name), s) for s in (steps, (1, 1)))
        return x, y, strided(poisoned((13, 21), numpy_dtype(name)), steps[::-1])

    return make


@kd.kernel
def reversed_in_shared(x, out):
    tile = kd.shared.array(0, "float16")
    other = kd.shared.array(64, "bfloat16")
    own = kd.local.array(2, "bfloat16")
    t = kd.threadIdx.x
    i = kd.grid(1)
    square = kd.float16(x[i] * x[i])
    own[t % 2] = x[i]
    tile[t] = x[i]
    other[t] = x[i]
    kd.syncthreads()
    out[0, i] = tile[63 - t]
    out[1, i] = other[63 - t]
    out[2, i] = own[t % 2]
    out[3, i] = square


def _reversed_in_shared(x, out):
    brain = numpy_dtype("bfloat16")
    back = x.reshape(-1, 64)[:, ::-1].reshape(-1)
    rows = [back.astype(np.float16), back.astype(brain), x.astype(brain)]
    rows.append((x * x).astype(np.float16))
    return {1: np.stack([row.astype(np.float32) for row in rows])}


for _name in _NAMES:
    for _steps in ((1, 2), (-1, 1), (3, -2)):
        _label = "_".join(str(step).replace("-", "minus_") for step in _steps)
        _list.add(
            f"views_{_name}_{_label}",
            views,
            _views(_name, _steps),
            extent=(13, 21),
            expected=lambda x, y, out: {2: x - y[::-1]},
        )
if "bfloat16" in _NAMES:
    _list.add(
        "shared_and_local",
        reversed_in_shared,
        lambda rng: (random_array(rng, 256, np.float32), poisoned((4, 256), np.float32)),
        grid=(4,),
        block=(64,),
        shared_bytes=128,
        expected=_reversed_in_shared,
    )
