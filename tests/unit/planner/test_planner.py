"""The planner by itself: what it counts, what it predicts, and that what it chooses is legal."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.analysis.work import UNKNOWN_TRIPS
from kerneldsl.contract import ElementMapping, HostShare, Resources
from kerneldsl.errors import ArgumentValueError, ResourceLimitError
from kerneldsl.language.signatures import parse_signature
from kerneldsl.planner import DeviceOccupancyLimits, KernelResources, occupancy
from kerneldsl.planner.candidates import BLOCK_THREADS, Candidate, Choice, extent_class, fit_grid
from kerneldsl.planner.choose import MAX_COMPILED, Problem, choose, estimate_resources, rank
from kerneldsl.planner.cost import BOUND_WORDS, predict
from kerneldsl.planner.describe import all_plans, describe
from kerneldsl.planner.plan import LaunchPlan, PlanAlternative
from kerneldsl.planner.rates import DeviceRates
from kerneldsl.planner.words import explain_plan
from kerneldsl.planner.work import ArrayReads, ElementWork, element_work
from targets.cuda.device.described import described_device
from tests.support.counting import counted
from tests.support.extent import examples

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_110", "sm_120")
AXPY = ElementWork(
    read_bytes=8,
    written_bytes=4,
    arrays=(ArrayReads(4), ArrayReads(4)),
    vector_accesses=3,
    loads=2,
    stores=1,
    load_bytes=8,
    narrowest_bytes=4,
    widest_bytes=4,
    operations=2,
)


def problem(
    extent: tuple[int, ...], work: ElementWork = AXPY, arch: str = "sm_90", **options: Any
) -> Problem:
    device = described_device(arch)
    limits = DeviceOccupancyLimits.from_device(device)
    return Problem("k", extent, work, device, limits, DeviceRates.from_device(device), **options)


def light(_: Problem, mapping: ElementMapping) -> Resources:
    return Resources(min(16 + 2 * mapping.item_count, 255), 0, 0, 0, 1024)


works = st.builds(
    lambda read, written, widest, operations, double, rounds: ElementWork(
        read_bytes=read,
        written_bytes=written,
        arrays=(ArrayReads(read),) if read else (),
        vector_accesses=1 if widest else 0,
        loads=math.ceil(read / 4),
        stores=math.ceil(written / 4),
        load_bytes=read,
        narrowest_bytes=widest,
        widest_bytes=widest,
        operations=operations,
        double_operations=double,
        rounds=rounds,
    ),
    st.integers(0, 64),
    st.integers(1, 64),
    st.sampled_from([0, 1, 2, 4, 8, 16]),
    st.integers(0, 5000),
    st.integers(0, 500),
    st.integers(1, 2),
)
extents = st.lists(st.integers(1, 2**34), min_size=1, max_size=3).map(tuple)
resources = st.builds(
    lambda registers, spills, shared, threads: Resources(registers, spills, 0, shared, threads),
    st.integers(1, 255),
    st.sampled_from([0, 64]),
    st.integers(0, 48 * 1024),
    st.sampled_from([32, 64, 128, 256, 512, 1024]),
)


# ------------------------------------------------------------------------ what is counted


@kd.kernel
def stencil(a, out):
    y, x = kd.grid(2)
    if 0 < x < a.shape[1] - 1:
        out[y, x] = a[y, x - 1] + a[y, x] + a[y, x + 1] + a[y, x]


@kd.kernel
def turned(a, out):
    y, x = kd.grid(2)
    out[x, y] = a[y, x]


@kd.kernel
def indirect(x, index, out):
    i = kd.grid(1)
    out[index[i]] = x[3 * i] + x[0]


@kd.kernel
def looped(x, n, out):
    i = kd.grid(1)
    total = x[i]
    for _ in range(10):
        total = total * total + np.float32(1)
    for k in range(n):
        total += x[k]
    out[i] = total


_F32, _ROWS = "float32[::1]", "float32[:, ::1]"
_SIGNATURES = {
    stencil: f"{_ROWS}, {_ROWS}",
    turned: f"{_ROWS}, {_ROWS}",
    indirect: f"{_F32}, int32[::1], {_F32}",
    looped: f"{_F32}, int64, {_F32}",
}


def work_of(kernel: Any) -> Any:
    return counted(kernel, _SIGNATURES[kernel]).body()


def test_neighbours_and_repeated_places() -> None:
    found = work_of(stencil)
    assert [(a.parameter, a.is_store, a.pattern) for a in found.accesses] == [
        (0, False, "contiguous"),
        (0, False, "contiguous"),
        (0, False, "contiguous"),
        (1, True, "contiguous"),
    ]
    work = element_work(found, parse_signature("float32[:, ::1], float32[:, ::1]"))
    assert (work.read_bytes, work.written_bytes, work.loads) == (4, 4, 3)
    assert work.arrays == (ArrayReads(4, (2, 0, 0)),)
    assert work.max_vector == 4  # the condition is a guard, which stands before none


def test_one_side_of_a_transposition_is_crossed() -> None:
    found = work_of(turned)
    assert [(a.pattern, a.is_crossed) for a in found.accesses] == [
        ("contiguous", False),
        ("strided", True),
    ]
    work = element_work(found, parse_signature("float32[:, ::1], float32[:, ::1]"))
    assert (work.read_bytes, work.written_bytes, work.crossed_bytes) == (4, 0, 4)


def test_a_block_kernel_has_its_first_index_along_x() -> None:
    work = counted(turned, _SIGNATURES[turned])
    assert [a.pattern for a in work.body(x_is_last=False).accesses] == [
        "strided",
        "contiguous",
    ]


def test_what_data_says_is_scattered() -> None:
    found = {
        (a.parameter, a.is_store): a for a in work_of(indirect).accesses if a.pattern != "uniform"
    }
    assert found[2, True].pattern == "scattered"
    assert found[2, True].depends_on_load
    assert (found[0, False].pattern, found[0, False].step) == ("strided", 3)
    kinds = parse_signature("float32[::1], int32[::1], float32[::1]")
    work = element_work(work_of(indirect), kinds)
    assert work.rounds == 2
    assert work.written_bytes == 32  # a sector
    assert work.read_bytes == 4 + 12


def test_loops_count_by_their_length() -> None:
    found = work_of(looped)
    assert found.has_unknown_loop
    assert sum(found.operations.values()) == 20 + UNKNOWN_TRIPS


def test_f_order_turns_the_pattern() -> None:
    work = element_work(work_of(stencil), parse_signature("float32[::1, :], float32[:, ::1]"))
    assert work.read_bytes == 32
    assert work.written_bytes == 4


# ------------------------------------------------------------------------ what is predicted


def time_of(
    work: ElementWork,
    extent: tuple[int, ...],
    block: int = 256,
    items: int = 1,
    arch: str = "sm_90",
) -> float:
    asked = problem(extent, work, arch)
    mapping = ElementMapping(items=(items, 1, 1))
    held = occupancy(asked.limits, KernelResources(32), block)
    blocks = math.prod(mapping.blocks(extent, (block, 1, 1)))
    candidate = Candidate((block, 1, 1), mapping)
    return predict(candidate, work, extent, blocks, held.active_blocks, asked.rates).time_ns


@settings(deadline=None, max_examples=examples(200))
@given(works, st.integers(1, 2**30), st.integers(0, 2**30), st.sampled_from(BLOCK_THREADS))
def test_more_indices_take_no_less_time(work: ElementWork, n: int, more: int, block: int) -> None:
    assert time_of(work, (n + more,), block) >= time_of(work, (n,), block) * (1 - 1e-9)


@settings(deadline=None, max_examples=examples(200))
@given(works, st.integers(1, 2**30), st.floats(1, 10), st.sampled_from(BLOCK_THREADS))
def test_more_bytes_and_operations_take_no_less_time(
    work: ElementWork, n: int, factor: float, block: int
) -> None:
    dearer = work._replace(
        read_bytes=work.read_bytes * factor,
        written_bytes=work.written_bytes * factor,
        scattered_bytes=work.scattered_bytes * factor,
        operations=work.operations * factor,
    )
    assert time_of(dearer, (n,), block) >= time_of(work, (n,), block) * (1 - 1e-9)


@given(works, st.integers(1, 2**30))
def test_a_faster_memory_is_never_slower(work: ElementWork, n: int) -> None:
    asked = problem((n,), work)
    fast = asked.rates._replace(memory_bytes_per_s=2 * asked.rates.memory_bytes_per_s)
    for candidate in (Candidate((256, 1, 1)), Candidate((64, 1, 1))):
        blocks = -(-n // candidate.block_threads)
        slow_ns = predict(candidate, work, (n,), blocks, 4, asked.rates).time_ns
        assert predict(candidate, work, (n,), blocks, 4, fast).time_ns <= slow_ns


def test_streaming_wants_several_items_and_a_small_grid_one() -> None:
    large = choose([problem((2**28,))], light).candidate
    assert large.mapping.item_count > 1
    assert large.mapping.vector > 1
    small = choose([problem((2**10,))], light).candidate
    assert small.mapping.item_count == 1
    assert small.block_threads <= 256
    # No multiprocessor is left idle for the sake of items.
    middle = choose([problem((2**15,))], light).candidate
    assert 2**15 // (middle.block_threads * middle.mapping.item_count) >= 64


# --------------------------------------------------------------------------- what is legal


@settings(deadline=None, max_examples=examples(150))
@given(works, extents, resources, st.sampled_from(ARCHS), st.sampled_from([1, 2, 4]))
def test_no_plan_is_illegal(
    work: ElementWork, extent: tuple[int, ...], takes: Resources, arch: str, max_vector: int
) -> None:
    asked = problem(extent, work, arch, max_vector=max_vector)
    device = asked.device
    try:
        choice = choose([asked], lambda *_: takes)
    except ResourceLimitError:
        assert not rank([asked], {((), each): takes for each in asked.mappings()})
        return
    plans = all_plans([asked], {((), choice.candidate.mapping): takes})
    assert describe([asked], choice).block_dim == choice.candidate.block_dim
    for plan in plans:
        limits = device.limits
        assert plan.block_threads <= min(takes.max_block_threads, limits.max_threads_per_block)
        assert all(
            1 <= n <= top for n, top in zip(plan.block_dim, limits.max_block_dim, strict=True)
        )
        assert all(1 <= n <= top for n, top in zip(plan.grid_dim, limits.max_grid_dim, strict=True))
        assert plan.vector <= max_vector
        assert plan.vector * max(work.widest_bytes, 1) <= 16 or plan.vector == 1
        assert plan.active_blocks
        # Every index has a thread, or one that walks on to it.
        tile = plan.mapping.tile(plan.block_dim)
        along = [*(extent[axis] for axis in plan.mapping.axes_of(len(extent))), 1, 1]
        for axis, blocks, width, n in zip("xyz", plan.grid_dim, tile, along, strict=False):
            assert blocks * width >= n or axis in plan.mapping.grid_stride
            assert (blocks - 1) * width < n


@settings(max_examples=examples(100), deadline=None)
@given(extents, st.sampled_from(ARCHS))
def test_a_plan_for_a_class_serves_every_extent_in_it(extent: tuple[int, ...], arch: str) -> None:
    whole = extent_class(extent)
    assert all(n <= top < 1.25 * n + 8 for n, top in zip(extent, whole, strict=True))
    assert extent_class(whole) == whole
    choice = choose([problem(whole, arch=arch)], light)
    plan = describe([problem(extent, arch=arch)], choice)
    assert (plan.block_dim, plan.mapping) == (choice.candidate.block_dim, choice.candidate.mapping)
    assert plan.extent == extent


def test_few_mappings_are_compiled() -> None:
    asked: list[ElementMapping] = []

    def heavy(_: Problem, mapping: ElementMapping) -> Resources:
        asked.append(mapping)
        return Resources(255, 500 * mapping.item_count, 0, 0, 256)

    choose([problem((2**26,))], heavy)
    assert 1 <= len(asked) <= MAX_COMPILED
    assert len(set(asked)) == len(asked)


def test_a_kernel_that_cannot_run_says_why() -> None:
    with pytest.raises(ResourceLimitError, match=r"cannot run.*block_dim \(1024, 1, 1\)"):
        choose(
            [problem((1000,), block_dim=(1024, 1, 1))],
            lambda *_: Resources(128, 0, 0, 0, 512),
        )


def test_threads_walk_where_a_grid_is_too_small() -> None:
    plan = describe([problem((2**45,))], choose([problem((2**45,))], light))
    assert "x" in plan.mapping.grid_stride
    assert plan.grid_dim[0] <= 2**31 - 1
    assert fit_grid(ElementMapping(grid_stride=""), (2**45,), (32, 1, 1), (2**31 - 1, 1, 1)) is None


def test_what_is_not_known_cannot_be_described() -> None:
    with pytest.raises(ArgumentValueError, match="sm_90"):
        described_device("sm_61")


# ---------------------------------------------------------------------------- what is said


def test_a_plan_is_a_value() -> None:
    asked = problem((2**24,))
    plan = describe([asked], choose([asked], light))
    scope = {each.__name__: each for each in (LaunchPlan, PlanAlternative, ElementMapping)}
    again = eval(repr(plan), scope)  # noqa: S307 - that is what is promised
    assert again == plan
    assert hash(again) == hash(plan)
    assert plan.to_dict()["mapping"]["vector"] == plan.vector
    text = plan.explain()
    assert "Occupancy" in text
    assert f"{plan.considered_count} plans were compared" in text
    assert "<table>" in plan._repr_html_()
    with pytest.raises(AttributeError):
        plan.registers = 3  # type: ignore[misc]


def test_one_index_a_thread_is_always_told_of() -> None:
    asked = problem((2**28,))
    plan = describe([asked], choose([asked], light))
    assert any(each.mapping.item_count == 1 for each in plan.considered)
    assert all(each.why for each in plan.considered)


def test_a_plan_can_be_described_for_what_was_not_ranked() -> None:
    asked = problem((1000,))
    odd = Candidate((224, 1, 1), asked.mappings()[0])
    plan = describe([asked], Choice(odd, {((), odd.mapping): light(asked, odd.mapping)}))
    assert plan.block_dim == (224, 1, 1)


def test_shares_on_the_host() -> None:
    assert HostShare(4, 1000).is_parallel
    assert not HostShare(1, 1000).is_parallel


def test_registers_of_a_loop_are_not_estimated_by_its_rounds() -> None:
    def estimated(rounds: int) -> int:
        @kd.kernel
        def sums(x, out):
            t, part = kd.threadIdx.x, np.float32(0)
            for k in range(rounds):
                part += x[t + k * kd.blockDim.x]
            out[t] = part

        signature = "float32[::1], float32[::1]"
        kinds = parse_signature(signature)
        body = counted(sums, signature, block_dim=(1024, 1, 1)).body()
        found = problem((1 << 24,), element_work(body, kinds), block_dim=(1024, 1, 1))
        return estimate_resources(found, ElementMapping()).registers or 0

    # Of such a kernel with 8 rounds the assembler makes 28 registers, with 32 rounds 35.
    assert estimated(1) < estimated(8) < estimated(32) == estimated(256) <= 40


@pytest.mark.parametrize(
    ("ns", "bytes_moved", "expected"),
    [
        (999.9, 999_999, "1 µs for 1 MB"),
        (1.2e9, 4.4e12, "1.2 s for 4.4 TB"),
        (999_999.0, 1, "1 ms for 1 byte"),
        (1.234e12, 1000, "1234 s for 1 KB"),
        (12.34, 999, "12.3 ns for 999 bytes"),
    ],
)
def test_units_of_a_plan(ns: float, bytes_moved: int, expected: str) -> None:
    plan = describe([problem((1 << 20,))], Choice(Candidate((1, 1, 1), ElementMapping()), {}))
    one = replace(plan, predicted_ns=ns, bytes_moved=bytes_moved, active_blocks=1, registers=1)
    text = explain_plan(one)
    assert f"Predicted {expected}, limited by" in text
    assert "holds 1 block at once" in text
    assert "(1 register a thread)" in text
    assert "blocks of 1 thread." in text


def test_what_limits_is_said_in_the_same_words_everywhere() -> None:
    whys = []
    for work in (AXPY, AXPY._replace(operations=5000.0), AXPY._replace(rounds=9)):
        found = problem((1 << 24,), work)
        plan = describe([found], choose([found], light))
        whys += [each.why for each in plan.considered if each.why.startswith("limited by")]
    assert whys
    assert {why.removeprefix("limited by ") for why in whys} <= set(BOUND_WORDS.values())


def _counting(rounds: int, blocks: int, threads: int) -> float:
    """Nanoseconds of a loop that counts in shared memory, two blocks to a multiprocessor."""
    device = described_device("sm_90")
    work = AXPY._replace(loads=float(rounds), shared_atomics=float(rounds))
    return predict(
        Candidate((threads, 1, 1), ElementMapping()),
        work,
        (blocks * threads,),
        blocks,
        2,
        DeviceRates.from_device(device),
    ).time_ns


def test_rounds_of_a_counting_loop_wait_for_less_than_a_load_each() -> None:
    latency = DeviceRates.from_device(described_device("sm_90")).l2_latency_ns
    each = (_counting(17, 1, 32) - _counting(1, 1, 32)) / 16
    assert 0.5 * latency < each < latency


def test_a_wave_counts_while_its_blocks_wait() -> None:
    rates = DeviceRates.from_device(described_device("sm_90"))
    counted = 2 * 1024 * 32 / 4.3 / rates.clock_hz * 1e9  # of a multiprocessor, and nothing else
    waited = _counting(32, 1, 1024)
    wave = _counting(32, 2 * rates.multiprocessor_count, 1024)
    assert counted < wave < waited + counted / 2
    # A second wave is counted when the first has been.
    assert _counting(32, 4 * rates.multiprocessor_count, 1024) > wave + counted / 2


def test_a_block_of_128_threads_if_the_number_of_blocks_does_not_matter() -> None:
    long = ElementWork(written_bytes=8, stores=1, operations=2000, widest_bytes=0, places=1)
    short = long._replace(operations=1)
    one = ElementMapping((1, 1, 1), grid_stride="")
    for work, threads in ((long, 128), (short, 384)):
        times = {}
        for each in rank([problem((1 << 26,), work)], {}, [one]):
            times.setdefault(each.candidate.block_threads, each.prediction.time_ns)
        assert (times[128] <= times[256]) == (threads == 128)
        assert next(iter(times)) == threads
    first = rank([problem((1 << 13, 1 << 13), long)], {}, [one])[0]
    assert first.candidate.block_threads == 256
