"""Float and complex arithmetic: bit for bit without contraction, else within its bounds."""

from __future__ import annotations

import math

import numpy as np

import kerneldsl as kd
from tests.conformance.kernels.reference import SIZE, binary_case
from tests.support.arrays import poisoned, random_array
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("floats")
CASES = _list.cases


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


_float_kernel, _float_expected = binary_case(_float_pair)


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


_mixed_kernel, _mixed_expected = binary_case(_float_float_mixed)
for _left, _right in (("float32", "float64"), ("float32", "int32"), ("float32", "int16")):
    _list.add(
        f"mixed_{_left}_{_right}",
        _mixed_kernel,
        lambda rng, a=_left, b=_right: (
            random_array(rng, SIZE, a),
            random_array(rng, SIZE, b) | 1 if b[0] == "i" else random_array(rng, SIZE, b),
            poisoned((5, SIZE), np.float64),
        ),
        extent=(SIZE,),
        expected=_mixed_expected,
    )


def _floor_and_modulo(a, b, out, i):
    out[0, i] = a // b
    out[1, i] = a % b


_floor_kernel, _floor_expected = binary_case(_floor_and_modulo)


def _moderate_floats(dtype):
    def make(rng):
        x = rng.uniform(-100, 100, SIZE).astype(dtype)
        y = rng.uniform(0.5, 9, SIZE).astype(dtype) * rng.choice([-1, 1], SIZE).astype(dtype)
        x[:3], y[:3] = (6.0, -6.0, 0.0), (3.0, 3.0, -3.0)
        return x, y, poisoned((2, SIZE), dtype)

    return make


for _dtype in ("float32", "float64"):
    _list.add(
        f"floor_and_modulo_{_dtype}",
        _floor_kernel,
        _moderate_floats(_dtype),
        extent=(SIZE,),
        expected=_floor_expected,
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


_complex_kernel, _ = binary_case(_complex_pair)
for _name in ("complex64", "complex128"):
    _list.add(
        f"complex_{_name}",
        _complex_kernel,
        lambda rng, d=_name: (
            random_array(rng, SIZE, d),
            random_array(rng, SIZE, d),
            poisoned((10, SIZE), d),
        ),
        extent=(SIZE,),
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


@kd.kernel(fastmath=True)
def fast_tanh(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = math.tanh(x[i])


_list.add(
    "fast_tanh",
    fast_tanh,
    lambda rng: (
        np.concatenate(
            [rng.uniform(-0.2, 0.2, 300), rng.uniform(-12, 12, 300), [0.0, 1e-30, 90, -1e30]]
        ).astype(np.float32),
        poisoned(604, "f4"),
    ),
    extent=(604,),
    expected=lambda x, out: {1: np.tanh(x.astype(np.longdouble))},
    ulp=16384,  # tanh.approx has a relative error of 2 to the power of -11
)
