"""Memory that waits to be freed, by numba.cuda's documented settings."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from numba import config

import kerneldsl as kd
from kerneldsl import cuda


@pytest.fixture(autouse=True)
def pending():
    gc.collect()  # arrays that earlier tests have left in cycles would come in the middle
    with kd.use("cpu"):
        found = cuda.current_context().memory_manager.deallocations
        found.clear()
        yield found
        found.clear()


def in_use():
    return kd.memory_stats("cpu").in_use_bytes


def test_the_number_is_limited(pending):
    before = in_use()
    for count in range(1, config.CUDA_DEALLOCS_COUNT + 1):
        cuda.to_device(np.arange(5.0))
        assert len(pending) == count
        assert in_use() == before + 40 * count
    cuda.device_array(3)
    assert len(pending) == 0
    assert in_use() == before


def test_the_bytes_are_limited(pending, monkeypatch):
    total = cuda.current_context().get_memory_info().total
    monkeypatch.setattr(config, "CUDA_DEALLOCS_RATIO", 1000 / total)
    cuda.device_array(600, np.uint8)
    assert len(pending) == 1
    cuda.device_array(600, np.uint8)
    assert len(pending) == 0


def test_nothing_is_freed_in_a_block(pending):
    before = in_use()
    with cuda.defer_cleanup():
        for _ in range(2 * config.CUDA_DEALLOCS_COUNT):
            cuda.to_device(np.arange(5.0))
        pending.clear()
        assert in_use() == before + 80 * config.CUDA_DEALLOCS_COUNT
    pending.clear()
    assert in_use() == before


def test_the_last_view_counts(pending):
    array = cuda.to_device(np.arange(5.0))
    view = array[1:]
    del array
    assert len(pending) == 0
    np.testing.assert_array_equal(view.copy_to_host(), np.arange(1.0, 5))
    del view
    assert len(pending) == 1


def test_closed_memory_does_not_wait(pending):
    array = cuda.to_device(np.arange(5.0))
    array.close()
    del array
    assert len(pending) == 0


def test_too_little_memory_frees_what_waits(pending):
    with kd.MemoryPool("cpu", limit=1000):
        cuda.device_array(900, np.uint8)
        assert len(pending) == 1
        array = cuda.device_array(800, np.uint8)
        assert len(pending) == 0
        array.close()
