"""Kernels that give each row a block, with a tree in shared memory."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numba
import numpy as np

import kerneldsl as kd
from lanes.case import Case, CompiledC, rivals_in_c

__all__ = ["SOURCE", "cases"]

#: Stored C source.
SOURCE = "rows"
f32 = np.float32
_THREADS = 128


@kd.kernel
def softmax(x, out):
    row = kd.blockIdx.x
    t = kd.threadIdx.x
    s = kd.shared.array(_THREADS, f32)
    largest = f32(-math.inf)
    for j in range(t, x.shape[1], _THREADS):
        largest = max(largest, x[row, j])
    s[t] = largest
    kd.syncthreads()
    step = _THREADS // 2
    while step > 0:
        if t < step:
            s[t] = max(s[t], s[t + step])
        kd.syncthreads()
        step //= 2
    largest = s[0]
    kd.syncthreads()
    total = f32(0.0)
    for j in range(t, x.shape[1], _THREADS):
        total += math.exp(x[row, j] - largest)
    s[t] = total
    kd.syncthreads()
    step = _THREADS // 2
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        kd.syncthreads()
        step //= 2
    total = s[0]
    for j in range(t, x.shape[1], _THREADS):
        out[row, j] = math.exp(x[row, j] - largest) / total


@numba.njit(parallel=True, error_model="numpy")
def _softmax(x, out):
    for row in numba.prange(x.shape[0]):
        largest = f32(-math.inf)
        for j in range(x.shape[1]):
            largest = max(largest, x[row, j])
        total = f32(0.0)
        for j in range(x.shape[1]):
            value = math.exp(x[row, j] - largest)
            out[row, j] = value
            total += value
        for j in range(x.shape[1]):
            out[row, j] /= total


@kd.func
def block_sum(partial, t, value):
    partial[t] = value
    kd.syncthreads()
    step = kd.blockDim.x // 2
    while step > 0:
        if t < step:
            partial[t] += partial[t + step]
        kd.syncthreads()
        step //= 2
    total = partial[0]
    kd.syncthreads()
    return total


@kd.kernel
def layer_norm(x, scale, shift, out, epsilon):
    row, t = kd.blockIdx.x, kd.threadIdx.x
    partial = kd.shared.array(_THREADS, f32)
    columns = x.shape[1]
    total = f32(0.0)
    for j in range(t, columns, kd.blockDim.x):
        total += x[row, j]
    mean = block_sum(partial, t, total) / f32(columns)
    total = f32(0.0)
    for j in range(t, columns, kd.blockDim.x):
        centred = x[row, j] - mean
        total += centred * centred
    factor = kd.rsqrt(block_sum(partial, t, total) / f32(columns) + epsilon)
    for j in range(t, columns, kd.blockDim.x):
        out[row, j] = (x[row, j] - mean) * factor * scale[j] + shift[j]


@numba.njit(parallel=True, error_model="numpy")
def _layer_norm(x, scale, shift, out, epsilon):
    columns = x.shape[1]
    for row in numba.prange(x.shape[0]):
        total = f32(0.0)
        for j in range(columns):
            total += x[row, j]
        mean = total / f32(columns)
        total = f32(0.0)
        for j in range(columns):
            centred = x[row, j] - mean
            total += centred * centred
        factor = f32(1.0) / math.sqrt(total / f32(columns) + epsilon)
        for j in range(columns):
            out[row, j] = (x[row, j] - mean) * factor * scale[j] + shift[j]


def cases(libraries: Mapping[str, CompiledC]) -> list[Case]:
    """Return the comparisons; `libraries` are those of the C source, by name."""
    rng = np.random.default_rng(7)
    return [_softmax_case(rng, libraries), _layer_norm_case(rng, libraries)]


def _softmax_case(rng: np.random.Generator, libraries: Mapping[str, CompiledC]) -> Case:
    rows, columns = 2048, 2048
    x = rng.standard_normal((rows, columns)).astype(f32)
    out = np.empty_like(x)
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))

    def with_numpy():
        np.exp(x - x.max(axis=1, keepdims=True), out=out)
        np.divide(out, out.sum(axis=1, keepdims=True), out=out)

    rivals = {
        "prange": lambda: _softmax(x, out),
        "numpy": with_numpy,
        **rivals_in_c(libraries, "softmax", x, out, rows, columns),
    }
    return Case(
        "softmax f32, a block a row, 2048^2",
        (out,),
        (powers / powers.sum(axis=1, keepdims=True),),
        1e-5,
        lambda: softmax[rows, _THREADS](x, out),
        rivals,
    )


def _layer_norm_case(rng: np.random.Generator, libraries: Mapping[str, CompiledC]) -> Case:
    rows, columns, epsilon = 2048, 1024, f32(1e-5)
    x = rng.normal(0.5, 2, (rows, columns)).astype(f32)
    scale, shift = rng.standard_normal((2, columns)).astype(f32)
    out = np.empty_like(x)

    def normalized(x):
        centred = x - x.mean(axis=1, keepdims=True)
        variance = np.square(centred).mean(axis=1, keepdims=True)
        return centred / np.sqrt(variance + epsilon) * scale + shift

    def with_numpy():
        out[:] = normalized(x)

    rivals = {
        "prange": lambda: _layer_norm(x, scale, shift, out, epsilon),
        "numpy": with_numpy,
        **rivals_in_c(libraries, "layer_norm", x, scale, shift, out, epsilon, rows, columns),
    }
    return Case(
        "layer norm f32, a block a row, 2048 x 1024",
        (out,),
        (normalized(x.astype(np.float64)),),
        1e-5,
        lambda: layer_norm[rows, _THREADS](x, scale, shift, out, epsilon),
        rivals,
    )
