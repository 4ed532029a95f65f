"""Kernels of integers: hashes, generators, bits, pixels and graphs."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from cuda_c.case import Arguments, Case

__all__ = ["cases"]

i32, u8, u32, u64 = np.int32, np.uint8, np.uint32, np.uint64
_N = 1 << 24
_NODES = 1 << 20


@kd.kernel
def hash_rounds(x, out, rounds):
    i = kd.grid(1)
    if i < x.size:
        h = x[i]
        for _ in range(rounds):
            h = u32((h ^ (h >> u32(16))) * u32(0x85EBCA6B))
            h = u32((h ^ (h >> u32(13))) * u32(0xC2B2AE35))
            h = u32(h ^ (h >> u32(16)))
        out[i] = h


@kd.kernel
def xorshift(state, out, rounds):
    i = kd.grid(1)
    if i < state.size:
        x = state[i]
        for _ in range(rounds):
            x ^= x << u64(13)
            x ^= x >> u64(7)
            x ^= x << u64(17)
        out[i] = x


@kd.kernel
def modular_power(base, exponent, out, modulus):
    i = kd.grid(1)
    if i < base.size:
        result, power, left = 1, base[i] % modulus, exponent[i]
        while left > 0:
            if left & 1:
                result = result * power % modulus
            power = power * power % modulus
            left >>= 1
        out[i] = result


@kd.kernel
def collatz(x, out):
    i = kd.grid(1)
    if i < x.size:
        value, steps = x[i], 0
        while value != 1:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            steps += 1
        out[i] = steps


@kd.kernel
def checksum(words, out, length):
    i = kd.grid(1)
    if i < out.size:
        crc = u32(0xFFFFFFFF)
        for k in range(length):
            crc = u32(crc ^ words[k, i])
            for _ in range(32):
                low = u32(crc & u32(1))
                crc = u32((crc >> u32(1)) ^ (low * u32(0xEDB88320)))
        out[i] = u32(~crc)


@kd.kernel
def grey_levels(image, out):
    x, y = kd.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        red, green, blue = i32(image[y, x, 0]), i32(image[y, x, 1]), i32(image[y, x, 2])
        out[y, x] = u8((red * 77 + green * 150 + blue * 29) >> 8)


@kd.kernel
def set_bits(words, counts, width):
    i = kd.grid(1)
    if i < counts.size:
        total = 0
        for k in range(width):
            total += kd.popc(words[i * width + k])
        counts[i] = total


@kd.kernel
def visit_neighbours(starts, targets, level, depth, changed):
    node = kd.grid(1)
    if node < level.size and level[node] == depth:
        for k in range(starts[node], starts[node + 1]):
            target = targets[k]
            if level[target] < 0:
                level[target] = depth + 1
                changed[0] = 1


def _graph(rng: np.random.Generator) -> Arguments:
    starts = np.concatenate([[0], np.cumsum(rng.integers(0, 17, _NODES))]).astype(i32)
    targets = rng.integers(0, _NODES, starts[-1]).astype(i32)
    level = np.where(rng.random(_NODES) < 0.3, 2, -1).astype(i32)
    return starts, targets, level, i32(2), np.zeros(1, i32)


def _words(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 2**32, shape, u32)


def cases() -> list[Case]:
    """Return the cases."""
    small, side = 1 << 22, 4096

    def powers(rng: np.random.Generator) -> Arguments:
        base, exponent = rng.integers(1, 1 << 30, (2, small))
        return base, exponent, np.empty(small, np.int64), 1_000_000_007

    return [
        Case(
            hash_rounds,
            "integers",
            grid=_N // 256,
            block=256,
            make=lambda rng: (_words(rng, _N), np.empty(_N, u32), 16),
            passed=lambda given: (*given[:2], i32(16), i32(_N)),
            outputs=(1,),
            extent=(_N,),
            moved_bytes=8 * _N,
        ),
        Case(
            xorshift,
            "integers",
            grid=_N // 256,
            block=256,
            make=lambda rng: (rng.integers(1, 2**63, _N).astype(u64), np.empty(_N, u64), 32),
            passed=lambda given: (*given[:2], i32(32), i32(_N)),
            outputs=(1,),
            extent=(_N,),
            moved_bytes=16 * _N,
        ),
        Case(
            modular_power,
            "integers",
            grid=small // 256,
            block=256,
            make=powers,
            passed=lambda given: (*given[:3], np.int64(1_000_000_007), i32(small)),
            outputs=(2,),
            extent=(small,),
        ),
        Case(
            collatz,
            "integers",
            grid=small // 256,
            block=256,
            make=lambda rng: (rng.integers(1, 1 << 20, small), np.empty(small, i32)),
            passed=lambda given: (*given, i32(small)),
            outputs=(1,),
            extent=(small,),
        ),
        Case(
            checksum,
            "integers",
            grid=small // 256,
            block=256,
            make=lambda rng: (_words(rng, 4, small), np.empty(small, u32), 4),
            passed=lambda given: (*given[:2], i32(4), i32(small)),
            outputs=(1,),
            extent=(small,),
        ),
        Case(
            grey_levels,
            "integers",
            grid=(side // 32, side // 8),
            block=(32, 8),
            make=lambda rng: (
                rng.integers(0, 256, (side, side, 3), u8),
                np.empty((side, side), u8),
            ),
            passed=lambda given: (*given, i32(side), i32(side)),
            outputs=(1,),
            moved_bytes=4 * side * side,
        ),
        Case(
            set_bits,
            "integers",
            grid=small // 256,
            block=256,
            make=lambda rng: (_words(rng, 8 * small), np.empty(small, i32), 8),
            passed=lambda given: (*given[:2], i32(8), i32(small)),
            outputs=(1,),
            extent=(small,),
            moved_bytes=36 * small,
        ),
        Case(
            visit_neighbours,
            "integers",
            grid=_NODES // 256,
            block=256,
            make=_graph,
            passed=lambda given: (*given, i32(_NODES)),
            outputs=(2, 4),
        ),
    ]
