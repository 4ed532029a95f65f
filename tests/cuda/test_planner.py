"""Plans on a real device: what they say of it is so, and kernels run as they say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.planner import DeviceOccupancyLimits, KernelResources, occupancy
from targets.cuda.driver import functions
from targets.cuda.driver.driver import get_driver


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def turned(a, out):
    y, x = kd.grid(2)
    if y < a.shape[0] and x < a.shape[1]:
        out[x, y] = a[y, x]


@kd.kernel(block=128)
def block_sums(x, out):
    cells = kd.shared.array(128, np.float32)
    t = kd.threadIdx.x
    i = kd.grid(1)
    cells[t] = x[i] if i < x.size else np.float32(0)
    kd.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            cells[t] += cells[t + step]
        kd.syncthreads()
        step //= 2
    if t == 0:
        kd.atomic.add(out, 0, cells[0])


@kd.kernel(
    space=kd.Space(
        block=[64, 128, 256],
        items=[1, 4],
        covers=lambda c: c.block * c.items,
        shared=lambda c: 4 * c.block,
    )
)
def spaced_sums(x, out, *, block, items):
    cells = kd.shared.array(0, np.float32)
    t = kd.threadIdx.x
    total = np.float32(0)
    for k in range(items):
        i = (kd.blockIdx.x * items + k) * block + t
        if i < x.size:
            total += x[i]
    cells[t] = total
    kd.syncthreads()
    step = block // 2
    while step > 0:
        if t < step:
            cells[t] += cells[t + step]
        kd.syncthreads()
        step //= 2
    if t == 0:
        kd.atomic.add(out, 0, cells[0])


def test_the_device_tells_its_rates() -> None:
    extra = kd.devices("cuda")[0].device.extra
    for name in ("clock_rate", "memory_clock_rate", "global_memory_bus_width", "l2_cache_size"):
        assert extra[name] > 0
    assert extra["cooperative_launch"] in (0, 1)


@pytest.mark.parametrize("n", [1, 100, 4097, 1_000_003])
def test_every_plan_computes_the_same(n: int, rng: Any) -> None:
    x, y = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    args = [kd.to_device(each) for each in (x, y)]
    a = np.float32(1.5)
    for plan in axpy.forall(n).plans(a, *args, args[0])[::11]:
        out = kd.full(n, np.float32(np.nan))
        axpy.forall(n, plan=plan)(a, *args, out)
        np.testing.assert_allclose(out.copy_to_host(), a * x + y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (33, 65), (300, 200)])
def test_every_plan_turns_an_array(shape: tuple[int, int], rng: Any) -> None:
    a = rng.standard_normal(shape).astype(np.float32)
    given = kd.to_device(a)
    out = kd.empty(shape[::-1], np.float32)
    for plan in turned.forall(*shape).plans(given, out)[::37]:
        out.fill(np.nan)
        turned.forall(*shape, plan=plan)(given, out)
        np.testing.assert_array_equal(out.copy_to_host(), a.T)


def test_overlapping_misaligned_and_reversed_arrays(rng: Any) -> None:
    n = 10_001
    base = rng.standard_normal(2 * n).astype(np.float32)
    for cut in (slice(0, n), slice(1, n + 1), slice(3, n + 3), slice(n, 0, -1), slice(0, 2 * n, 2)):
        whole = kd.to_device(base)
        view, host = whole[cut], base[cut].copy()
        out = kd.full(host.size, np.float32(np.nan))
        axpy.forall(host.size)(np.float32(2), view, view, out)
        np.testing.assert_allclose(out.copy_to_host(), 3 * host, rtol=1e-5)
        # In place: element by element, so that every plan gives the same.
        axpy.forall(host.size)(np.float32(2), view, view, view)
        np.testing.assert_allclose(view.copy_to_host(), 3 * host, rtol=1e-5)


def test_a_plan_holds_what_the_driver_holds() -> None:
    n = 1 << 22
    arrays = [kd.zeros(n, np.float32) for _ in range(3)]
    driver = get_driver()
    for plan in axpy.forall(n).plans(np.float32(1), *arrays)[::17]:
        axpy.forall(n, plan=plan)(np.float32(1), *arrays)
        limits = DeviceOccupancyLimits.from_device(kd.devices("cuda")[0].device)
        held = occupancy(limits, KernelResources(plan.registers or 0), plan.block_threads)
        assert plan.active_blocks == held.active_blocks
    assert driver.devices()


def test_a_space_on_a_device(rng: Any) -> None:
    x = rng.random(100_003).astype(np.float32)
    given = kd.to_device(x)
    for plan in spaced_sums.forall(x.size).plans(given, kd.zeros(1, np.float32)):
        out = kd.zeros(1, np.float32)
        spaced_sums.forall(x.size, plan=plan)(given, out)
        assert out.copy_to_host()[0] == pytest.approx(x.sum(dtype=np.float64), rel=1e-4)
    out = kd.zeros(1, np.float32)
    spaced_sums.forall(x.size)(given, out)
    assert out.copy_to_host()[0] == pytest.approx(x.sum(dtype=np.float64), rel=1e-4)


def test_the_driver_is_asked_for_the_plans_carve_out(rng: Any) -> None:
    given, out = kd.to_device(rng.random(100_003).astype(np.float32)), kd.zeros(1, np.float32)
    launch, driver = spaced_sums.forall(given.size), get_driver()
    launch(given, out)
    plan = launch.plan(given, out)
    assert plan.carveout_bytes is not None
    limits = DeviceOccupancyLimits.from_device(kd.devices("cuda")[0].device)
    member = spaced_sums.member(**dict(plan.parameters))
    with driver.current(0):
        preferred = {
            functions._attribute(
                driver, executable._function.handle, "PREFERRED_SHARED_MEMORY_CARVEOUT"
            )
            for executable in member._dispatcher.state().loaded.values()
        }
    assert max(preferred) >= limits.carveout_percent(plan.carveout_bytes)


@pytest.mark.parametrize("options", [{"cluster": 2}, {"cooperative": True}, {"cluster": (4, 1)}])
def test_blocks_that_run_together(options: dict[str, Any], rng: Any) -> None:
    info = kd.devices("cuda")[0]
    wanted = "supports_cluster_launch" if "cluster" in options else "supports_cooperative_launch"
    x = rng.random(10_000).astype(np.float32)
    given, out = kd.to_device(x), kd.zeros(1, np.float32)
    launch = block_sums.forall(x.size, **options)
    if not getattr(info, wanted):
        with pytest.raises(kd.LaunchConfigError, match="has no"):
            launch(given, out)
        return
    for _ in range(3):
        launch(given, out)
    assert out.copy_to_host()[0] == pytest.approx(3 * x.sum(dtype=np.float64), rel=1e-4)


def test_a_cooperative_launch_that_does_not_fit() -> None:
    x, out = kd.zeros(10**7, np.float32), kd.zeros(1, np.float32)
    with pytest.raises(kd.LaunchConfigError, match=r"holds .* of them at once"):
        block_sums.forall(x.size, cooperative=True)(x, out)


def test_a_given_plan_is_launched_as_it_says() -> None:
    n = 10_000
    arrays = [kd.ones(n, np.float32) for _ in range(3)]
    plan = axpy.forall(n).plan(np.float32(2), *arrays)
    odd = replace(plan, block_dim=(96, 1, 1))
    axpy.forall(n, plan=odd)(np.float32(2), *arrays)
    assert (arrays[2].copy_to_host() == 3).all()
