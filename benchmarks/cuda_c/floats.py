"""Element kernels of float32, float64, float16 and complex numbers."""

from __future__ import annotations

import math

import numpy as np

import kerneldsl as kd
from cuda_c.case import Arguments, Case

__all__ = ["cases"]

f16, f32, f64, i32 = np.float16, np.float32, np.float64, np.int32
_N = 1 << 26


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def axpy_f16(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def triad_f64(a, b, c, scalar):
    for i in range(kd.grid(1), a.size, kd.gridsize(1)):
        a[i] = b[i] + scalar * c[i]


@kd.kernel
def fused_f64(x, out):
    i = kd.grid(1)
    if i < x.size:
        v = x[i]
        out[i] = math.exp(-v * v) * math.sin(3.0 * v) + math.sqrt(abs(v))


@kd.kernel
def mandelbrot_f64(out, rounds):
    column, row = kd.grid(2)
    height, width = out.shape
    if row < height and column < width:
        c_re = -2.0 + 3.0 * column / width
        c_im = -1.5 + 3.0 * row / height
        re, im = 0.0, 0.0
        count = 0
        while re * re + im * im <= 4.0 and count < rounds:
            re, im = re * re - im * im + c_re, 2.0 * re * im + c_im
            count += 1
        out[row, column] = count


@kd.kernel
def polynomial_f64(x, coefficients, out):
    i = kd.grid(1)
    if i < x.size:
        total = 0.0
        for k in range(coefficients.size):
            total = total * x[i] + coefficients[k]
        out[i] = total


@kd.kernel
def complex_products(a, b, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a[i] * b[i] + a[i].conjugate()


@kd.kernel
def rotate_quaternions(q, v, out):
    i = kd.grid(1)
    if i < v.shape[0]:
        w, x, y, z = q[i, 0], q[i, 1], q[i, 2], q[i, 3]
        a, b, c = v[i, 0], v[i, 1], v[i, 2]
        s, t, u = y * c - z * b + w * a, z * a - x * c + w * b, x * b - y * a + w * c
        out[i, 0] = a + f32(2.0) * (y * u - z * t)
        out[i, 1] = b + f32(2.0) * (z * s - x * u)
        out[i, 2] = c + f32(2.0) * (x * t - y * s)


def cases() -> list[Case]:
    """Return the cases."""
    half, small, side = _N // 2, 1 << 22, 2048

    def three(rng: np.random.Generator, dtype: type, count: int) -> Arguments:
        return *rng.uniform(-1, 1, (2, count)).astype(dtype), np.empty(count, dtype)

    def complexes(rng: np.random.Generator) -> Arguments:
        a, b = rng.standard_normal((2, small, 2)).astype(f32).view(np.complex64)[..., 0]
        return a, b, np.empty(small, np.complex64)

    def quaternions(rng: np.random.Generator) -> Arguments:
        q, v = rng.standard_normal((small, 4)), rng.standard_normal((small, 3))
        q /= np.linalg.norm(q, axis=1, keepdims=True)
        return q.astype(f32), v.astype(f32), np.empty((small, 3), f32)

    element = {"source": "floats", "block": 256}
    return [
        Case(
            axpy,
            grid=_N // 256,
            make=lambda rng: (f32(2.5), *three(rng, f32, _N)),
            passed=lambda given: (*given, i32(_N)),
            outputs=(3,),
            tolerance=1e-6,
            extent=(_N,),
            moved_bytes=12 * _N,
            **element,
        ),
        Case(
            axpy_f16,
            grid=_N // 256,
            make=lambda rng: (f16(2.5), *three(rng, f16, _N)),
            passed=lambda given: (*given, i32(_N)),
            outputs=(3,),
            tolerance=1e-3,
            extent=(_N,),
            moved_bytes=6 * _N,
            is_typed_by_numba=False,
            **element,
        ),
        Case(
            triad_f64,
            grid=2112,
            make=lambda rng: (np.empty(half), *rng.uniform(-1, 1, (2, half)), 3.0),
            passed=lambda given: (*given[:3], f64(3.0), i32(half)),
            outputs=(0,),
            tolerance=1e-15,
            moved_bytes=24 * half,
            **element,
        ),
        Case(
            fused_f64,
            grid=half // 256,
            make=lambda rng: (rng.uniform(-3, 3, half), np.empty(half)),
            passed=lambda given: (*given, i32(half)),
            outputs=(1,),
            tolerance=1e-14,
            extent=(half,),
            moved_bytes=16 * half,
            **element,
        ),
        Case(
            mandelbrot_f64,
            "floats",
            grid=(side // 32, side // 8),
            block=(32, 8),
            make=lambda rng: (np.empty((side, side), i32), 256),
            passed=lambda given: (given[0], i32(256), i32(side), i32(side)),
            outputs=(0,),
            strays=0.01,
        ),
        Case(
            polynomial_f64,
            grid=half // 256,
            make=lambda rng: (rng.uniform(-1, 1, half), rng.uniform(-1, 1, 12), np.empty(half)),
            passed=lambda given: (*given, i32(12), i32(half)),
            outputs=(2,),
            tolerance=1e-14,
            extent=(half,),
            moved_bytes=16 * half,
            **element,
        ),
        Case(
            complex_products,
            grid=small // 256,
            make=complexes,
            passed=lambda given: (*given, i32(small)),
            outputs=(2,),
            tolerance=1e-6,
            extent=(small,),
            moved_bytes=24 * small,
            **element,
        ),
        Case(
            rotate_quaternions,
            grid=small // 256,
            make=quaternions,
            passed=lambda given: (*given, i32(small)),
            outputs=(2,),
            tolerance=1e-6,
            extent=(small,),
            moved_bytes=40 * small,
            **element,
        ),
    ]
