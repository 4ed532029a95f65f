"""Filling memory on the CUDA target: one memset, or one launch where the pattern is long."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from targets.cuda.device import memory
from targets.cuda.driver.driver import Driver
from tests.support.cuda_memory import Bindings, device, device_of, driver_of


@pytest.fixture
def api() -> Bindings:
    return Bindings()


@pytest.fixture
def driver(api: Bindings, monkeypatch: pytest.MonkeyPatch) -> Driver:
    return driver_of(api, monkeypatch)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_short_patterns_are_one_memset(
    driver: Driver, api: Bindings, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    device_of(driver, monkeypatch).fill(0x100, b"\x81" * size, 10, 5)
    (call,) = [c for c in api.calls if c[0].startswith(("cuMemset", "cuMemcpy"))]
    assert call == (f"cuMemsetD{8 * size}Async", 0x100, int("81" * size, 16), 10, 5)


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the kernel that fills was launched with: grid, block, parameters, stream."""
    found: list[tuple[Any, ...]] = []

    def launch(
        driver: Any, function: Any, grid: Any, block: Any, parameters: bytes, **rest: Any
    ) -> None:
        found.append((function, grid, block, struct.unpack("=4Q", parameters), rest))

    monkeypatch.setattr(memory, "_loaded", {})
    monkeypatch.setattr(memory.functions, "load", lambda driver, index, ptx, entry: (index, entry))
    monkeypatch.setattr(memory.functions, "launch", launch)
    return found


@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize("count", [1, 255, 256, 257, 20001])
def test_long_patterns_are_one_launch(
    driver: Driver, api: Bindings, launches: list[Any], size: int, count: int
) -> None:
    """Every word is written, by the thread whose number is as odd as the word's."""
    pattern = bytes(range(1, size + 1))
    memory.fill_words(driver, device(), 0x1008, pattern, count, stream=5)
    ((function, grid, block, (to, words, even, odd), rest),) = launches
    assert (function, rest) == ((0, "kerneldsl_fill"), {"shared_bytes": 0, "stream": 5})
    assert (to, words) == (0x1008, count * size // 8)
    assert (grid[1:], block[1:], block[0] % 2) == ((1, 1), (1, 1), 0)
    assert 1 <= grid[0] <= 4 * 8  # the described card has four multiprocessors
    threads, memory_words = grid[0] * block[0], np.zeros(words, np.uint64)
    for thread in range(threads):  # as the kernel goes through the memory
        memory_words[thread::threads] = odd if thread % 2 else even
    assert memory_words.tobytes() == pattern * count


def test_the_kernel_that_fills_is_loaded_once_for_each_device(
    driver: Driver, launches: list[Any]
) -> None:
    for index in (0, 1, 0):
        memory.fill_words(driver, device(index), 0x1000, bytes(8), 1, stream=0)
    assert [function for function, *_ in launches] == [(i, "kerneldsl_fill") for i in (0, 1, 0)]
    assert set(memory._loaded) == {0, 1}
