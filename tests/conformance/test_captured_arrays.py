"""Captured arrays of any size: a launch reads what is in them, wherever their contents are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd

N = 1 << 17


def read_only(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values


_random = np.random.default_rng(3)
BYTES = read_only(_random.integers(-128, 128, 1 << 20).astype(np.int8))
COLUMNS = read_only(np.asfortranarray(_random.standard_normal((301, 203))))
PAIR = (
    read_only(_random.standard_normal(40_001).astype(np.float32)),
    read_only(_random.integers(0, 2**64, 30_001, np.uint64)),
)
SMALL = read_only(np.array([0.5, -0.0, np.nan]))
MANY = tuple(read_only(np.full(10_007, 2.0**n)) for n in range(12))
CHANGING = np.arange(50_000.0)


@kd.func
def of_columns(i):
    return COLUMNS[i % 301, i % 203]


@kd.kernel
def reads(out, words):
    i = kd.grid(1)
    if i < out.size:
        words[i] = PAIR[1][i % 30_001]
        out[i] = BYTES[i] + of_columns(i) + PAIR[0][i % 40_001] + SMALL[i % 2]


@kd.kernel
def sums(out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = 0
        for values in MANY:
            out[i] += values[i % 10_007]


@kd.kernel
def shifted(out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = CHANGING[i % 50_000] + BYTES[i]


@kd.kernel
def of_copies(out):
    i = kd.grid(1)
    for n in range(3):
        changing = CHANGING.copy()
        out[i] += changing[i + n] * SMALL.copy()[0] + PAIR[0].copy()[n]


def expected() -> tuple[np.ndarray, np.ndarray]:
    i = np.arange(N)
    out = BYTES[:N] + COLUMNS[i % 301, i % 203] + PAIR[0][i % 40_001] + SMALL[i % 2]
    return out, PAIR[1][i % 30_001]


def test_contents_of_any_size_and_order(computing: str) -> None:
    out, words = np.full(N, np.nan), np.full(N, 7, np.uint64)
    reads.forall(N)(out, words)
    wanted = expected()
    np.testing.assert_array_equal(out, wanted[0])
    np.testing.assert_array_equal(words, wanted[1])


def test_many_arrays(computing: str) -> None:
    out = np.full(N, np.nan)
    sums.forall(N)(out)
    np.testing.assert_array_equal(out, np.full(N, 2.0**12 - 1))


def test_an_array_that_changes_is_seen(computing: str, rng: np.random.Generator) -> None:
    for _ in range(2):
        CHANGING[:] = rng.standard_normal(CHANGING.size)
        out = np.full(N, np.nan)
        shifted.forall(N)(out)
        np.testing.assert_array_equal(out, CHANGING[np.arange(N) % 50_000] + BYTES[:N])


def test_code_that_is_first_loaded_in_a_capture(computing: str) -> None:
    @kd.kernel
    def first(out: Any) -> None:
        i = kd.grid(1)
        if i < out.size:
            out[i] = BYTES[i] * 3

    stream = kd.Stream()
    out = kd.full(N, -1, np.int64)
    with stream.capture() as graph:
        first.forall(N, stream=stream)(out)
    graph.launch(stream)
    stream.synchronize()
    np.testing.assert_array_equal(np.asarray(out.copy_to_host()), BYTES[:N].astype(np.int64) * 3)


def test_copies_that_nothing_writes_to(computing: str, rng: np.random.Generator) -> None:
    CHANGING[:] = rng.integers(-9, 9, CHANGING.size)
    out = np.zeros(40)
    of_copies[2, 20](out)
    wanted = np.zeros(40)
    for n in range(3):
        wanted += CHANGING[n : n + 40] * 0.5 + PAIR[0][n]
    np.testing.assert_array_equal(out, wanted)
