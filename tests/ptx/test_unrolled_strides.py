"""Loops with the stride of a grid: Python's turns, four of them with their loads first."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from targets.cuda.compile.compiler import compile_kernel
from tests.ptx.helpers import body_of, compile_ptx, specialize
from tests.support.ptx_machine import run_thread
from tests.support.simulated_grid import SimulatedGrid

_NAME = "unroll-strides"
_SIGNATURE = "int64[::1], int64[::1], int64[::1]"


def counted_while(x, sums, ends):
    t = kd.grid(1)
    i = t
    step = kd.gridDim.x * kd.blockDim.x
    total = 0
    while i < x.size:
        total = total * 3 + x[i]
        i += step
    sums[t] = total
    ends[t] = i


def by_threads_of_a_grid(x, sums, ends):
    t = kd.grid(1)
    i = t
    total = 0
    while i < x.size:
        total = total * 3 + x[i]
        i += kd.gridDim.x * kd.blockDim.x
    sums[t] = total
    ends[t] = i


def counted_for(x, sums, ends):
    t = kd.grid(1)
    i = -1
    total = 0
    for i in range(t, x.size, kd.gridsize(1)):
        total = total * 3 + x[i]
    sums[t] = total
    ends[t] = i


def by_a_number(x, sums, ends):
    t = kd.grid(1)
    i = -1
    total = 0
    for i in range(t, x.size, 8):
        total = total * 3 + x[i]
    sums[t] = total
    ends[t] = i


def by_one(x, out, step):
    t = kd.grid(1)
    for i in range(t, x.size):
        out[t] += x[i]


def down(x, out, step):
    t = kd.grid(1)
    for i in range(x.size - 1, t, -8):
        out[t] += x[i]


def to_a_number(x, out, step):
    t = kd.grid(1)
    for i in range(t, 800, 8):
        out[t] += x[i]


def with_a_condition(x, sums, ends):
    t = kd.grid(1)
    n = x.shape[0]
    total, last = 0, -1
    for i in range(n - 1 + t - (n - 1), n, kd.gridsize(1)):
        last = i
        if x[i] > 0:
            total = total * 3 + x[i] + i
            i += 7
    sums[t] = total
    ends[t] = last


def over_a_border(x, sums, ends):
    t = kd.threadIdx.x
    i = -1
    total = 0
    for i in range(t, kd.blockDim.x + 16, kd.blockDim.x):
        total = total * 3 + x[i]
    sums[t] = total
    ends[t] = i


def over_two_blocks(x, sums, ends):
    t = kd.threadIdx.x
    i = t
    total = 0
    while i < 2 * kd.blockDim.x:
        total = total * 3 + x[i]
        i += kd.blockDim.x
    sums[t] = total
    ends[t] = i


def filling(x, sums, ends):
    t = kd.threadIdx.y
    tile = kd.shared.array(64, np.int64)
    for k in range(t, kd.blockDim.y + 16, kd.blockDim.y):
        tile[k] = x[min(k + 3, x.size - 1)] * 2 + x[k] * k
    kd.syncthreads()
    total = 0
    for k in range(kd.blockDim.y + 16):
        total = total * 3 + tile[k]
    sums[t] = total
    ends[t] = tile[t]


def to_an_argument(x, sums, ends, n):
    t = kd.grid(1)
    step = kd.gridsize(1)
    i = np.int32(t)
    total = 0
    while i < n:
        total = total * 3 + x[i]
        i += step
    sums[t] = total
    ends[t] = i


def range_to_an_argument(x, sums, ends, n):
    t = kd.grid(1)
    i = t - kd.gridsize(1)
    total = 0
    for i in range(t, n, kd.gridsize(1)):
        total = total * 3 + x[i]
    sums[t] = total
    ends[t] = i + kd.gridsize(1)


_ENDS = st.integers(0, 50) | st.sampled_from([-1, 3 - 2**62, -(2**63), 3 - 2**63])


@pytest.mark.parametrize("function", [to_an_argument, range_to_an_argument])
@settings(deadline=None)
@given(n=_ENDS, threads=st.integers(1, 9))
def test_ends_that_may_be_negative(function, n: int, threads: int) -> None:
    x = np.arange(50, dtype=np.int64) - 20
    sums, ends = np.zeros((2, threads), np.int64)
    values = [part for a in (x, sums, ends) for part in (a.ctypes.data, a.size)]
    _grid(function, f"{_SIGNATURE}, int64").run((1, 1, 1), (threads, 1, 1), [*values, n])
    for t in range(threads):
        total = 0
        for i in range(t, n, threads):
            total = total * 3 + int(x[i])
        assert sums[t] == (total + 2**63) % 2**64 - 2**63
        assert ends[t] == t + len(range(t, n, threads)) * threads


def far_away(x, sums, ends, n):
    count = 0
    for i in range(n - 5 - kd.threadIdx.x, n, kd.gridsize(1)):
        count += x[i % 8]
    sums[kd.threadIdx.x] = count


def test_ends_near_overflow() -> None:
    x, sums, ends = np.ones(8, np.int64), np.zeros(2, np.int64), np.zeros(2, np.int64)
    values = [part for a in (x, sums, ends) for part in (a.ctypes.data, a.size)]
    signature = f"{_SIGNATURE}, int64"
    assert _is_unrolled(far_away, signature)
    for end in (2**62, 2**62 + 1, 2**63 - 1):
        _grid(far_away, signature).run((1, 1, 1), (2, 1, 1), [*values, end])
        assert sums.tolist() == [3, 3]


def by_an_argument(x, sums, ends, n):
    for i in range(kd.threadIdx.x, x.size, max(n, 1)):
        sums[kd.threadIdx.x] += x[i]


def until_by_an_argument(x, sums, ends, n):
    i = kd.threadIdx.x
    step = max(n, 1)
    while i < x.size:
        sums[kd.threadIdx.x] += x[i]
        i += step


@pytest.mark.parametrize("function", [by_an_argument, until_by_an_argument])
@pytest.mark.parametrize("step", [3, 2**60, 2**60 + 1, 2**62, 3 * 2**61, 2**63 - 50])
def test_strides_near_overflow(function: Callable[..., None], step: int) -> None:
    signature = f"{_SIGNATURE}, int64"
    assert _is_unrolled(function, signature)
    x, sums, ends = np.arange(50), np.zeros(2, np.int64), np.zeros(2, np.int64)
    values = [part for a in (x, sums, ends) for part in (a.ctypes.data, a.size)]
    _grid(function, signature).run((1, 1, 1), (2, 1, 1), [*values, step])
    assert sums.tolist() == [sum(range(t, 50, step)) for t in range(2)]


@cache
def _grid(function: Callable[..., Any], signature: str = _SIGNATURE) -> SimulatedGrid:
    return SimulatedGrid(compile_kernel(specialize(function, signature), arch="sm_90"))


_WHILE = (counted_while, by_threads_of_a_grid)


@pytest.mark.parametrize("function", [*_WHILE, counted_for, by_a_number, with_a_condition])
@settings(deadline=None)
@given(n=st.integers(0, 200), blocks=st.integers(1, 4), threads=st.integers(1, 9), data=st.data())
def test_turns_are_pythons(
    function, n: int, blocks: int, threads: int, data: st.DataObject
) -> None:
    x = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=n, max_size=n)), np.int64)
    count = blocks * threads
    sums, ends = np.zeros((2, count), np.int64)
    expected = [_run(function, x.tolist(), t, count) for t in range(count)]
    values = [part for a in (x, sums, ends) for part in (a.ctypes.data, a.size)]
    _grid(function).run((blocks, 1, 1), (threads, 1, 1), values)
    wrapped = [(total + 2**63) % 2**64 - 2**63 for total, _ in expected]
    assert list(zip(sums.tolist(), ends.tolist(), strict=True)) == [
        (total, end) for total, (_, end) in zip(wrapped, expected, strict=True)
    ]


def _run(function, x: list[int], t: int, count: int) -> tuple[int, int]:
    total, i = 0, t if function in _WHILE else -1
    count = 8 if function is by_a_number else count
    for i in range(t, len(x), count):
        if function is not with_a_condition:
            total = total * 3 + x[i]
        elif x[i] > 0:
            total = total * 3 + x[i] + i
    if function in _WHILE:
        i = t + len(range(t, len(x), count)) * count
    return total, i


@settings(deadline=None)
@given(threads=st.integers(1, 20), data=st.data())
def test_turns_over_a_block_and_its_border(threads: int, data: st.DataObject) -> None:
    x = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=40, max_size=40)), np.int64)
    for function, end in ((over_a_border, threads + 16), (over_two_blocks, 2 * threads)):
        sums, ends = np.zeros((2, threads), np.int64)
        values = [part for a in (x, sums, ends) for part in (a.ctypes.data, a.size)]
        _grid(function).run((1, 1, 1), (threads, 1, 1), values)
        for t in range(threads):
            total = 0
            for i in range(t, end, threads):
                total = total * 3 + int(x[i])
            assert sums[t] == (total + 2**63) % 2**64 - 2**63
            assert ends[t] == (i if function is over_a_border else i + threads)


@cache
def _filling(*disabled: str) -> str:
    """Return the PTX up to the barrier, with its stores to shared memory as the machine notes."""
    ptx = compile_ptx(filling, _SIGNATURE, disabled_passes=disabled).ptx
    return ptx.partition("\tbar.sync")[0].replace("st.shared", "st.global") + "\tret;\n}\n"


@settings(deadline=None)
@given(threads=st.integers(1, 1024), data=st.data(), size=st.integers(1040, 2000))
def test_a_tile_and_its_border_are_filled(threads: int, data: st.DataObject, size: int) -> None:
    thread = data.draw(st.integers(0, threads - 1))
    special = {"%tid.y": thread, "%ntid.y": threads}
    pointers = 0x7F00_0000_0000, 0x7F10_0000_0000, 0x7F20_0000_0000
    parameters = [part for each in pointers for part in (each, size)]
    stored, plainly = (
        [each[1:] for each in run_thread(ptx, parameters, special) if each[0].startswith("st")]
        for ptx in (_filling(), _filling(_NAME))
    )
    assert stored == plainly
    assert len(stored) == len(range(thread, threads + 16, threads))


def test_loads_of_a_tile_are_before_its_stores() -> None:
    artifact = compile_ptx(filling, _SIGNATURE)
    texts = [each.text for each in artifact.passes if each.name == _NAME]
    assert "1 loop unrolled by four, each with a test" in texts
    filled = body_of(artifact).partition("bar.sync")[0]
    accesses = re.findall(r"(ld)\.global|(st)\.shared", filled)
    assert accesses == [("ld", "")] * 8 + [("", "st")] * 4
    assert re.search(r"and\.b\d\d\s+%\w+, %\w+, 2047;", filled)


def overwriting(x, out, step):
    for k in range(kd.threadIdx.x, kd.blockDim.x + 16, kd.blockDim.x):
        out[k] = x[k]


def filling_under_a_condition(x, out, step):
    tile = kd.shared.array(64, np.int64)
    for k in range(kd.threadIdx.x, kd.blockDim.x + 16, kd.blockDim.x):
        if x[k] > 0:
            tile[k] = x[k]
    kd.syncthreads()
    out[kd.threadIdx.x] = tile[0]


def filling_along_x(x, out, step):
    tile = kd.shared.array(64, np.int64)
    for k in range(kd.threadIdx.x, kd.blockDim.x + 16, kd.blockDim.x):
        tile[k] = x[k]
    kd.syncthreads()
    out[kd.threadIdx.x] = tile[0]


@pytest.mark.parametrize(
    "function", [overwriting, filling_under_a_condition, filling_along_x, over_a_border]
)
def test_other_short_loops_are_plain(function) -> None:
    texts = [each.text for each in compile_ptx(function, _SIGNATURE).passes if each.name == _NAME]
    assert texts == ["1 loop not unrolled: few iterations"]


def test_loops_of_few_iterations_are_short() -> None:
    for function in (over_a_border, over_two_blocks):
        artifact = compile_ptx(function, _SIGNATURE)
        assert len(re.findall(r"ld\.global", body_of(artifact))) == 1
        assert "div" not in body_of(artifact)
        (missed,) = [each for each in artifact.passes if each.name == _NAME and each.is_missed]
        assert missed.text == "1 loop not unrolled: few iterations"
    assert _is_unrolled(over_four_blocks)


def over_four_blocks(x, sums, ends):
    total = 0
    for i in range(kd.threadIdx.x, 4 * kd.blockDim.x, kd.blockDim.x):
        total += x[i]
    sums[kd.threadIdx.x] = total


@pytest.mark.parametrize("function", [*_WHILE, counted_for, by_a_number])
def test_four_loads_are_ahead(function) -> None:
    body = body_of(compile_ptx(function, _SIGNATURE))
    assert "div" not in body
    assert len(re.findall(r"ld\.global", body)) == 5
    loop = body[body.index("$L__BB0_2:") : body.index("$L__BB0_3:")]
    assert loop.count("ld.global") == 4
    assert loop.count("bra") == 1


def _is_unrolled(function, signature: str = _SIGNATURE) -> bool:
    remarks = compile_ptx(function, signature).passes
    return any(each.name == _NAME and not each.is_missed for each in remarks)


def test_loops_that_are_unrolled() -> None:
    assert all(map(_is_unrolled, [counted_while, counted_for, by_a_number, with_a_condition]))
    assert _is_unrolled(to_an_argument, f"{_SIGNATURE}, int64")
    assert not _is_unrolled(to_an_argument, f"{_SIGNATURE}, uint64")
    assert not _is_unrolled(to_an_argument, f"{_SIGNATURE}, float32")
    assert _is_unrolled(range_to_an_argument, f"{_SIGNATURE}, int32")
    assert not _is_unrolled(range_to_an_argument, f"{_SIGNATURE}, uint64")


def left(x, out, step):
    i = kd.grid(1)
    while i < x.size:
        out[0] += x[i]
        i += kd.blockDim.x
        break


def of_a_changing_stride(x, out, step):
    i, step = kd.grid(1), kd.blockDim.x
    while i < x.size:
        out[0] += x[i]
        step = step + 1
        i += step


def of_an_argument(x, out, step):
    for i in range(kd.grid(1), x.size, step[0]):
        out[0] += x[i]


def with_a_barrier(x, out, step):
    for i in range(kd.blockIdx.x, x.size, kd.gridDim.x):
        out[0] += x[i]
        kd.syncthreads()


def with_atomics(x, out, step):
    for i in range(kd.threadIdx.x, x.size, kd.blockDim.x):
        kd.atomic.add(out, x[i], 1)


def without_loads(x, out, step):
    for i in range(kd.threadIdx.x, x.size, kd.blockDim.x):
        out[i] = i


def of_floats(x, out, step):
    i = x[0] * 0.5
    while i < x.size:
        out[0] += x[int(i)]
        i += kd.blockDim.x


def nested(x, out, step):
    for i in range(kd.threadIdx.x, x.size, kd.blockDim.x):
        for k in range(3):
            out[i] += x[i + k]


def of_a_variable_of_two_values(x, out, step):
    stride = kd.blockDim.x
    if x[0] > 0:
        stride = -1
    i = kd.grid(1)
    while i < x.size:
        out[0] += x[i]
        i += stride


@pytest.mark.parametrize(
    "function",
    [
        left,
        of_a_changing_stride,
        of_an_argument,
        with_a_barrier,
        with_atomics,
        without_loads,
        of_floats,
        nested,
        of_a_variable_of_two_values,
        by_one,
        down,
        to_a_number,
    ],
)
def test_others_stay(function) -> None:
    assert not _is_unrolled(function)
