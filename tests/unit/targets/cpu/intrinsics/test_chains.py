"""Chains on several workers: right, with the same bits, and without waiting for ever."""

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
from kerneldsl.language.intrinsics.chains import CHAIN_WORDS
from tests.support.extent import examples, full_beyond
from tests.unit.targets.cpu.intrinsics.chain_launches import Cumulative

_BLOCKS = 4000
_cumulative = Cumulative(_BLOCKS)


@settings(max_examples=examples(60, 6), deadline=None)
@given(
    size=st.integers(1, 20_000),
    block=st.integers(1, 300),
    dtype=st.sampled_from(["int32", "int64", "uint32", "uint64"]),
    seed=st.integers(0, 1 << 32),
)
def test_cumulative_sums_are_numpys(size: int, block: int, dtype: str, seed: int) -> None:
    """One state serves launches of every size and dtype, one after the other."""
    block = max(block, -(-size // _BLOCKS))
    info = np.iinfo(dtype)
    x = np.random.default_rng(seed).integers(info.min, info.max, size, dtype, endpoint=True)
    np.testing.assert_array_equal(_cumulative(x, block), np.cumsum(x, dtype=dtype))


@pytest.mark.full
@pytest.mark.parametrize(
    "layer", full_beyond(["native", "tbb", "omp", "workqueue", "serial"], ["native"])
)
@pytest.mark.parametrize("workers", full_beyond([2, 7], [7]))
def test_every_threading_layer(layer: str, workers: int) -> None:
    """More workers than processors wait for each other, under every layer that there is."""
    module = "tests.unit.targets.cpu.intrinsics.chain_launches"
    environment = os.environ | {
        "KERNELDSL_THREADING_LAYER": layer,
        "NUMBA_NUM_THREADS": str(workers),
    }
    done = subprocess.run(
        [sys.executable, "-m", module, str(workers)],
        cwd=Path(__file__).parents[5],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if "TargetUnavailableError" in done.stderr:
        pytest.skip(f"threading layer {layer} is not installed")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip()) == 128


@kd.kernel(debug=True)
def failing(x, state, out):
    part = kd.chain.next(state)
    assert x[part] < 1000, "too large"
    before = kd.chain.before(state, part, x[part])
    if kd.threadIdx.x == 0:
        out[part] = before


def test_nobody_waits_for_a_block_that_has_failed() -> None:
    blocks = 3000
    state, out = np.zeros(CHAIN_WORDS * blocks, np.int64), np.zeros(blocks, np.int64)
    x = np.ones(blocks, np.int64)
    with kd.use("cpu"):
        failing[blocks, 64](x, state, out)
        np.testing.assert_array_equal(out, np.arange(blocks))
        for place in (0, 7, 1500, blocks - 1):
            x[:] = 1
            x[place] = 1000
            with pytest.raises(AssertionError, match="too large"):
                failing[blocks, 64](x, state, out)
            state[:] = 0
        x[:] = 2
        failing[blocks, 64](x, state, out)
    np.testing.assert_array_equal(out, 2 * np.arange(blocks))
