"""Memory of tiles on the CPU: used again, and copied where that is not possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.ir.operations import Effect, Operation
from targets.cpu.regions.read import read_kernel

_KINDS = "float64[:, ::1], float64[:, ::1]"


def _steps(x: Any, out: Any) -> None:
    t = kd.tile.load(x, (0, 0), (8, 8))
    u = t * 2 + t.sum()
    kd.tile.store(out, (0, 0), u - 1)


def _turned(x: Any, out: Any) -> None:
    t = kd.tile.load(x, (0, 0), (8, 8))
    kd.tile.store(out, (0, 0), t.T + t)


def _turned_in_turn(x: Any, out: Any) -> None:
    t = kd.tile.load(x, (0, 0), (8, 8))
    u = t.T + 1
    v = u.T * 2
    kd.tile.store(out, (0, 0), v)


def _exchanged(x: Any, out: Any) -> None:
    a = kd.tile.load(x, (0, 0), (8, 8))
    b = kd.tile.load(x, (1, 0), (8, 8))
    for _ in range(3):
        a, b = b + 1, a
    kd.tile.store(out, (0, 0), a * 2 + b)


def _summed(x: Any, out: Any) -> None:
    t = kd.tile.load(x, (0, 0), (8, 8))
    for i in range(3):
        t = t + kd.tile.load(x, (i, 0), (8, 8))
    kd.tile.store(out, (0, 0), t)


def _branched(x: Any, out: Any) -> None:
    t = kd.tile.load(x, (0, 0), (8, 8))
    for _ in range(3):
        t = t + 1
        if t.max() > 9:
            t = t - t.min()
    kd.tile.store(out, (0, 0), t)


def _of_threads(x: Any, out: Any) -> None:
    t = kd.threadIdx.x
    x[0, t] = t
    s = kd.tile.of(x[0, 31 - t])
    out[0, t] = (s + 1).own


def _with_left(value: Any, i: Any, j: Any, out: Any) -> Any:
    return value + out[i, max(j - 1, 0)]


def _in_place(x: Any, out: Any) -> None:
    t = kd.tile.load(x, (0, 0), (8, 8))
    kd.tile.store(out, (0, 0), t, _with_left, out)


@kd.kernel
def _of_other_warps(x: Any, out: Any) -> None:
    t = kd.threadIdx.x
    x[kd.blockDim.x - 1 - t] = t
    own = kd.tile.of(x[t]).own
    out[t] = own + kd.shfl_xor_sync(0xFFFFFFFF, own, 1)


def _operations(kernel: Any) -> list[Operation]:
    """Return the operations of a kernel as a worker runs them for a block."""
    made = kd.kernel(kernel)
    wanted = made._asked_for((_KINDS,), None, 32, None, "cpu", None)
    _, region = read_kernel(made._dispatcher.specialize(*wanted)[1])
    return list(region.walk())


@pytest.mark.parametrize(
    ("kernel", "memories", "copies"),
    [
        (_steps, 1, 0),
        (_turned, 1, 0),
        (_turned_in_turn, 2, 0),
        (_summed, 2, 0),
        (_exchanged, 2, 1),
        (_branched, 1, 0),
    ],
)
def test_memory_is_used_again(kernel: Any, memories: int, copies: int) -> None:
    names = [operation.name for operation in _operations(kernel)]
    assert names.count("shared.array") == memories
    assert names.count("tile.copy") == copies


def test_values_of_threads_are_elements() -> None:
    operations = _operations(_of_threads)
    assert not {"tile.of", "tile.own"} & {operation.name for operation in operations}
    loops = [[each.name for each in loop.walk()] for loop in operations if loop.name == "row"]
    # Of what threads read, all is written first.
    assert ["array.store" in names for names in loops] == [True, True, True]
    assert ["array.load" in names for names in loops] == [False, True, True]


def test_threads_of_all_warps_wait_for_what_a_tile_is_given() -> None:
    x, out = np.zeros(96, np.float32), np.zeros(96, np.float32)
    with kd.use("cpu"):
        _of_other_warps[1, 96](x, out)
    expected = 95 - np.arange(96)
    assert np.array_equal(out, expected + expected[np.arange(96) ^ 1])


def test_a_store_is_marked_if_it_reads_what_it_writes() -> None:
    (store,) = (each for each in _operations(_in_place) if each.name == "tile.store")
    assert store.attributes["waits"] == 1
    assert store.effect & Effect.WRITE
    (store,) = (each for each in _operations(_steps) if each.name == "tile.store")
    assert "waits" not in store.attributes
