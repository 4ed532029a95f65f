"""A kernel for each optimizing pass, which changes its code."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.contract import ArrayPromises, Promises
from kerneldsl.contract.abi import EXPLICIT, LaunchMode
from kerneldsl.language.kinds import array_kinds
from kerneldsl.language.signatures import parse_signature
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.compile.compiler import compile_kernel
from tests.ptx.helpers import specialize
from tests.support.linked_code import PTX

__all__ = ["ARCH", "OVER_EXTENTS", "PASS_KERNELS", "PTX_VERSION", "artifact_for_pass"]

ARCH, PTX_VERSION = "sm_90", "8.7"
_INTEGERS = "int64[::1], int64[::1]"
_WORDS = "uint32[::1], uint32[::1]"


def strided(x, out):
    t = kd.grid(1)
    total = 0
    for i in range(t, x.size, kd.gridsize(1)):
        total = total * 3 + x[i]
    out[t] = total


def of_a_local_array(x, out):
    own = kd.local.array(64, np.int64)
    t = kd.threadIdx.x
    for k in range(64):
        own[k] = x[t + k * 32] if t + k * 32 < x.size else 0
    for k in range(32):
        value = own[k]
        own[k] = own[63 - k]
        own[63 - k] = value
    for k in range(64):
        if t + k * 32 < out.size:
            out[t + k * 32] = own[k]


def nearest(x, out):
    t = kd.threadIdx.x
    y, z = x[t + 1], x[t + 2]
    least, place = 2**62, 0
    for k in range(16):
        first, second, third = x[t] - x[k], y - x[k + 1], z - x[k + 2]
        distance = first * first + second * second + third * third
        if distance < least:
            least, place = distance, k
    out[t] = place


def drawn(x, out):
    t = kd.threadIdx.x
    value, count = x[t], 0
    for _ in range(out.size):
        value = (value ^ (value << 13)) * 5 + 1
        value = (value ^ (value >> 7)) * 9 + (value << 3)
        if value & 255 < 100:
            count += 1
    out[t] = count


def halved(x, out):
    t = kd.threadIdx.x
    step = kd.blockDim.x // 2
    while step > 0:
        if t < step:
            out[t] = x[t + step]
        step //= 2


def in_stages(x, out):
    t = kd.threadIdx.x
    total = x[t]
    part = 1
    while part < 2048:
        total = total * 3 + x[t % part]
        total += x[t // part] // part + total % part
        total ^= x[t + 1] // part + x[t + 2] % part
        part *= 3
    out[t] = total


def tripled(x, out):
    i = kd.grid(1)
    if i < x.size:
        out[i] = x[i] * 3


def divided(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] // x[i + 1] + x[i] % x[i + 2]


def with_guarded_roots(x, out):
    t = kd.threadIdx.x
    value = x[t]
    if t > 2:
        value = math.sqrt(value)
    out[t] = value


def iterated(x, out):
    t = kd.threadIdx.x
    a, b, count = x[t], x[t + 1], 0
    while count < out.size and (a + b) & 15 != 7:
        a, b = a * a - b * b + 1, 2 * a * b + 3
        count += 1
    out[t] = count


def inside(x, out):
    i, j = kd.grid(2)
    if i == 0 or i >= x.size - 1:
        return
    if j == 0 or j >= out.size - 1:
        return
    out[i] = x[i] + x[j]


def counted(x, out):
    t = kd.threadIdx.x
    total = 0
    for k in range(x.size):
        total = total * 5 + x[k]
    out[t] = total


def with_a_remainder(x, out):
    t = kd.threadIdx.x
    total = 0
    for k in range(x.size):
        total = total * 3 + x[k]
    out[t] = total


def left_early(x, out):
    t = kd.threadIdx.x
    count = 0
    value = x[t] & 1023
    while count < out.size and value < 100000:
        value = value * 3 + 1
        count += 1
    out[t] = count


def checksum(x, out):
    i = kd.grid(1)
    crc = x[i]
    for _ in range(8):
        low = np.uint32(crc & np.uint32(1))
        crc = np.uint32((crc >> np.uint32(1)) ^ (low * np.uint32(0xEDB88320)))
    out[i] = crc


def grey(x, out):
    i = kd.grid(1)
    level = x[i] * np.uint32(77) + x[i + 1] * np.uint32(150) + x[i + 2] * np.uint32(29)
    out[i] = np.uint8(np.uint32(level & np.uint32(0xFFFF)) >> np.uint32(8))


def generated(x, out):
    i = kd.grid(1)
    state = x[i]
    total = np.uint32(0)
    for _ in range(4):
        state = np.uint32(state * np.uint32(1664525) + np.uint32(1013904223))
        total ^= state >> np.uint32(8)
    out[i] = total


def scores(x, out):
    t = kd.threadIdx.x
    best = 0
    for k in range(8):
        value = max(np.int32(x[t + k]) + 2, np.int32(x[t]) - 1, 0)
        out[t + k] = value
        best = max(best, value)
    out[t] += best


def neighbours(x, out):
    i, j = kd.grid(2)
    if 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1:
        out[i, j] = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]


def of_two_columns(x, out):
    i, j = kd.grid(2)
    total = 0
    for k in range(x.shape[0]):
        total = total * 3 + x[k, i] * x[k, j]
    out[i, j] = total


def with_a_rest(x, out):
    t = kd.threadIdx.x
    total = 0
    for k in range(x.size):
        total = total * 3 + x[k] * x[(k + t) & 31]
    out[t] = total


def with_roots(x, out):
    i = kd.grid(1)
    if i < out.size - 1:
        out[i] = math.sqrt(x[i]) - x[i + 1]


def scaled(x, out):
    i = kd.grid(1)
    if i < out.size - 1:
        radius, v = math.sqrt(x[i]), x[i + 1]
        while v > 2:
            v *= x[i + 1]
        for _ in range(4):
            v = v * v + x[i + 1]
        out[i] = radius * v


def turned(x, out):
    i = kd.grid(1)
    v = x[i]
    if x[i + 1] > 0.5:
        w = v * v + 1.0
    else:
        w = v * 3.0 + v
    out[i] = w - v


def middle(x, out):
    t = kd.threadIdx.x
    if t + 6 < x.size:
        values = kd.local.array(7, np.float32)
        for i in range(7):
            values[i] = x[t + i]
        for i in range(4):
            for j in range(i + 1, 7):
                if values[j] < values[i]:
                    least = values[j]
                    values[j] = values[i]
                    values[i] = least
        out[t] = values[3]


@kd.func(link=PTX, signature="bool(int64)", pure=True)
def is_even(n):
    return n % 2 == 0


def with_a_call(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = is_even(i)


def multiplied(a, b, c):
    total = kd.tile.zeros((64, 64), kd.float32)
    for k in kd.pipelined(range(0, a.shape[1], 64)):
        x = kd.tile.load(a, (0, k), (64, 64))
        y = kd.tile.load(b, (0, k), (64, 64))
        total = kd.mma(x, y.T, total)
    kd.tile.store(c, (0, 0), total)


def four_bits(word):
    return kd.bitcast(
        kd.uint16(word >> kd.uint32(18) & kd.uint32(120) ^ kd.uint32(16832)), kd.bfloat16
    )


def multiplied_bits(a, b, c):
    total = kd.tile.zeros((128, 8), kd.float32)
    words = kd.tile.load(a, (0, 0), (128, 16))
    for k in range(0, a.shape[1], 16):
        following = kd.tile.load(a, (0, k + 16), (128, 16))
        y = kd.tile.load(b, (0, k), (8, 16))
        total = kd.mma(words.map(four_bits), y.T, total)
        words = following
    kd.tile.store(c, (0, 0), total)


_MATRICES = "bfloat16[:, ::1], bfloat16[:, ::1], float32[:, ::1]"


def product(a, b, c):
    for m, n in kd.tiles(c.shape, (128, 64)):
        total = kd.tile.zeros((128, 64), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x = kd.tile.load(a, (m, k), (128, 64))
            y = kd.tile.load(b, (n, k), (64, 64))
            total = kd.mma(x, y.T, total)
        kd.tile.store(c, (m, n), total)


def scored(a, b, c):
    x = kd.tile.load(a, (kd.blockIdx.x * 128, 0), (128, 128))
    total = kd.tile.zeros((128, 128), kd.float32)
    for k in kd.pipelined(range(0, b.shape[0], 64)):
        scores = kd.mma(x, kd.tile.load(b, (k, 0), (64, 128)).T)
        largest = scores.max(axis=1)
        y = kd.tile.load(b, (k, 0), (64, 128))
        total = kd.mma((scores - largest).astype(b.dtype), y, total * largest)
    kd.tile.store(c, (kd.blockIdx.x * 128, 0), total)


#: A kernel that each pass is for, and its signature.
PASS_KERNELS: dict[str, tuple[Callable[..., Any], str]] = {
    "unroll-strides": (strided, _INTEGERS),
    "unroll-array-loops": (of_a_local_array, _INTEGERS),
    "unroll-divisors": (in_stages, _INTEGERS),
    "unroll-short-loops": (nearest, _INTEGERS),
    "unroll-arithmetic": (drawn, _INTEGERS),
    "narrow-variables": (halved, _INTEGERS),
    "share-extents": (tripled, _INTEGERS),
    "multiply-by-warpgroups": (product, _MATRICES),
    "overlap-products": (scored, _MATRICES),
    "multiply-by-warps": (multiplied, _MATRICES),
    "load-factors-early": (multiplied, _MATRICES),
    "simplify-divisions": (divided, _INTEGERS),
    "guard-roots": (with_guarded_roots, "float32[::1], float32[::1]"),
    "pack-halves": (multiplied_bits, "uint32[:, ::1], bfloat16[:, ::1], float32[:, ::1]"),
    "coalesce-copies": (iterated, _INTEGERS),
    "merge-exits": (iterated, _INTEGERS),
    "merge-guards": (inside, _INTEGERS),
    "unroll-remainders": (with_a_remainder, _INTEGERS),
    "count-loops-down": (counted, _INTEGERS),
    "narrow-counters": (left_early, _INTEGERS),
    "multiply-by-bits": (checksum, _WORDS),
    "widen-products": (grey, "uint8[::1], uint8[::1]"),
    "chain-affine-steps": (generated, _WORDS),
    "narrow-maxima": (scores, _INTEGERS),
    "narrow-addresses": (neighbours, "int64[:, ::1], int64[:, ::1]"),
    "step-pointers": (of_two_columns, "int64[:, ::1], int64[:, ::1]"),
    "recompute-late": (with_a_rest, _INTEGERS),
    "divide-late": (scaled, "float32[::1], float32[::1]"),
    "load-early": (with_roots, "float32[::1], float32[::1]"),
    "branch-choices": (turned, "float64[::1], float64[::1]"),
    "order-indices": (with_a_call, _INTEGERS),
    "move-exchanges": (middle, "float32[::1], float32[::1]"),
    "inline-linked": (with_a_call, _INTEGERS),
}
#: Passes whose kernel is launched over an extent, the last parameter.
OVER_EXTENTS = ("share-extents",)


@cache
def artifact_for_pass(name: str, *disabled: str) -> CudaArtifact:
    """Compile the kernel of a pass, without some passes."""
    function, signature = PASS_KERNELS[name]
    count = len(list(array_kinds(parse_signature(signature))))
    mode = LaunchMode(1) if name in OVER_EXTENTS else EXPLICIT
    is_product = function in (product, scored)
    array = ArrayPromises(16 if is_product else 1, is_extent=name in OVER_EXTENTS)
    promises = Promises((array,) * count, is_disjoint=True, is_narrow=True)
    specialization = specialize(
        function, signature, mode, promises=promises, disabled_passes=disabled
    )
    arch = f"{ARCH}a" if is_product else ARCH
    return compile_kernel(specialization, arch=arch, ptx_version=PTX_VERSION)
