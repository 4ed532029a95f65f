"""Filling memory on the CUDA target: one memset, or one launch where the pattern is long."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from targets.cuda.device import fill
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
        found.append((function, grid, block, struct.unpack("=6Q", parameters), rest))

    monkeypatch.setattr(fill, "_loaded", {})
    monkeypatch.setattr(fill.functions, "load", lambda driver, index, ptx, entry: (index, entry))
    monkeypatch.setattr(fill.functions, "launch", launch)
    return found


@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize("count", [1, 2, 255, 256, 257, 20001])
@pytest.mark.parametrize("start", [0x1000, 0x1008])
def test_long_patterns_are_one_launch(
    driver: Driver, api: Bindings, launches: list[Any], size: int, count: int, start: int
) -> None:
    """Every word is written once, in pairs from a multiple of sixteen bytes on."""
    pattern = bytes(range(1, size + 1))
    fill.fill_words(driver, device(), start, pattern, count, stream=5)
    ((function, grid, block, parameters, rest),) = launches
    to, pairs, first, second, before, behind = parameters
    assert (function, rest) == ((0, "kerneldsl_fill"), {"shared_bytes": 0, "stream": 5})
    assert (grid[1:], block[1:], to % 16) == ((1, 1), (1, 1), 0)
    assert 1 <= grid[0] <= 4 * 8  # the described card has four multiprocessors
    memory: dict[int, int] = {}

    def write(address: int, word: int) -> None:
        assert address not in memory
        memory[address] = word

    if before:
        write(before, second)
    if behind:
        write(behind, first)
    for thread in range(grid[0] * block[0]):  # as the kernel goes through the memory
        for pair in range(thread, pairs, grid[0] * block[0]):
            write(to + 16 * pair, first)
            write(to + 16 * pair + 8, second)
    assert min(memory) == start
    written = b"".join(struct.pack("=Q", memory[address]) for address in sorted(memory))
    assert written == pattern * count
    assert max(memory) == start + 8 * (len(memory) - 1)


def test_the_kernel_that_fills_is_loaded_once_for_each_device(
    driver: Driver, launches: list[Any]
) -> None:
    for index in (0, 1, 0):
        fill.fill_words(driver, device(index), 0x1000, bytes(8), 1, stream=0)
    assert [function for function, *_ in launches] == [(i, "kerneldsl_fill") for i in (0, 1, 0)]
    assert set(fill._loaded) == {0, 1}
