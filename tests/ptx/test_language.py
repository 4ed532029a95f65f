"""Python's operations, built-in functions, control flow, tuples and called functions."""

from __future__ import annotations

import cmath
import math

import numba
import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import (
    ArgumentValueError,
    BarrierDivergenceError,
    BarrierDivergenceWarning,
    KernelTypingError,
)
from kerneldsl.language.element_types import DTYPE_NAMES
from tests.ptx.helpers import body_of, compile_ptx, specialize
from tests.support.extent import full_beyond

_REAL = [d for d in DTYPE_NAMES if d != "bool" and not d.startswith("complex")]


def builtins(x, y, out):
    i = kd.grid(1)
    a, b = x[i], y[i]
    out[0] = min(a, b) + max(a, b, 3) + abs(a) + round(float(b)) + round(float(a), 2)
    quotient, remainder = divmod(a, b)
    out[1] = quotient + remainder
    out[2] = a // b + a % b + a / b
    out[3] = a**2 + a**3.0 + pow(a, 2)
    out[4] = int(a) + float(b) + bool(a) + np.float32(a) + np.int8(b)
    out[5] = a if a > b else b
    out[6] = a < b < 7 or not a
    out[7] = np.minimum(a, b) + np.maximum(a, b) + np.abs(a) + np.sign(a)


@pytest.mark.parametrize("dtype", full_beyond(_REAL, _REAL[::3]))
def test_builtins(dtype: str) -> None:
    artifact = compile_ptx(builtins, f"{dtype}[::1], {dtype}[::1], float64[::1]")
    assert artifact.resources().registers


def bits(x, y, out):
    i = kd.grid(1)
    a, b = x[i], y[i]
    out[i] = (a & b) | (a ^ b) ^ ~a
    out[i] += (a << 3) + (a >> b)
    out[i] -= -a


@pytest.mark.parametrize("dtype", [d for d in _REAL if "int" in d])
def test_bitwise_operations(dtype: str) -> None:
    assert compile_ptx(bits, f"{dtype}[::1], {dtype}[::1], int64[::1]").resources().registers


def test_integer_arithmetic_follows_numba() -> None:
    """An int32 and a Python int are computed in 64 bits; two int32 as well."""

    def product(x, out):
        i = kd.grid(1)
        out[i] = x[i] * x[i + 1]

    body = body_of(compile_ptx(product, "int32[::1], int64[::1]"))
    assert "mul.wide.s32" in body


def complex_arithmetic(x, y, out):
    i = kd.grid(1)
    z = x[i] * y[i] + x[i] / y[i] - x[i].conjugate()
    z = z ** y[i] + cmath.exp(z) + np.sqrt(z) + cmath.sin(z) * abs(x[i])
    out[i] = z + complex(z.real, z.imag) + cmath.phase(z) + (1j if x[i] == y[i] else 0)


@pytest.mark.parametrize("dtype", full_beyond(["complex64", "complex128"], ["complex64"]))
def test_complex_arithmetic(dtype: str) -> None:
    signature = f"{dtype}[::1], {dtype}[::1], {dtype}[::1]"
    assert compile_ptx(complex_arithmetic, signature).resources().registers


def control_flow(x, out):
    i = kd.grid(1)
    if i >= x.size:
        return
    total = 0.0
    k = 0
    while True:
        k += 1
        if k % 3 == 0:
            continue
        total += x[k % x.size]
        if total > 100 or k > 50:
            break
    for a in range(10, 0, -2):
        for b in range(a):
            if b == 3:
                break
            total -= a * b
    for a, v in enumerate(out.shape):
        total += a * v
    out[i] = total


def test_control_flow() -> None:
    assert "bra" in body_of(compile_ptx(control_flow, "float64[::1], float64[::1]"))


def tuples(pair, x, out):
    i = kd.grid(1)
    a, (b, c) = pair
    triple = (a, b, x[i])
    swapped = (triple[2], triple[0])
    first, _second = swapped
    out[i] = first + len(triple) + sum_of((b, c)) + max(swapped[0], swapped[1])
    for value in (1.0, 2.0, 3.0):
        out[i] *= value
    if (a, b) < (b, a) and triple[:2] == (a, b):
        out[i] += c


@kd.func
def sum_of(values):
    total = 0.0
    for value in values:
        total += value
    return total


def test_tuples() -> None:
    signature = "(float64, (float64, float64)), float64[::1], float64[::1]"
    assert compile_ptx(tuples, signature).resources().registers


@kd.func
def lerp(a, b, t):
    return a + (b - a) * t


@kd.func
def store(x, i, v):
    if i < x.size:
        x[i] = lerp(v, v + 1, 0.5)


@numba.njit
def plain(a, b=2):
    return max(a, b) * helper(a)


@numba.njit
def helper(a):
    return a + 1


def calls(x, out):
    i = kd.grid(1)
    store(out, i, plain(x[i]) + plain(x[i], i))


def test_called_functions_are_inlined() -> None:
    artifact = compile_ptx(calls, "float32[::1], float64[::1]")
    assert "call.uni" not in body_of(artifact)
    assert ".func" not in artifact.ptx
    assert artifact.resources().registers


def test_overloads_compile_for_this_target_and_for_the_cpu() -> None:
    @numba.njit
    def on_the_cpu(x):
        return round(x, 2), min(x, 1.0), np.sign(x)

    def on_the_device(x):
        i = kd.grid(1)
        x[i] = round(x[i], 2) + min(x[i], 1.0) + np.sign(x[i])

    assert on_the_cpu(1.234) == (1.23, 1.0, 1.0)
    before = compile_ptx(on_the_device, "float64[::1]").ptx
    assert on_the_cpu(np.float32(0.5)) == (0.5, 0.5, 1.0)
    assert compile_ptx(on_the_device, "float32[::1]").ptx != before
    assert on_the_cpu(0.123) == (0.12, 0.123, 1.0)


@pytest.mark.parametrize(
    ("layout", "loads"),
    [("float32[:, ::1]", "C"), ("float32[::1, :]", "F"), ("float32[:, :]", "A")],
)
def test_layouts(layout: str, loads: str) -> None:
    def transpose(x, out):
        i, j = kd.grid(2)
        if i < x.shape[0] and j < x.shape[1]:
            out[j, i] = x[i, j] + x.strides[0]

    artifact = compile_ptx(transpose, f"{layout}, float32[:, ::1]")
    assert [p.dtype for p in artifact.layout.parameters].count("int64") == (
        6 if loads == "A" else 4
    )
    assert "ld.global" in body_of(artifact)


def test_an_array_of_rank_0_and_a_view() -> None:
    def views(x, z):
        row = x[kd.grid(1)]
        row[0] = z[()]
        x[1:, 2][0] += row[1:][0] + x.T[0, 1]

    assert compile_ptx(views, "float32[:, ::1], float32[()]").resources().registers


def test_a_typing_error_is_ours_and_names_the_line() -> None:
    def wrong(x):
        i = kd.grid(1)
        x[i] = math.sin("a")

    with pytest.raises(KernelTypingError) as raised:
        compile_ptx(wrong, "float32[::1]")
    where = raised.value.where
    assert where is not None
    assert where.filename == __file__
    assert where.lineno == wrong.__code__.co_firstlineno + 2
    assert raised.value.__cause__ is not None


def test_a_provably_divergent_barrier_is_refused() -> None:
    def divergent(x):
        if kd.threadIdx.x < 3:
            kd.syncthreads()
        x[0] = 1

    with pytest.raises(BarrierDivergenceError) as raised:
        compile_ptx(divergent, "float32[::1]")
    assert raised.value.where is not None
    assert raised.value.where.lineno == divergent.__code__.co_firstlineno + 2
    assert raised.value.chain


def test_an_unproved_barrier_is_warned_of_once() -> None:
    def unproved(x):
        if x[0] > kd.atomic.add(x, 1, 1):
            kd.syncthreads()
        x[0] = 1

    with pytest.warns(BarrierDivergenceWarning, match="uniform"):
        body = body_of(compile_ptx(unproved, "float32[::1]"))
    assert "bar.sync" in body


@pytest.mark.parametrize(
    "options",
    [
        {"max_registers": 0},
        {"max_registers": 256},
        {"launch_bounds": (2048,)},
        {"launch_bounds": (0,)},
        {"launch_bounds": (256, 64)},
    ],
)
def test_impossible_bounds_are_refused(options) -> None:
    from targets.cuda.compile.compiler import compile_kernel

    def store_one(x):
        x[0] = 1

    with pytest.raises(ArgumentValueError):
        compile_kernel(specialize(store_one, "int32[::1]", **options), arch="sm_75")
