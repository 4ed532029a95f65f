"""Barriers of the grid on the CPU: passes over blocks, whatever cuts them and whoever runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import OutOfMemoryError, UnsupportedConstructError
from kerneldsl.language.intrinsics.chains import CHAIN_WORDS
from targets.cpu.runtime import artifact
from tests.support.extent import examples, full_beyond, sample
from tests.support.python_kernels import simulate
from tests.unit.targets.cpu.runtime.grid_launches import smoothed, stirred


@settings(max_examples=examples(60), deadline=None)
@given(
    blocks=st.integers(1, 7),
    threads=st.sampled_from(sample([7, 45, 1, 32], 1)),
    bounds=st.tuples(st.integers(-4, 5), st.integers(-4, 5), st.sampled_from([-2, -1, 1, 2, 3])),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_shape_and_any_path(
    blocks: int, threads: int, bounds: tuple[int, int, int], seed: int
) -> None:
    """Loops that run no time, that are left, and returns: as the oracle has it."""
    x = np.random.default_rng(seed).integers(-(10**6), 10**6, blocks * threads)
    out, expected = np.full_like(x, 7), np.full_like(x, 7)
    simulate(stirred, blocks, threads, (x, expected, *bounds))
    with kd.use("cpu"):
        stirred[blocks, threads](x, out, *bounds)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    "layer", full_beyond(["native", "tbb", "omp", "workqueue", "serial"], ["workqueue"])
)
def test_every_threading_layer(layer: str) -> None:
    environment = os.environ | {"KERNELDSL_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "5"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.targets.cpu.runtime.grid_launches", "3"],
        cwd=Path(__file__).parents[5],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if "TargetUnavailableError" in done.stderr:
        pytest.skip(f"threading layer {layer} is not installed")
    assert done.returncode == 0, done.stderr


def test_more_workers_than_a_block_for_each() -> None:
    """Blocks of a launch that is shared go on with their own values, whoever runs them next."""
    a = np.random.default_rng(1).standard_normal(60_000)
    expected = a.copy()
    for _ in range(3):
        expected[1:-1] = (expected[:-2] + expected[2:]) * 0.5
    with kd.use("cpu"):
        smoothed.forall(a.size, block=64)(a, np.empty_like(a), 3)
    np.testing.assert_array_equal(a, expected)


@kd.kernel(debug=True)
def failing(x, out):
    i = kd.grid(1)
    out[i] = 1
    kd.grid_group().sync()
    assert x[i] < 1000, "too large"
    kd.grid_group().sync()
    out[i] = 2


def test_a_launch_that_failed_ends_behind_its_pass() -> None:
    x, out = np.arange(96), np.zeros(96, np.int64)
    with kd.use("cpu"):
        failing[3, 32](x, out)
        assert (out == 2).all()
        x[50] = 1000
        with pytest.raises(AssertionError, match="too large"):
            failing[3, 32](x, out)
        assert (out == 1).all()
        x[50] = 0
        failing[3, 32](x, out)
        assert (out == 2).all()


def test_without_memory_for_all_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise MemoryError

    monkeypatch.setattr(artifact, "np", type("", (), {"empty": refuse, "uint8": np.uint8}))
    with kd.use("cpu"), pytest.raises(OutOfMemoryError, match="for the shared and local arrays"):
        stirred[3, 32](np.zeros(96, np.int64), np.zeros(96, np.int64), 0, 1, 1)


@kd.kernel
def over_a_range(out, n):
    for _ in range(n):
        out[kd.grid(1)] += 1
        kd.grid_group().sync()


@kd.kernel
def with_a_chain(x, state):
    part = kd.chain.next(state)
    kd.grid_group().sync()
    x[part] = kd.chain.before(state, part, 1)


def test_what_the_cpu_refuses() -> None:
    x, state = np.zeros(64), np.zeros(CHAIN_WORDS * 2, np.int64)
    refused = pytest.raises(UnsupportedConstructError, match=r"kd.chain.\w+ is in a kernel with")
    with kd.use("cpu"), refused:
        with_a_chain[2, 32](x, state)


def test_cooperative_is_no_matter_there() -> None:
    """What a GPU has to be told is no mistake on the CPU."""
    x = np.zeros(64, np.int64)
    told = kd.kernel(over_a_range.__wrapped__, cooperative=True)
    with kd.use("cpu"):
        told[2, 32](x, 3)
    assert (x == 3).all()
