"""What is counted of a kernel on its IR: accesses, loops, branches, operations of values."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.analysis.work import KernelWork
from kerneldsl.language.signatures import parse_signature
from kerneldsl.placement.registry import get_target
from tests.support.counting import counted
from tests.support.python_kernels import unit_of

_F, _I = "float32[::1]", "int64[::1]"


def _accesses(work: KernelWork, **options: Any) -> list[tuple[int, bool, str, float]]:
    return [
        (each.parameter, each.is_store, each.pattern, each.count)
        for each in work.body(**options).accesses
    ]


def halves(x, out):
    t = kd.threadIdx.x
    cells = kd.shared.array(256, np.float32)
    cells[t] = x[t]
    width = 128
    while width > 0:
        kd.syncthreads()
        if t < width:
            cells[t] += cells[t + width]
        width //= 2
    if t == 0:
        out[0] = cells[0]


def doubles(x, out):
    i = kd.grid(1)
    step = 1
    total = x[i]
    while step < 100:
        total *= total
        step *= 3
    out[i] = total


def of_threads(x, out):
    t, total = kd.threadIdx.x, np.float32(0)
    for k in range(t, 1024, kd.blockDim.x):
        total += x[k]
    out[t] = total


def over_tuple(x, out):
    i = kd.grid(1)
    total = x[i]
    for factor in (1, 2, 5):
        total *= factor
    out[i] = total


def until_data(x, out):
    i = kd.grid(1)
    total = x[i]
    while total > 1:
        total /= 2
    out[i] = total


@pytest.mark.parametrize(
    ("kernel", "block", "rounds"),
    [
        (halves, None, 8),
        (doubles, None, 5),
        (of_threads, (128, 1, 1), 8),
        (of_threads, None, None),
        (over_tuple, None, 3),
        (until_data, None, None),
    ],
)
def test_rounds_of_loops(kernel: Any, block: Any, rounds: float | None) -> None:
    work = counted(kernel, f"{_F}, {_F}", block)
    assert work.body().has_unknown_loop == (rounds is None)
    for unknown in (16.0, 3.0):
        found = work.body(unknown_trips=unknown)
        assert found.rounds == (unknown if rounds is None else rounds)


def test_one_thread_of_a_block_is_its_share() -> None:
    signature = f"{_F}, {_F}"
    whole = {a.parameter: a.count for a in counted(halves, signature).body().accesses}
    shared = {a.parameter: a.count for a in counted(halves, signature, (256, 1, 1)).body().accesses}
    assert (whole[1], shared[1]) == (1.0, 1 / 256)
    assert whole[0] == shared[0] == 1.0
    assert counted(halves, signature).body().barriers == 8


def unequal_sides(x, out):
    i = kd.grid(1)
    v = x[i]
    if v > 0:
        out[i] = math.exp(v) * v * v
    else:
        out[i] = math.sin(v) * v + v


def test_the_side_with_more_of_an_operation_counts() -> None:
    found = counted(unequal_sides, f"{_F}, {_F}").body()
    assert found.operations == {"compare": 1, "exp": 1, "sin": 1, "mul": 2, "add": 1}


def chosen(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] * x[i] if x[i] > 0 else np.float32(0)


def test_elements_are_read_once() -> None:
    work = counted(chosen, f"{_F}, {_F}")
    assert _accesses(work) == [(0, False, "contiguous", 1.0), (1, True, "contiguous", 1.0)]


def addresses(x, out, n):
    i = kd.grid(1)
    row, column = i // n, i % n
    place = row * n + column + 1 - 1
    up = i - 1 if i > 0 else n - 1
    out[place] = x[up] + x[min(i + 1, n)]


def test_arithmetic_of_addresses_counts_where_it_divides() -> None:
    found = counted(addresses, f"{_F}, {_F}, int64").body()
    assert found.operations == {"div": 1, "mod": 1, "add": 1}
    assert [(a.parameter, a.pattern, a.offsets[0]) for a in found.accesses] == [
        (0, "contiguous", -1),
        (0, "contiguous", 1),
        (1, "contiguous", 0),
    ]


def shifted(x, out):
    i = kd.grid(1)
    out[i] = x[i << 2] + x[i * 4 + 1] + x[(i + 1) * 4 - 3]


def test_equal_sums_are_one_place() -> None:
    found = counted(shifted, f"{_F}, {_F}").body()
    assert [(a.parameter, a.pattern, a.step) for a in found.accesses] == [
        (0, "strided", 4),
        (0, "strided", 4),
        (1, "contiguous", None),
    ]


def chased(following, out):
    i = kd.grid(1)
    at = i
    for _ in range(8):
        at = following[at]
    out[i] = at


def test_an_index_that_a_loop_loads_is_scattered() -> None:
    work = counted(chased, f"{_I}, {_I}")
    assert _accesses(work) == [(0, False, "scattered", 8.0), (1, True, "contiguous", 1.0)]


def of_views(x, out):
    i = kd.grid(1)
    row = x[i]
    part = x[i, 2:]
    for k in range(4):
        out[i] += row[k] + part[k] + x.T[k, i]


def test_parts_and_views_are_places_of_the_array() -> None:
    work = counted(of_views, f"float32[:, ::1], {_F}")
    patterns = _accesses(work)
    assert patterns.count((0, False, "strided", 4.0)) == 2  # x.T[k, i] is row[k]
    assert (1, True, "contiguous", 1.0) in patterns


def by_vectors(x, out):
    i = kd.grid(1)
    if i < out.size // 4:
        v = kd.view(x, kd.float32x4)[i]
        kd.view(out, kd.float32x4)[i] = v * v
    elif i >= 0:
        out[4 * i] = x[4 * i]
        out[4 * i + 1] = x[4 * i + 1]


def test_views_are_of_several_elements_and_the_end_of_an_array_counts_for_nothing() -> None:
    found = counted(by_vectors, f"{_F}, {_F}").body().accesses
    assert [(a.parameter, a.pattern, a.step, a.is_guarded) for a in found] == [
        (0, "strided", 4, False),
        (1, "strided", 4, False),
    ]


def either_part(x, y, out, n):
    i = kd.grid(1)
    if i < n:
        out[i] = x[i]
    else:
        out[i] = y[i]


def test_both_sides_of_other_bounds_count() -> None:
    found = counted(either_part, f"{_F}, {_F}, {_F}, int64").body().accesses
    assert [a.parameter for a in found] == [0, 2, 1]


def of_members(data, out):
    i = kd.grid(1)
    out[i] = data.low[i] * data.high[i]


def test_arrays_of_a_tuple_are_several_places() -> None:
    work = counted(of_members, f"{{low: {_F}, high: {_F}}}, {_F}")
    assert _accesses(work).count((0, False, "contiguous", 1.0)) == 2


def guarded(x, out):
    i = kd.grid(1)
    if i < x.size and x[i] > 0:
        out[i] = x[i + 1]


def test_conditions_of_data_keep_items_apart() -> None:
    found = counted(guarded, f"{_F}, {_F}").body().accesses
    assert [(a.parameter, a.offsets[0], a.is_guarded) for a in found] == [
        (0, 0, False),
        (0, 1, True),
        (1, 0, True),
    ]


def planes(x, out):
    i, j, k = kd.grid(3)
    out[k, j, i] = x[i, j, k]


def test_either_axis_runs_along_x() -> None:
    work = counted(planes, "float32[:, :, ::1], float32[:, :, ::1]")
    assert [a.pattern for a in work.body(x_is_last=True).accesses] == ["contiguous", "strided"]
    assert [a.pattern for a in work.body(x_is_last=False).accesses] == ["strided", "contiguous"]


def histogram(x, out, places):
    held = kd.shared.array(64, np.int64)
    i = kd.grid(1)
    kd.atomic.add(held, x[i], 1)
    kd.atomic.add(out, x[i], 1)
    kd.atomic.max(places, (0, i), 1)


def test_atomic_operations_are_stores() -> None:
    found = counted(histogram, f"{_I}, {_I}, int64[:, ::1]").body()
    assert found.shared_atomics == 1
    assert [(a.parameter, a.is_store, a.is_atomic, a.pattern) for a in found.accesses] == [
        (0, False, False, "contiguous"),
        (1, True, True, "scattered"),
        (2, True, True, "contiguous"),
    ]


@pytest.mark.parametrize("kernel", [halves, of_threads, unequal_sides, guarded, until_data])
def test_it_is_stored_as_json(kernel: Any) -> None:
    work = counted(kernel, f"{_F}, {_F}")
    stored = json.loads(json.dumps(work.to_json()))
    assert KernelWork.from_json(stored) == work


@pytest.mark.parametrize(
    "found", [None, 3, [], [{}, [["jump"]], 0, 0], [{}, [["access", 1]], 0, 0]]
)
def test_other_json_is_refused(found: Any) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError)):
        KernelWork.from_json(found)


def shuffled(x, out):
    i = word = kd.grid(1)
    word ^= word << 13
    word ^= word >> 7
    word ^= word << 17
    word ^= word << 13
    word ^= word >> 7
    word ^= word << 17
    word ^= word << 13
    word ^= word >> 7
    word ^= word << 17
    word ^= word << 13
    word ^= word >> 7
    word ^= word << 17
    word ^= word << 13
    word ^= word >> 7
    word ^= word << 17
    out[i] = x[word & 63]


def test_a_value_that_is_used_twice_in_each_of_many_steps_is_named_once() -> None:
    """Text of the whole expression would double with each step."""
    found = counted(shuffled, f"{_F}, {_F}").body()
    assert [each.pattern for each in found.accesses] == ["scattered", "contiguous"]


def overwritten(x, out):
    i = kd.grid(1)
    total = x[i] + 1
    total = x[i] * 2
    out[i] = total


def test_values_that_nothing_uses_count() -> None:
    found = counted(overwritten, f"{_F}, {_F}").body()
    assert found.operations == {"add": 1, "mul": 1}


def test_a_kernel_without_types_has_no_work() -> None:
    def untyped(x, out):
        out[0] = x + "text"

    kinds = parse_signature(f"{_F}, {_F}")
    assert get_target("null").compiler.work(unit_of(untyped), kinds, None) is None
