"""Modules of kernels that are garbage: unloaded by a later load, and never while they can run."""

from __future__ import annotations

import gc
import time
import weakref
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from targets.cuda.driver import functions, retired_modules
from tests.support.redefining import define


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of functions whose modules were unloaded since the test began."""
    gc.collect()
    kd.synchronize()
    retired_modules.unload_finished()
    found: list[str] = []
    unload = functions.unload_idle

    def note(driver: Any, function: Any) -> None:
        unload(driver, function)
        found.append(function.kernel)

    monkeypatch.setattr(functions, "unload_idle", note)
    return found


def run(number: int) -> weakref.ref[Any]:
    out, kernel = kd.full(4, np.nan), define(number)
    launch = kernel.forall(4)
    for _ in range(3):  # the third launch is the native launcher's
        out.fill(np.nan)
        launch(out)
        assert (out.copy_to_host() == number).all()
    return weakref.ref(kernel)


def test_kernels_that_are_garbage_are_unloaded_by_later_loads(unloaded: list[str]) -> None:
    count = 40
    gone = [run(number) for number in range(count)]
    gc.collect()
    assert all(each() is None for each in gone)
    kd.synchronize()
    run(count)
    assert unloaded == ["k"] * count


def test_a_finalizer_does_not_wait_for_a_kernel_that_runs(unloaded: list[str]) -> None:
    @kd.kernel
    def wait(out, count):
        i = kd.grid(1)
        for _ in range(count):
            kd.nanosleep(500_000)
        out[i] = 7

    out = kd.full(1, np.nan)
    launch = wait.forall(1)
    launch(out, 0)
    kd.synchronize()
    out.fill(np.nan)
    launch(out, 4000)  # some two seconds
    del wait, launch
    began = time.perf_counter()
    gc.collect()
    retired_modules.unload_finished()
    assert time.perf_counter() - began < 0.5
    assert unloaded == []
    kd.synchronize()
    assert time.perf_counter() - began > 0.5, "the kernel ran no longer than what did not wait"
    retired_modules.unload_finished()
    assert unloaded == ["wait"]
    assert out.copy_to_host()[0] == 7


def test_a_recording_survives_kernels_that_become_garbage(unloaded: list[str]) -> None:
    x = kd.zeros(4)
    kept = define(5000)
    kept.forall(4)(x)
    garbage = define(5001)
    garbage.forall(4)(x)
    with kd.Stream().capture() as graph:
        kept.forall(4)(x)
        del garbage
        gc.collect()
        define(5002).forall(4)(x)
        assert unloaded == []
    graph.launch()
    kd.synchronize()
    assert (x.copy_to_host() == 5002).all()
    run(5003)
    assert unloaded == ["k"]  # the graph has the other one
    x.fill(np.nan)
    graph.launch()
    kd.synchronize()
    assert (x.copy_to_host() == 5002).all()


@pytest.mark.alone  # others allocate meanwhile
def test_memory_of_the_device_does_not_grow_with_redefinitions() -> None:
    for number in range(100):
        run(number)
    free_before = kd.device_info("cuda:0").free_memory_bytes
    for number in range(100, 400):
        run(number)
    assert free_before - kd.device_info("cuda:0").free_memory_bytes < 64 << 20
