"""What one thread computes from its own values: each dtype, with the values at its ends."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import HOST_DTYPES, poisoned, random_array
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("values")
CASES = _list.cases

_SIZE = 150
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_WIDE = ("int32", "int64", "uint32", "uint64")


def _integers(rng, dtype, size=_SIZE):
    """Random bits, each single one, and the numbers around 0 and the ends."""
    limits = np.iinfo(dtype)
    x = random_array(rng, size, dtype)
    singles = [1 << k for k in range(limits.bits - 1)]
    ends = [0, 1, 2, limits.min, limits.max, limits.max - 1, limits.min + 1, limits.max // 2 + 1]
    chosen = np.array([*ends, *singles], dtype)
    x[: chosen.size] = chosen[:size]
    return x


@kd.kernel
def bits(x, out):
    i = kd.grid(1)
    out[i, 0] = kd.popc(x[i])
    out[i, 1] = kd.clz(x[i])
    out[i, 2] = kd.ffs(x[i])
    out[i, 3] = np.int64(kd.brev(x[i]))


for _dtype in _INTEGERS:

    def _bits(rng, dtype=_dtype):
        return _integers(rng, dtype), poisoned((_SIZE, 4), np.int64)

    _list.add(f"bits_{_dtype}", bits, _bits, extent=(_SIZE,))


@kd.kernel
def permuted_bytes(x, y, selectors, out):
    i = kd.grid(1)
    out[i, 0] = kd.byte_perm(x[i], y[i], selectors[i])
    out[i, 1] = kd.byte_perm(x[i], y[i], 0x0123)
    out[i, 2] = kd.byte_perm(x[i], 0, 0x4140)


for _dtype in ("int8", "int32", "uint32", "int64"):

    def _bytes(rng, dtype=_dtype):
        selectors = random_array(rng, _SIZE, np.uint32)
        x, y = _integers(rng, dtype), random_array(rng, _SIZE, dtype)
        return x, y, selectors, poisoned((_SIZE, 3), np.uint32)

    _list.add(f"permuted_bytes_{_dtype}", permuted_bytes, _bytes, extent=(_SIZE,))


@kd.kernel
def pairs(x, y, shifts, out):
    i = kd.grid(1)
    out[i, 0] = kd.funnelshift_l(x[i], y[i], shifts[i])
    out[i, 1] = kd.funnelshift_r(x[i], y[i], shifts[i])
    out[i, 2] = kd.funnelshift_lc(x[i], y[i], shifts[i])
    out[i, 3] = kd.funnelshift_rc(x[i], y[i], shifts[i])
    out[i, 4] = kd.mulhi(x[i], y[i])
    out[i, 5] = kd.funnelshift_l(x[i], y[i], 7)


for _dtype in _WIDE:
    for _shift in ("int64", "uint8"):

        def _pairs(rng, dtype=_dtype, shift=_shift):
            low = -70 if shift == "int64" else 0
            shifts = rng.integers(low, 140, _SIZE).astype(shift)
            shifts[:8] = 0, 1, 31, 32, 33, 63, 64, 65
            x, y = _integers(rng, dtype), rng.permutation(_integers(rng, dtype))
            return x, y, shifts, poisoned((_SIZE, 6), dtype)

        _list.add(f"pairs_{_dtype}_by_{_shift}", pairs, _pairs, extent=(_SIZE,))


@kd.kernel
def dot_products(x, y, z, out):
    i = kd.grid(1)
    out[i, 0] = kd.dot4(x[i], y[i], z[i])
    out[i, 1] = kd.dot4(x[i], y[i], 0)


for _first in ("int32", "uint32"):
    for _second in ("int32", "uint32"):

        def _words(rng, first=_first, second=_second):
            x, y = _integers(rng, first), rng.permutation(_integers(rng, second))
            return x, y, random_array(rng, _SIZE, np.int32), poisoned((_SIZE, 2), np.int64)

        _list.add(f"dot_products_{_first}_{_second}", dot_products, _words, extent=(_SIZE,))

_SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-300, 1e-45, 3e38, 1.5, 2.0**-24)


def _floats(rng, dtype, size=_SIZE):
    """Numbers of every size, and those that are treated apart."""
    with np.errstate(all="ignore"):
        x = (rng.standard_normal(size) * 2.0 ** rng.integers(-30, 30, size)).astype(dtype)
        chosen = rng.random(size) < 0.3
        x[chosen] = rng.choice(_SPECIAL, size).astype(dtype)[chosen]
    return x


@kd.kernel
def fused_products(x, y, z, out):
    i = kd.grid(1)
    out[i] = kd.fma(x[i], y[i], z[i])


for _kinds in (
    *(("float32",) * 3, ("float64",) * 3, ("float16",) * 3, ("float32", "float64", "float32")),
    *(("float64", "int64", "float64"), ("int32", "float32", "float32"), ("float16", "float32") * 2),
):
    _kinds = _kinds[:3]

    def _factors(rng, kinds=_kinds):
        given = [
            _integers(rng, k) // 2**16 if k.startswith("int") else _floats(rng, k) for k in kinds
        ]
        with np.errstate(all="ignore"):
            exact = rng.random(_SIZE) < 0.4
            product = -(given[0].astype(np.float64) * given[1].astype(np.float64))
            given[2][exact] = product.astype(kinds[2])[exact]  # what is left is the rounding
        is_single = all(k in ("float16", "float32") for k in kinds)
        return *given, poisoned(_SIZE, np.float32 if is_single else np.float64)

    _list.add(f"fused_products_{'_'.join(_kinds)}", fused_products, _factors, extent=(_SIZE,))


@kd.kernel
def clamped(x, out):
    i = kd.grid(1)
    out[i] = kd.saturate(x[i])


for _dtype in ("float16", "float32", "float64", "int32"):
    _list.add(
        f"saturate_{_dtype}",
        clamped,
        lambda rng, dtype=_dtype: (
            (rng.random(_SIZE) * 3 - 1).astype(dtype),
            poisoned(_SIZE, np.float32 if dtype in ("float16", "float32") else np.float64),
        ),
        extent=(_SIZE,),
    )


@kd.kernel
def roots(x, out):
    i = kd.grid(1)
    out[i, 0] = kd.rsqrt(x[i])
    out[i, 1] = kd.cbrt(x[i])


def _exact_roots(x, out):
    """In float64 of float32, in the widest type of float64: wider than what is compared."""
    is_single = x.dtype in (np.dtype("float16"), np.dtype("float32"))
    wide = x.astype(np.float64 if is_single else np.longdouble)
    with np.errstate(all="ignore"):
        return {1: np.stack([1 / np.sqrt(wide), np.cbrt(wide)], axis=1)}


for _dtype in ("float16", "float32", "float64", "int32"):

    def _radicands(rng, dtype=_dtype):
        x = _integers(rng, dtype) if dtype == "int32" else _floats(rng, dtype)
        if dtype != "int32":
            x[:60] = abs(x[:60])
        single = dtype in ("float16", "float32")
        return x, poisoned((_SIZE, 2), np.float32 if single else np.float64)

    _list.add(f"roots_{_dtype}", roots, _radicands, extent=(_SIZE,), expected=_exact_roots, ulp=2)


@kd.kernel
def chosen(c, x, y, out):
    i = kd.grid(1)
    out[i] = kd.selp(c[i], x[i], y[i])


for _dtype in HOST_DTYPES:
    for _condition in ("bool", "int64"):

        def _choices(rng, dtype=_dtype, condition=_condition):
            c = rng.integers(0, 2, _SIZE).astype(condition)
            x, y = random_array(rng, _SIZE, dtype), random_array(rng, _SIZE, dtype)
            return c, x, y, poisoned(_SIZE, dtype)

        _list.add(f"chosen_{_dtype}_by_{_condition}", chosen, _choices, extent=(_SIZE,))


def _cast_to(dtype):
    @kd.kernel
    def cast(x, out):
        i = kd.grid(1)
        out[i] = kd.bitcast(x[i], dtype)

    return cast


_NARROW = ("float16", "bfloat16")
for _names in (
    ("int8", "uint8"),
    tuple(d for d in ("int16", "uint16", *_NARROW) if d in HOST_DTYPES),
    ("int32", "uint32", "float32"),
    ("int64", "uint64", "float64"),
):
    for _from in _names:
        for _to in _names:

            def _numbers(rng, source=_from, target=_to):
                bits = random_array(rng, _SIZE, f"u{np.dtype(source).itemsize}")
                x = bits.view(source)
                for dtype in {source, target} & set(_NARROW):
                    # Quiet NaNs alone: a conversion to float32 makes others quiet.
                    with np.errstate(invalid="ignore"):
                        x[np.isnan(x.view(dtype))] = x.dtype.type(1)
                return x, poisoned(_SIZE, target)

            _list.add(
                f"cast_{_from}_to_{_to}", _cast_to(np.dtype(_to).type), _numbers, extent=(_SIZE,)
            )


@kd.kernel
def cast_of_computed(x, out):
    # A float's bits as a key that sorts as the float does, and back.
    i = kd.grid(1)
    key = kd.bitcast(x[i] * np.float32(2), np.int32)
    key = key ^ ((key >> 31) & 0x7FFFFFFF)
    out[i, 0] = key
    bits = np.uint32(kd.bitcast(x[i], np.uint32) ^ np.uint32(0x80000000))
    out[i, 1] = kd.bitcast(bits, np.float32) < 0


_list.add(
    "cast_of_computed",
    cast_of_computed,
    lambda rng: (random_array(rng, _SIZE, np.float32), poisoned((_SIZE, 2), np.int64)),
    extent=(_SIZE,),
)


@kd.kernel
def rests(x):
    i = kd.grid(1)
    kd.nanosleep(x[i] % 100)
    kd.nanosleep(50)
    x[i] += 1


_list.add("rests", rests, lambda rng: (rng.integers(0, 1000, _SIZE),), extent=(_SIZE,))
