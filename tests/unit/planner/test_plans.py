"""Plans of launches: what the planner is asked, what is launched, and what is said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.language.signatures import parse_signature
from kerneldsl.planner.host import element_ns, share_on_host
from kerneldsl.planner.work import ElementWork, element_work
from targets import null
from targets.cpu.runtime import threads
from targets.null.target import NullTarget
from tests.support.counting import counted


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def placed(x):
    x[kd.grid(1)] = kd.threadIdx.x


@kd.kernel
def placed2(x):
    i, j = kd.grid(2)
    x[i, j] = 1


@kd.kernel
def tiled(x):
    cells = kd.shared.array(64, np.float32)
    cells[kd.threadIdx.x] = x[kd.grid(1)]
    kd.syncthreads()
    x[kd.grid(1)] = cells[63 - kd.threadIdx.x]


@pytest.fixture
def target() -> Iterator[NullTarget]:
    with null.described_as(null.H100) as described, kd.use("null"):
        yield described


def arrays(n: int, count: int = 3) -> list[Any]:
    return [kd.zeros(n, np.float32) for _ in range(count)]


# ------------------------------------------------------------------------- what is launched


def test_a_launch_is_as_its_plan_says(target: NullTarget) -> None:
    for n in (1, 1000, 10**5, 10**7):
        args = (np.float32(2), *arrays(n))
        plan = axpy.forall(n).plan(*args)
        assert target.launches == []
        axpy.forall(n)(*args)
        (record,) = target.launches
        target.launches.clear()
        assert (record.config.grid_dim, record.config.block_dim) == (plan.grid_dim, plan.block_dim)
        assert record.config.extent == (n,)


def test_planning_happens_once_for_a_class(
    target: NullTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kerneldsl.planner import choose

    asked = []
    real = choose.choose

    def counted(problems: Any, compile_code: Any) -> Any:
        asked.extend(problem.extent for problem in problems)
        return real(problems, compile_code)

    monkeypatch.setattr(choose, "choose", counted)

    @kd.kernel
    def fresh(x):
        x[kd.grid(1)] = 1

    x = kd.zeros(1 << 20, np.float32)
    for n in (1_000_000, 1_000_001, 1_040_000, 1_000_000):
        fresh.forall(n)(x)
    assert asked == [(1 << 20,)]


def test_overlapping_and_misaligned_arguments_get_code_of_their_own(target: NullTarget) -> None:
    n = 1 << 20
    whole = kd.zeros(2 * n + 8, np.float32)
    x, y, out = arrays(n)
    apart = axpy.forall(n).plan(np.float32(1), x, y, out)
    assert apart.vector > 1
    off = axpy.forall(n).plan(np.float32(1), *(whole[1 + k : 1 + k + n] for k in range(3)))
    assert off.vector == 1
    # In place is no overlap of different elements.
    axpy.forall(n)(np.float32(1), x, y, x)
    axpy.forall(n)(np.float32(1), whole[:n], whole[4 : n + 4], whole[8 : n + 8])
    assert len({record.config.block_dim for record in target.launches}) >= 1


def test_a_given_plan_is_taken(target: NullTarget) -> None:
    args = (np.float32(2), *arrays(10_000))
    plan = replace(axpy.forall(10_000).plan(*args), block_dim=(96, 1, 1))
    axpy.forall(10_000, plan=plan)(*args)
    assert target.launches[-1].config.block_dim == (96, 1, 1)
    for other in axpy.forall(10_000).plans(*args)[::29]:
        axpy.forall(10_000, plan=other)(*args)
        assert target.launches[-1].config.block_dim == other.block_dim
        assert target.launches[-1].config.grid_dim == other.grid_dim


def test_a_body_that_looks_at_its_place_keeps_one_index_a_thread(target: NullTarget) -> None:
    plan = placed.forall(100_000).plan(kd.zeros(100_000, np.float32))
    assert plan.mapping.item_count == 1
    assert plan.grid_blocks * plan.block_threads >= 100_000


def test_extents_of_two_and_three_axes(target: NullTarget) -> None:
    @kd.kernel
    def fill(x):
        z, y, i = kd.grid(3)
        x[z, y, i] = 1

    x = kd.zeros((70, 3, 1000), np.float32)
    fill.forall(*x.shape)(x)
    config = target.launches[-1].config
    assert config.grid_dim[2] * config.block_dim[2] >= 70
    assert fill.forall(70, 3, 1000).plan(x).extent == (70, 3, 1000)


# ----------------------------------------------------------------------------- what is said


def test_a_float_argument_is_told_of(target: NullTarget) -> None:
    x, y, out = arrays(1000)
    (note,) = axpy.forall(1000).plan(2.0, x, y, out).notes
    assert "out[i] is float32 and is computed in float64" in note
    assert "np.float32(a)" in note
    assert axpy.forall(1000).plan(np.float32(2), x, y, out).notes == ()


def test_what_the_compiler_narrows_is_no_finding(target: NullTarget) -> None:
    @kd.kernel
    def halve(x, out):
        i = kd.grid(1)
        out[i] = x[i] * 0.5

    @kd.kernel
    def third(x, out):
        i = kd.grid(1)
        out[i] = x[i] * 0.3333

    x, out = arrays(100, 2)
    assert halve.forall(100).plan(x, out).notes == ()
    (note,) = third.forall(100).plan(x, out).notes
    assert "the literal 0.3333" in note
    assert "np.float32(0.3333)" in note


def test_plans_of_given_shapes(target: NullTarget) -> None:
    plan = axpy[100, 128].plan(np.float32(1), *arrays(12_800))
    assert (plan.grid_dim, plan.block_dim, plan.extent) == ((100, 1, 1), (128, 1, 1), None)
    assert plan.occupancy == 1.0
    block = tiled.forall(1000, block=64).plan(kd.zeros(1000, np.float32))
    assert (block.grid_dim, block.block_dim) == ((16, 1, 1), (64, 1, 1))
    assert block.carveout_bytes
    with pytest.raises(kd.LaunchConfigError, match="given no block"):
        tiled.forall(1000).plan(kd.zeros(1000, np.float32))


def test_an_empty_extent_has_a_plan(target: NullTarget) -> None:
    plan = axpy.forall(0).plan(np.float32(1), *arrays(0))
    assert "nothing is launched" in plan.explain()


def test_planning_without_a_device() -> None:
    signature = "float32, float32[::1], float32[::1], float32[::1]"
    for arch in ("sm_75", "sm_80", "sm_90", "sm_120"):
        plan = axpy.forall(1 << 24).plan(signature, arch=arch)
        assert plan.arch == arch
        assert plan.bytes_moved == 12 << 24
        assert plan.bound == "memory"
    with pytest.raises(kd.ArgumentValueError, match="Plans can be made for"):
        axpy.forall(100).plan(signature, arch="sm_61")
    with pytest.raises(kd.ArgumentTypeError, match="missing"):
        axpy.forall(100).plan("float32", arch="sm_90")


def test_an_old_card_is_launched_without_a_model() -> None:
    with null.described_as(null.SMALL_OLD_CARD) as described, kd.use("null"):
        args = (np.float32(1), *arrays(1000))
        axpy.forall(1000)(*args)
        assert described.launches[-1].config.block_dim == (256, 1, 1)
        assert "Too little is known" in axpy.forall(1000).plan(*args).explain()


@pytest.mark.parametrize("given", [3, "plan", None.__class__])
def test_what_is_no_plan(given: Any) -> None:
    with pytest.raises(kd.LaunchConfigError, match="It must be a LaunchPlan"):
        axpy.forall(10, plan=given)


def test_a_plan_and_a_block_contradict() -> None:
    plan = axpy.forall(100).plan("float32, float32[::1], float32[::1], float32[::1]", arch="sm_90")
    with pytest.raises(kd.LaunchConfigError, match="was given a plan and block=64"):
        axpy.forall(100, block=64, plan=plan)


def test_a_plan_with_several_indices_a_thread_is_refused_where_there_can_be_one_alone(
    target: NullTarget,
) -> None:
    n = 1 << 20
    args = (np.float32(2), *arrays(n))
    several = axpy.forall(n).plan(*args)
    assert several.mapping.item_count > 1
    x = kd.zeros(n, np.float32)
    with pytest.raises(kd.LaunchConfigError, match="reads threadIdx, blockIdx or blockDim"):
        placed.forall(n, plan=several)(x)
    block_alone = replace(several, mapping=kd.ElementMapping(), block_dim=(96, 1, 1))
    placed.forall(n, plan=block_alone)(x)
    config = target.launches[-1].config
    assert config.block_dim == (96, 1, 1)
    assert config.grid_dim[0] * 96 >= n


def test_a_plan_of_another_rank_is_refused(target: NullTarget) -> None:
    x = kd.zeros((100, 100), np.float32)
    plan = replace(placed2.forall(100, 100).plan(x), mapping=kd.ElementMapping(axes=(1, 0)))
    placed2.forall(100, 100, plan=plan)(x)
    with pytest.raises(kd.LaunchConfigError, match="for 2 axes was given to a launch over 1"):
        axpy.forall(1000, plan=plan)(np.float32(2), *arrays(1000))


# ------------------------------------------------------------------------ run together


@pytest.mark.parametrize("how", [{"cluster": (3,)}, {"cooperative": True}])
def test_a_plan_says_which_blocks_run_together(target: NullTarget, how: dict[str, Any]) -> None:
    x = kd.zeros(1000, np.float32)
    plan = tiled.forall(1000, block=64, **how).plan(x)
    tiled.forall(1000, plan=plan)(x)
    config = target.launches[-1].config
    assert (config.cluster_dim, config.is_cooperative) == (plan.cluster_dim, plan.is_cooperative)
    assert config.cluster_dim or config.is_cooperative


def test_clusters_and_cooperative_launches(target: NullTarget) -> None:
    x = kd.zeros(1000, np.float32)
    tiled.forall(1000, block=64, cluster=(3,))(x)
    config = target.launches[-1].config
    assert (config.cluster_dim, config.grid_dim) == ((3, 1, 1), (18, 1, 1))
    tiled.forall(1000, block=64, cooperative=True)(x)
    assert target.launches[-1].config.is_cooperative
    tiled.forall(1000, block=64)(x)
    assert target.launches[-1].config.cluster_dim is None
    with pytest.raises(kd.LaunchConfigError, match=r"holds .* at once"):
        tiled.forall(10**7, block=64, cooperative=True)(x)
    with pytest.raises(kd.LaunchConfigError, match="of the element kernel"):
        axpy.forall(1000, cluster=2)(np.float32(1), *arrays(1000))


def test_the_decorator_may_say_so(target: NullTarget) -> None:
    @kd.kernel(block=64, cluster=2)
    def clustered(x):
        cells = kd.shared.array(64, np.float32)
        cells[kd.threadIdx.x] = x[kd.grid(1)]

    x = kd.zeros(1000, np.float32)
    clustered[4, 64](x)
    assert target.launches[-1].config.cluster_dim == (2, 1, 1)
    with pytest.raises(kd.LaunchConfigError, match="is not made of clusters"):
        clustered[3, 64](x)


@pytest.mark.parametrize("cluster", [0, 9, (1, 2, 3, 4), 2.0, (4, 4)])
def test_what_is_no_cluster(cluster: Any) -> None:
    with pytest.raises(kd.ArgumentValueError, match="cluster"):
        tiled.forall(100, block=64, cluster=cluster)
    with pytest.raises(kd.ArgumentTypeError, match="cooperative"):
        kd.kernel(cooperative=1)


def test_where_there_is_no_such_thing() -> None:
    refused = pytest.raises(kd.LaunchConfigError, match="has no clusters of blocks")
    with null.described_as(null.SMALL_OLD_CARD), kd.use("null"), refused:
        tiled.forall(1000, block=64, cluster=2)(kd.zeros(1000, np.float32))
    with kd.use("cpu"), pytest.raises(kd.LaunchConfigError, match="has no cooperative launches"):
        tiled.forall(1000, block=64, cooperative=True)(np.zeros(1000, np.float32))


# ----------------------------------------------------------------------------- on the CPU


def test_a_plan_on_the_cpu() -> None:
    with kd.use("cpu"):
        small = axpy.forall(16).plan(np.float32(1), *[np.zeros(16, np.float32)] * 3)
        assert small.host == kd.HostShare(1, 16)
        assert "calling thread" in small.explain()
        x = np.ones(50_000, np.float32)
        for share in (kd.HostShare(1, 50_000), kd.HostShare(2, 64), kd.HostShare(2, 49_999)):
            out = np.full_like(x, np.nan)
            plan = replace(axpy.forall(x.size).plan(np.float32(2), x, x, out), host=share)
            axpy.forall(x.size, plan=plan)(np.float32(2), x, x, out)
            assert (out == 3).all()


@given(st.integers(0, 2**40), st.floats(0.01, 1e6), st.integers(1, 256), st.floats(0, 1e6))
def test_shares_are_sound(indices: int, each_ns: float, threads: int, wake_ns: float) -> None:
    share = share_on_host(indices, each_ns, threads, wake_ns)
    assert share.threads in (1, threads)
    assert 1 <= share.chunk <= max(indices, 1)
    if share.is_parallel:
        assert indices * each_ns > wake_ns
        assert -(-indices // share.chunk) <= 8 * threads
    dearer = share_on_host(indices, 2 * each_ns, threads, wake_ns)
    assert dearer.is_parallel or not share.is_parallel


@pytest.mark.parametrize(("threads", "wake_ns"), [(2, 5e3), (8, 8e3), (64, 4e4)])
@pytest.mark.parametrize("total_us", [1, 10, 30, 100, 1e3, 1e5])
def test_no_thread_has_a_step_more(threads: int, wake_ns: float, total_us: float) -> None:
    indices = 1 << 22
    share = share_on_host(indices, total_us * 1e3 / indices, threads, wake_ns)
    shared_us = total_us / threads + wake_ns / 1e3
    assert share.is_parallel == (total_us >= 1.25 * shared_us)
    if share.is_parallel:
        assert -(-indices // share.chunk) % threads == 0
        steps = -(-indices // share.chunk) // threads
        assert steps == 1 or 4 <= steps <= 8
        assert total_us / (indices / share.chunk) >= min(3, total_us / threads) * 0.99


def test_dearer_bodies_take_longer() -> None:
    cheap = ElementWork(read_bytes=4, written_bytes=4)
    for dear in (
        cheap._replace(operations=1000.0),
        cheap._replace(read_bytes=400.0),
        cheap._replace(scattered_bytes=64.0),
        cheap._replace(atomics=1.0),
    ):
        assert element_ns(dear, (1000,)) > element_ns(cheap, (1000,))
    assert element_ns(cheap, (10**9,)) > element_ns(cheap, (10,))


def test_short_rows_cost_more() -> None:
    work = ElementWork(read_bytes=4, written_bytes=4, operations=16.0)
    times = [element_ns(work, extent) for extent in ((4096,), (64, 64), (512, 8), (32, 16, 8))]
    assert times == sorted(times)
    assert times[-1] > 4 * times[0]


def test_the_crossed_side_of_a_transposition_costs_lines() -> None:
    work = ElementWork(read_bytes=4.0, crossed_bytes=4.0, narrowest_bytes=4, widest_bytes=4)
    flat = work._replace(written_bytes=4.0, crossed_bytes=0.0)
    assert element_ns(work, (500, 500)) > 3 * element_ns(flat, (500, 500))
    # Rows a power of two apart displace each other from the caches.
    assert element_ns(work, (512, 512)) > 2 * element_ns(work, (500, 500))
    assert element_ns(work, (64, 64)) < 1.1 * element_ns(work, (60, 60))


def test_short_loops_are_vectorized_over_indices() -> None:
    def taking(rounds: int) -> float:
        @kd.kernel
        def rise(x, out):
            i = kd.grid(1)
            v = x[i]
            for _ in range(rounds):
                v = v * v + 1.0
            out[i] = v

        signature = "float32[::1], float32[::1]"
        body = counted(rise, signature).body()
        return element_ns(element_work(body, parse_signature(signature)), (4096,))

    assert taking(512) > 50 * taking(64)


@pytest.mark.parametrize("slowness", [1, 2, 5])
def test_what_sharing_costs_is_the_same_on_a_machine_that_is_slow(
    slowness: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, calls = 0, 0

    class Pool:
        name, thread_count, parallel_for = "simulated", 8, print

        def run(self, entry: int, launch: int, steps: int, *, parallel: bool) -> None:
            nonlocal now, calls
            calls += 1
            # Threads are made for the first ones; later, now and then, something else runs.
            disturbed = 300_000 if calls <= 8 else 90_000 if calls % 3 == 0 else 0
            now += slowness * (6000 if parallel else 2000) + disturbed

    monkeypatch.setattr(threads, "_measured", {})
    monkeypatch.setattr(threads, "time", SimpleNamespace(perf_counter_ns=lambda: now))
    found = threads.wake_ns(cast(Any, Pool()))
    assert found == pytest.approx(3 * 2300)
    before = calls
    assert threads.wake_ns(cast(Any, Pool())) == found
    assert calls == before
