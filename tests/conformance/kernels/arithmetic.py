"""Integer and float arithmetic, casts and complex numbers, bit for bit as Numba types them.

The expected values come from Numba's own CPU compiler, with the same error model, over the same
Python function.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned, random_array
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("arithmetic")
CASES = _list.cases
_SIZE = 67


@cache
def _reference(function: Callable[..., Any], argument_count: int) -> Callable[..., Any]:
    """Numba's loop that calls ``function(*elements, out, i)`` for each index."""
    element = numba.njit(error_model="numpy")(function)
    if argument_count == 1:

        @numba.njit(error_model="numpy")
        def one(x, out):
            for i in range(x.size):
                element(x[i], out, i)

        return one

    @numba.njit(error_model="numpy")
    def two(x, y, out):
        for i in range(x.size):
            element(x[i], y[i], out, i)

    return two


def _unary(function, **options):
    device = kd.func(function)

    @kd.kernel(contract=False, **options)
    def unary(x, out):
        i = kd.grid(1)
        if i < x.size:
            device(x[i], out, i)

    def expected(x, out):
        _reference(function, 1)(x, out)
        return {1: out}

    return unary, expected


def _binary(function, **options):
    device = kd.func(function)

    @kd.kernel(contract=False, **options)
    def binary(x, y, out):
        i = kd.grid(1)
        if i < x.size:
            device(x[i], y[i], out, i)

    def expected(x, y, out):
        _reference(function, 2)(x, y, out)
        return {2: out}

    return binary, expected


def _integer_pair(a, b, out, i):
    out[0, i] = a + b
    out[1, i] = a - b
    out[2, i] = a * b
    out[3, i] = a & b
    out[4, i] = a | b
    out[5, i] = a ^ b
    out[6, i] = a << (b & 7)
    out[7, i] = a >> (b & 7)
    out[8, i] = min(a, b)
    out[9, i] = max(a, b)
    out[10, i] = (a < b) + 2 * (a <= b) + 4 * (a > b) + 8 * (a >= b) + 16 * (a == b) + 32 * (a != b)


def _integer_division(a, b, out, i):
    # b is never 0, and never -1 where a is the least integer.
    out[0, i] = a // b
    out[1, i] = a % b
    out[2, i] = -a
    out[3, i] = ~a
    out[4, i] = abs(a)
    out[5, i] = a**2
    out[6, i] = a**3
    q, r = divmod(a, b)
    out[7, i] = q * 3 + r


def _true_division(a, b, out, i):
    out[0, i] = a / b
    out[1, i] = a * 0.5
    out[2, i] = a + np.float32(1)


_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_MIXED = (("int32", "int64"), ("int8", "uint8"), ("uint32", "int32"), ("uint16", "int64"))


def _integer_inputs(left, right, rows, out_dtype, division=False):
    def make(rng):
        x = random_array(rng, _SIZE, left)
        y = random_array(rng, _SIZE, right)
        y[::3] = rng.integers(1, 9, y[::3].shape)
        if division:
            y[y == 0] = 3
            y[y == np.array(-1).astype(right)] = 5
        else:
            y[::5] = x[::5].astype(right)
            x[0] = np.iinfo(left).min
            y[1] = np.iinfo(right).max
        return x, y, poisoned((rows, _SIZE), out_dtype)

    return make


def _wide(*dtypes):
    return np.uint64 if all(d[0] == "u" for d in dtypes) else np.int64


_pair_kernel, _pair_expected = _binary(_integer_pair)
_division_kernel, _division_expected = _binary(_integer_division)
_true_kernel, _true_expected = _binary(_true_division)
for _left, _right in (*((d, d) for d in _INTEGERS), *_MIXED):
    _label = _left if _left == _right else f"{_left}_{_right}"
    _out = _wide(_left, _right)
    _list.add(
        f"integer_{_label}",
        _pair_kernel,
        _integer_inputs(_left, _right, 11, _out),
        extent=(_SIZE,),
        expected=_pair_expected,
    )
    _list.add(
        f"division_{_label}",
        _division_kernel,
        _integer_inputs(_left, _right, 8, _out, division=True),
        extent=(_SIZE,),
        expected=_division_expected,
    )
    _list.add(
        f"true_division_{_label}",
        _true_kernel,
        _integer_inputs(_left, _right, 3, np.float64, division=True),
        extent=(_SIZE,),
        expected=_true_expected,
    )


def _mixed_comparison(a, b, out, i):
    out[0, i] = a < b
    out[1, i] = a <= b
    out[2, i] = a == b
    out[3, i] = a != b
    out[4, i] = a > b
    out[5, i] = a >= b


_compare_kernel, _compare_expected = _binary(_mixed_comparison)


def _signed_unsigned(rng):
    x = random_array(rng, _SIZE, np.int64)
    y = random_array(rng, _SIZE, np.uint64)
    y[::2] = x[::2].view(np.uint64)
    x[:4] = (-1, 0, 1, -(2**63))
    y[:4] = (2**64 - 1, 0, 1, 2**63)
    return x, y, poisoned((6, _SIZE), bool)


_list.add(
    "compare_int64_uint64",
    _compare_kernel,
    _signed_unsigned,
    extent=(_SIZE,),
    expected=_compare_expected,
)


def _float_pair(a, b, out, i):
    out[0, i] = a + b
    out[1, i] = a - b
    out[2, i] = a * b
    out[3, i] = a / b
    out[4, i] = -a
    out[5, i] = abs(a)
    out[6, i] = np.sqrt(abs(a))
    out[7, i] = a * b + a
    out[8, i] = a * a - b * b
    out[9, i] = 1.0 if a < b else 2.0 if a == b else 3.0 if a > b else 4.0
    out[10, i] = 1.0 if a != b else 0.0


_float_kernel, _float_expected = _binary(_float_pair)


def _float_inputs(dtype):
    def make(rng):
        special = np.array(
            [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, np.finfo(dtype).max, 1e-40], dtype
        )
        x = np.concatenate([np.repeat(special, 9), random_array(rng, 200, dtype)])
        y = np.concatenate([np.tile(special, 9), random_array(rng, 200, dtype)])
        y[-5:] = x[-5:]
        return x, y, poisoned((11, x.size), dtype)

    return make


for _dtype in ("float32", "float64"):
    _list.add(
        f"float_{_dtype}",
        _float_kernel,
        _float_inputs(_dtype),
        extent=(281,),
        expected=_float_expected,
    )


def _float_float_mixed(a, b, out, i):
    out[0, i] = a + b
    out[1, i] = a * b
    out[2, i] = a / b
    out[3, i] = a + 1
    out[4, i] = a * np.float32(0.1)


_mixed_kernel, _mixed_expected = _binary(_float_float_mixed)
for _left, _right in (("float32", "float64"), ("float32", "int32"), ("float32", "int16")):
    _list.add(
        f"mixed_{_left}_{_right}",
        _mixed_kernel,
        lambda rng, a=_left, b=_right: (
            random_array(rng, _SIZE, a),
            random_array(rng, _SIZE, b) | 1 if b[0] == "i" else random_array(rng, _SIZE, b),
            poisoned((5, _SIZE), np.float64),
        ),
        extent=(_SIZE,),
        expected=_mixed_expected,
    )


def _floor_and_modulo(a, b, out, i):
    out[0, i] = a // b
    out[1, i] = a % b


_floor_kernel, _floor_expected = _binary(_floor_and_modulo)


def _moderate_floats(dtype):
    def make(rng):
        x = rng.uniform(-100, 100, _SIZE).astype(dtype)
        y = rng.uniform(0.5, 9, _SIZE).astype(dtype) * rng.choice([-1, 1], _SIZE).astype(dtype)
        x[:3], y[:3] = (6.0, -6.0, 0.0), (3.0, 3.0, -3.0)
        return x, y, poisoned((2, _SIZE), dtype)

    return make


for _dtype in ("float32", "float64"):
    _list.add(
        f"floor_and_modulo_{_dtype}",
        _floor_kernel,
        _moderate_floats(_dtype),
        extent=(_SIZE,),
        expected=_floor_expected,
    )


def _integer_casts(a, out, i):
    out[0, i] = np.int8(a)
    out[1, i] = np.int16(a)
    out[2, i] = np.int32(a)
    out[3, i] = np.int64(a)
    out[4, i] = np.uint8(a)
    out[5, i] = np.uint16(a)
    out[6, i] = np.uint32(a)
    out[7, i] = int(a)
    out[8, i] = np.bool_(a)
    out[9, i] = bool(a)


_cast_kernel, _cast_expected = _unary(_integer_casts)
for _name in (*_INTEGERS, "bool"):
    _list.add(
        f"casts_from_{_name}",
        _cast_kernel,
        lambda rng, d=_name: (random_array(rng, _SIZE, d), poisoned((10, _SIZE), np.int64)),
        extent=(_SIZE,),
        expected=_cast_expected,
    )


def _float_casts(a, out, i):
    out[0, i] = np.float32(a)
    out[1, i] = np.float64(a)
    out[2, i] = float(a)
    out[3, i] = np.float64(np.float32(a)) + np.float64(a)


_to_float_kernel, _to_float_expected = _unary(_float_casts)
for _name in (*_INTEGERS, "float32", "float64"):
    _list.add(
        f"casts_to_float_from_{_name}",
        _to_float_kernel,
        lambda rng, d=_name: (random_array(rng, _SIZE, d), poisoned((4, _SIZE), np.float64)),
        extent=(_SIZE,),
        expected=_to_float_expected,
    )


def _float_to_integer(a, out, i):
    out[0, i] = np.int32(a)
    out[1, i] = np.int64(a)
    out[2, i] = int(a)
    out[3, i] = round(a)
    out[4, i] = np.int8(a * 0.1)
    out[5, i] = np.uint16(abs(a))


_from_float_kernel, _from_float_expected = _unary(_float_to_integer)
for _name in ("float32", "float64"):
    _list.add(
        f"casts_to_integer_from_{_name}",
        _from_float_kernel,
        lambda rng, d=_name: (
            np.concatenate([rng.uniform(-999, 999, _SIZE), np.arange(-4, 4) + 0.5]).astype(d),
            poisoned((6, _SIZE + 8), np.int64),
        ),
        extent=(_SIZE + 8,),
        expected=_from_float_expected,
    )


def _stores_narrow(a, out, i):
    out[0, i] = a
    out[1, i] = a + 1
    out[2, i] = a * 3


_narrow_kernel, _narrow_expected = _unary(_stores_narrow)
for _name, _to in (("int64", "int8"), ("int64", "uint32"), ("uint64", "int32"), ("int32", "uint8")):
    _list.add(
        f"stores_{_name}_into_{_to}",
        _narrow_kernel,
        lambda rng, d=_name, t=_to: (random_array(rng, _SIZE, d), poisoned((3, _SIZE), t)),
        extent=(_SIZE,),
        expected=_narrow_expected,
    )


def _complex_pair(a, b, out, i):
    out[0, i] = a + b
    out[1, i] = a - b
    out[2, i] = a * b
    out[3, i] = a / b
    out[4, i] = -a
    out[5, i] = a.conjugate()
    out[6, i] = complex(a.real, b.imag)
    out[7, i] = abs(a)
    out[8, i] = a * 2
    out[9, i] = 1 if a == b else 0


def _complex_exact(a, b, out):
    wide = np.clongdouble
    a, b = a.astype(wide), b.astype(wide)
    rows = [a + b, a - b, a * b, a / b, -a, a.conj(), a.real + 1j * b.imag, abs(a), a * 2, a == b]
    return {2: np.stack([np.asarray(r, wide) for r in rows])}


_complex_kernel, _ = _binary(_complex_pair)
for _name in ("complex64", "complex128"):
    _list.add(
        f"complex_{_name}",
        _complex_kernel,
        lambda rng, d=_name: (
            random_array(rng, _SIZE, d),
            random_array(rng, _SIZE, d),
            poisoned((10, _SIZE), d),
        ),
        extent=(_SIZE,),
        expected=_complex_exact,
        ulp=4,
    )


@kd.kernel
def contracted(x, y, z, out):
    i = kd.grid(1)
    out[i] = x[i] * y[i] + z[i]


def _fused(x, y, z, out):
    wide = np.longdouble
    return {3: x.astype(wide) * y.astype(wide) + z.astype(wide)}


_list.add(
    "contracted",
    contracted,
    # All terms positive: fused or not, the result is within one unit of the exact one.
    lambda rng: (*(rng.uniform(1, 2, 99).astype(np.float32) for _ in range(3)), poisoned(99, "f4")),
    extent=(99,),
    expected=_fused,
    ulp=1,
)


@kd.kernel(fastmath=True)
def fast(x, y, out):
    i = kd.grid(1)
    out[i] = x[i] * y[i] / (x[i] + y[i])


def _fast_exact(x, y, out):
    a, b = x.astype(np.longdouble), y.astype(np.longdouble)
    return {2: a * b / (a + b)}


_list.add(
    "fastmath",
    fast,
    lambda rng: (*(rng.uniform(1, 2, 99).astype(np.float32) for _ in range(2)), poisoned(99, "f4")),
    extent=(99,),
    expected=_fast_exact,
    ulp=4,
)
