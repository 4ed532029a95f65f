"""``kd.tune``: which launches are tuned when they are first made, and within which budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.launch.measured import Measured, PlanChoices
from kerneldsl.tuning.session import Session
from tests.support.extent import full_beyond
from tests.support.launched import null_in_use

FAST = {"block": 64, "tile": 2}


def make_sums(tune: Any = None, **options: Any) -> Any:
    @kd.kernel(
        space=kd.Space(block=[32, 64, 128], tile=[1, 2], covers=lambda c: c.block * c.tile),
        **options,
    )
    def sums(x, out, *, block, tile):
        i = (kd.blockIdx.x * block + kd.threadIdx.x) * tile
        total = np.float64(0)
        for k in range(tile):
            if i + k < x.size:
                total += x[i + k]
        kd.atomic.add(out, 0, total)

    return sums if tune is None else tune(sums)


@pytest.fixture
def measured(timed_by: Any) -> list[PlanChoices]:
    """Plans that are measured, of which one member is the fastest."""
    found: list[PlanChoices] = []

    def clock(plan: PlanChoices) -> float:
        found.append(plan)
        return 10.0 if dict(plan.parameters) == FAST else 1000.0

    timed_by(clock)
    return found


def launch(kernel: Any, size: int = 1000) -> dict[str, Any]:
    """Launch a kernel, check its result, and return the member that launches take now."""
    x, out = np.arange(float(size)), np.zeros(1)
    kernel.forall(size)(x, out)
    assert out[0] == x.sum()
    return dict(kernel.forall(size).plan(x, out).parameters)


@pytest.mark.parametrize("budget", full_beyond([None, "full", 60.0], quick=["full"]))
def test_a_decorated_kernel_is_tuned_at_its_first_launch(measured: list[Any], budget: Any):
    kernel = make_sums(kd.tune if budget is None else kd.tune(budget))
    with kd.use("cpu"):
        assert launch(kernel) == FAST
        count = len(measured)
        assert count
        for _ in range(40):  # native code takes over
            launch(kernel)
        assert len(measured) == count
        assert launch(kernel, 100_000) == FAST  # another class of extents
        assert len(measured) > count


def test_a_decorator_holds_for_its_kernel_alone(measured: list[Any]):
    make_sums(kd.tune("full"))
    with kd.use("cpu"):
        launch(make_sums())
    assert not measured


def test_a_block_tunes_what_it_launches_and_what_was_launched_before(measured: list[Any]):
    kernel = make_sums()
    with kd.use("cpu"):
        for _ in range(40):
            first = launch(kernel)
        assert first != FAST
        assert not measured
        with kd.tune("full"):
            assert launch(kernel) == FAST
        assert measured
        count = len(measured)
        assert launch(kernel, 5) != FAST
        assert len(measured) == count


def test_a_plain_call_holds_for_the_process(measured: list[Any]):
    chosen = kd.tune("full")
    try:
        with kd.use("cpu"):
            assert launch(make_sums()) == FAST
            count = len(measured)
            with kd.tune("cached"):
                launch(make_sums(), 70)
            launch(make_sums(kd.tune("cached")), 70)
            assert len(measured) == count
    finally:
        kd.tune._scope.take_out(chosen)
    assert "seconds=inf" in repr(chosen)


def test_records_of_another_kernel_object_are_used_and_never_says_no(measured: list[Any]):
    with kd.use("cpu"):
        launch(make_sums(kd.tune("full")))
        count = len(measured)
        assert launch(make_sums()) == FAST
        assert launch(make_sums(kd.tune("full"))) == FAST
        assert launch(make_sums(kd.tune("never"))) != FAST
        with kd.tune("never"):
            assert launch(make_sums()) != FAST
        assert len(measured) == count


def test_tune_never_takes_back_what_was_tuned(measured: list[Any]):
    kernel, x, out = make_sums(), np.arange(1000.0), np.zeros(1)
    with kd.use("cpu"):
        plain = launch(kernel)
        kernel.forall(1000).tune(x, out, budget="full")
        for _ in range(40):
            assert launch(kernel) == FAST
        report = kernel.forall(1000).tune(x, out, budget="never")
        assert dict(report.plan.parameters) == plain == launch(kernel)
        assert "not measured" in str(report)
        assert launch(make_sums()) == FAST  # the record stays


@pytest.mark.full
def test_without_a_cache_tuning_one_extent_keeps_another(
    measured: list[Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KERNELDSL_CACHE", "0")
    kernel = make_sums(kd.tune("full"))
    with kd.use("cpu"):
        for size in (1000, 100_000, 1000, 100_000):
            assert launch(kernel, size) == FAST
        count = len(measured)
        for size in (1000, 100_000):
            launch(kernel, size)
    assert len(measured) == count


def test_what_cannot_be_measured_is_launched_untuned(measured: list[Any]):
    kernel = make_sums()
    x, out = np.arange(64.0), np.zeros(1)
    with kd.tune("full"):
        with kd.use("cpu"):
            kernel.forall(0)(x, out)
            kernel.member(block=32, tile=1)[2, 32](x, out)
            kernel.member(block=32, tile=1).forall(64)(x, out)
            kernel.forall(64, plan=kernel.forall(64).plan(x, out))(x, out)
            launch(make_sums(debug=True), 64)
        with null_in_use():
            kernel.forall(64)(x, out)
    assert not measured
    assert out[0] == 3 * x.sum()


def test_a_launch_that_no_plan_measures_is_made_and_tried_once(monkeypatch: pytest.MonkeyPatch):
    tried: list[Any] = []

    def fail(session: Any, plan: PlanChoices) -> Measured:
        tried.append(plan)
        return Measured(None, problem="it cannot run")

    monkeypatch.setattr(Session, "_measure", fail)
    kernel = make_sums(kd.tune("full"))
    with kd.use("cpu"):
        launch(kernel)
        count = len(tried)
        assert count
        launch(kernel)
    assert len(tried) == count


def test_an_interrupt_puts_arguments_back_and_keeps_the_best_so_far(
    monkeypatch: pytest.MonkeyPatch,
):
    count = 0

    def interrupted(session: Any, plan: PlanChoices) -> Measured:
        nonlocal count
        count += 1
        session._args[1][0] = 7.0
        if count == 4:
            raise KeyboardInterrupt
        time = 100.0 - count
        return Measured(time, time, time, 7)

    monkeypatch.setattr(Session, "_measure", interrupted)
    kernel, x, out = make_sums(), np.arange(1000.0), np.zeros(1)
    with kd.use("cpu"):
        with pytest.raises(KeyboardInterrupt):
            kernel.forall(1000).tune(x, out, budget="full")
        assert out[0] == 0.0
        report = kernel.forall(1000).tune(x, out, budget="cached")
        assert len(report.tried) == 3
        assert report.best.measured.median_ns == 97.0
        assert dict(report.plan.parameters) == launch(kernel)


def test_a_cold_cache_is_emptied_before_each_launch_and_recorded_apart(
    monkeypatch: pytest.MonkeyPatch,
):
    emptied = 0

    def make_flush(device: Any, stream: Any) -> Any:
        def flush() -> None:
            nonlocal emptied
            emptied += 1

        return flush

    monkeypatch.setattr("kerneldsl.tuning.session.make_flush", make_flush)
    kernel, x, out = make_sums(), np.arange(1000.0), np.zeros(1)
    with kd.use("cpu"):
        warm = kernel.forall(1000).tune(x, out, budget=0.05)
        assert not emptied
        cold = kernel.forall(1000).tune(x, out, budget=0.05, cache="cold")
        assert emptied >= 7 * len(cold.tried)
        assert not any(each.was_known for each in cold.tried)
        again = kernel.forall(1000).tune(x, out, budget="cached")
        assert len(again.tried) == len(warm.tried)
        with pytest.raises(kd.ArgumentValueError, match="cache is 'hot'"):
            kernel.forall(1000).tune(x, out, cache="hot")


def test_flushing_writes_more_than_the_last_cache(monkeypatch: pytest.MonkeyPatch):
    from kerneldsl.placement.devices import current_device
    from kerneldsl.tuning.measuring import _last_cache_bytes, make_flush

    with kd.use("cpu"):
        device = current_device()
        assert _last_cache_bytes(device) >= 1 << 18
        monkeypatch.setattr("kerneldsl.tuning.measuring._last_cache_bytes", lambda device: 1000)
        make_flush(device, None)()
    with null_in_use():
        make_flush(current_device(), None)()


def test_tune_never_takes_back_how_the_cpu_shares_an_element_kernel(timed_by: Any):
    @kd.kernel
    def double(x):
        x[kd.grid(1)] *= 2

    x = np.ones(1 << 20)
    with kd.use("cpu"):
        launch = double.forall(x.size)
        plain = launch.plan(x).host
        timed_by(lambda plan: 1000.0 if plan.host == plain else 10.0)
        tuned = launch.tune(x, budget="full").plan.host
        assert launch.plan(x).host == tuned != plain
        again = launch.tune(x, budget="full")
        assert again.tried[0].plan.host == plain  # the planner's choice stays the first
        assert launch.tune(x, budget="never").plan.host == plain == launch.plan(x).host


def test_what_copies_arguments_is_not_tuned_within(
    measured: list[Any], monkeypatch: pytest.MonkeyPatch
):
    """A copy of a strided array is a launch of the library's, and has arguments of its own."""
    from kerneldsl.tuning import session

    inner = make_sums()
    copied = 0

    def copy(target: Any, source: Any) -> None:
        nonlocal copied
        copied += 1
        inner.forall(640)(np.zeros(640), np.zeros(1))
        target[...] = source

    monkeypatch.setattr(session, "copy", copy)
    with kd.use("cpu"), kd.tune("full"):
        assert launch(make_sums()) == FAST
    assert copied >= 2


def test_what_is_no_kernel_is_not_decorated():
    with pytest.raises(kd.ArgumentTypeError, match="Swap the decorators"):
        kd.tune("5s")(lambda x: x)  # type: ignore[type-var]
    with pytest.raises(kd.ArgumentValueError, match="budget is 'soon'"):
        kd.tune("soon")
