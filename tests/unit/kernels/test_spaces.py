"""Spaces of compile-time parameters: what they are, what is refused, and what forall takes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.planner import DeviceOccupancyLimits
from targets import null
from targets.null.target import NullTarget
from tests.support.native import is_native, require_native, warm_up

SPACE = kd.Space(
    block=[64, 128, 256],
    items=[1, 2, 4],
    where=lambda c: c.block * c.items <= 512,
    covers=lambda c: c.block * c.items,
    shared=lambda c: 4 * c.block,
)


@kd.kernel(space=SPACE)
def sums(x, out, *, block, items):
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
        out[kd.blockIdx.x] = cells[0]


@pytest.fixture
def target() -> Iterator[NullTarget]:
    with null.described_as(null.H100) as described, kd.use("null"):
        yield described


# --------------------------------------------------------------------------- the value


def test_a_space_has_the_members_that_meet_its_condition() -> None:
    assert len(SPACE) == 8
    assert {(c.block, c.items) for c in SPACE} == {
        (b, i) for b in (64, 128, 256) for i in (1, 2, 4) if b * i <= 512
    }
    first = SPACE.members[0]
    assert str(first) == "block=64, items=1"
    assert first.block_dim == (64, 1, 1)
    assert (SPACE.shared_bytes(first), SPACE.tile(first)) == (256, (64, 1, 1))
    with pytest.raises(AttributeError, match="it has block, items"):
        first.tile


def test_blocks_may_have_axes() -> None:
    space = kd.Space(block=[(16, 16), (32, 8)])
    assert [c.block_dim for c in space] == [(16, 16, 1), (32, 8, 1)]
    assert space.tile(space.members[1]) == (32, 8, 1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"block": []}, kd.ArgumentTypeError, "at least one"),
        ({"block": 64}, kd.ArgumentTypeError, r"block=\[64\]"),
        ({"block": [0]}, kd.ArgumentValueError, "1 or more"),
        ({"block": [64, 64]}, kd.ArgumentValueError, "twice"),
        ({"block": [(1, 2, 3, 4)]}, kd.ArgumentValueError, "1 to 3 ints"),
        ({"block": [64], "tile": [[1]]}, kd.ArgumentTypeError, "constants"),
        ({"block": [64], "where": lambda c: False}, kd.ArgumentValueError, "empty"),
        ({"block": [64], "a": range(100), "b": range(100)}, kd.ArgumentValueError, "10000"),
    ],
)
def test_what_is_no_space(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        kd.Space(**options)


@pytest.mark.parametrize("name", ["values", "block_threads", "block_dim"])
def test_a_parameter_is_not_called_like_an_attribute(name: str) -> None:
    with pytest.raises(kd.ArgumentValueError, match=f"parameter '{name}'"):
        kd.Space(block=[64], **{name: [7, 8]})


def test_what_its_functions_may_not_give() -> None:
    space = kd.Space(block=[64], shared=lambda c: -1, covers=lambda c: (0,))
    with pytest.raises(kd.ArgumentValueError, match="shared= gives -1"):
        space.shared_bytes(space.members[0])
    with pytest.raises(kd.ArgumentValueError, match="covers= gives"):
        space.tile(space.members[0])


# -------------------------------------------------------------------------- the kernel


def test_forall_takes_a_member(target: NullTarget) -> None:
    x, out = kd.zeros(100_000, np.float32), kd.zeros(100_000, np.float32)
    sums.forall(x.size)(x, out)
    plan = sums.forall(x.size).plan(x, out)
    values = dict(plan.parameters)
    config = target.launches[-1].config
    assert config.block_dim == plan.block_dim == (values["block"], 1, 1)
    assert config.shared_bytes == plan.shared_bytes == 4 * values["block"]
    assert config.grid_dim[0] == -(-x.size // (values["block"] * values["items"]))
    assert plan.considered
    assert f"items {values['items']}" in plan.explain()
    sums.forall(x.size).bind(x, out)()
    assert target.launches[-1].config.grid_dim == config.grid_dim


def test_the_member_is_chosen_once_with_and_without_a_stream(
    target: NullTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, out = kd.zeros(5000, np.float32), kd.zeros(5000, np.float32)
    with kd.use("null"), kd.Stream() as stream:
        sums.forall(5000)(x, out)
        member = target.launches[-1].config.block_dim

        def never(*_: Any, **__: Any) -> Any:
            raise AssertionError("planned again")

        monkeypatch.setattr("kerneldsl.planner.choose.choose", never)
        for extent in (5000, 4999, 4900):  # of one class
            sums.forall(extent)(x, out)
            sums.forall(extent, stream=stream)(x, out)
            assert sums.forall(extent).plan(x, out).block_dim == member
            assert sums.forall(extent).plan(x, out).extent == (extent,)
        assert target.launches[-1].config.block_dim == member


def test_the_carve_out_of_the_plan_is_asked_for(target: NullTarget) -> None:
    x, out = kd.zeros(100_000, np.float32), kd.zeros(100_000, np.float32)
    plan = sums.forall(x.size).plan(x, out)
    assert plan.active_blocks is not None
    assert plan.carveout_bytes is not None
    assert plan.active_blocks > 1
    member = sums.member(**dict(plan.parameters))
    member._dispatcher.state().loaded.clear()
    sums.forall(x.size)(x, out)
    (executable,) = member._dispatcher.state().loaded.values()
    limits = DeviceOccupancyLimits.from_device(target.devices()[0])
    assert executable.carveout.percent == limits.carveout_percent(plan.carveout_bytes)


def test_so_many_extents_are_remembered(target: NullTarget) -> None:
    x, out = kd.zeros(5000, np.float32), kd.zeros(5000, np.float32)
    for extent in range(4000, 4600):
        sums.forall(extent)(x, out)
    assert len(sums._extents) <= 256
    assert len(sums._dispatcher.state().choices) <= 256


def test_blocks_of_a_member_run_together(target: NullTarget) -> None:
    x, out = kd.zeros(5000, np.float32), kd.zeros(5000, np.float32)
    sums.forall(5000, cooperative=True)(x, out)
    assert target.launches[-1].config.is_cooperative
    plan = sums.forall(5000, cluster=2).plan(x, out)
    assert plan.cluster_dim == (2, 1, 1)
    sums.forall(5000, plan=plan)(x, out)
    config = target.launches[-1].config
    assert config.cluster_dim == (2, 1, 1)
    assert config.grid_dim[0] % 2 == 0
    sums.forall(5000)(x, out)
    assert target.launches[-1].config.cluster_dim is None


def test_every_member_can_be_launched(target: NullTarget) -> None:
    x, out = kd.zeros(5000, np.float32), kd.zeros(5000, np.float32)
    plans = sums.forall(x.size).plans(x, out)
    assert len(plans) == len(SPACE)
    times = [plan.predicted_ns or 0 for plan in plans]
    assert times[0] <= 1.011 * min(times)
    for plan in plans:
        sums.forall(x.size, plan=plan)(x, out)
        config = target.launches[-1].config
        assert config.block_dim == plan.block_dim
        assert config.shared_bytes == plan.shared_bytes


def test_blocks_of_a_member_serve_what_it_covers(target: NullTarget) -> None:
    """Also where the kernel has neither shared memory nor a barrier."""

    @kd.kernel(space=kd.Space(block=[64], covers=lambda c: c.block - 2))
    def inner(x, *, block):
        i = kd.blockIdx.x * (block - 2) + kd.threadIdx.x - 1
        if 0 < kd.threadIdx.x < block - 1 and i < x.size:
            x[i] = 1

    x = kd.zeros(62 * 64, np.float32)
    inner.forall(x.size)(x)
    assert target.launches[-1].config.grid_dim == (64, 1, 1)
    assert inner.forall(x.size).plan(x).grid_dim == (64, 1, 1)


@kd.kernel(space=kd.Space(block=[64, 128, 256], bias=[1, 2]))
def shifted(x, out, *, bias):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] + bias


def test_members_of_an_element_kernel_are_mapped(target: NullTarget) -> None:
    """Blocks, mappings and members are candidates of one comparison; the best is launched."""
    n = 1 << 22
    x, out = kd.zeros(n, np.float32), kd.zeros(n, np.float32)
    plan = shifted.forall(n).plan(x, out)
    assert plan.mapping.item_count > 1
    assert dict(plan.parameters)["block"] in (64, 128, 256)
    assert plan.considered_count > 6
    for launch in (shifted.forall(n), shifted.forall(n, plan=plan)):
        launch(x, out)
        config = target.launches[-1].config
        assert (config.grid_dim, config.block_dim) == (plan.grid_dim, plan.block_dim)
    best, *others = shifted.forall(n).plans(x, out)
    assert (best.block_dim, best.mapping) == (plan.block_dim, plan.mapping)
    assert {dict(each.parameters)["bias"] for each in others} == {1, 2}


def test_a_device_that_fails_while_members_are_compared_leaves_it_to_the_cpu(
    target: NullTarget, rng: np.random.Generator
) -> None:
    @kd.kernel(space=kd.Space(block=[32, 64]))
    def doubled(x, out, *, block):
        cells = kd.shared.array(64, np.float64)
        i = kd.grid(1)
        cells[kd.threadIdx.x] = x[i] if i < x.size else 0.0
        kd.syncthreads()
        if i < out.size:
            out[i] = 2 * cells[kd.threadIdx.x]

    x, out = rng.random(100), np.full(100, np.nan)
    target.fail_next("load", null.fault("device"))
    with pytest.warns(kd.FallbackWarning):
        doubled.forall(100)(x, out)
    np.testing.assert_array_equal(out, 2 * x)


def test_members_that_no_device_can_hold_are_left_out() -> None:
    @kd.kernel(space=kd.Space(block=[64, 128], shared=lambda c: 40_000 * (c.block // 64)))
    def greedy(x):
        cells = kd.shared.array(0, np.float32)
        cells[kd.threadIdx.x] = x[kd.grid(1)]
        kd.syncthreads()
        x[kd.grid(1)] = cells[kd.threadIdx.x]

    plan = greedy.forall(1000).plan("float32[::1]", arch="sm_75")
    assert dict(plan.parameters) == {"block": 64}
    assert "1 of the 2 members cannot run there" in plan.explain()

    @kd.kernel(space=kd.Space(block=[64], shared=lambda c: 10**6))
    def hopeless(x):
        cells = kd.shared.array(0, np.float32)
        cells[kd.threadIdx.x] = x[kd.grid(1)]

    with pytest.raises(kd.ResourceLimitError, match="no member of the space"):
        hopeless.forall(1000).plan("float32[::1]", arch="sm_75")


def test_a_space_on_the_cpu(rng: np.random.Generator) -> None:
    x = rng.random(10_007).astype(np.float32)
    with kd.use("cpu"):
        member = dict(sums.forall(x.size).plan(x, x).parameters)
        blocks = -(-x.size // (member["block"] * member["items"]))
        out = np.full(blocks, np.nan, np.float32)
        sums.forall(x.size)(x, out)
    assert out.sum(dtype=np.float64) == pytest.approx(x.sum(dtype=np.float64), rel=1e-5)


def test_a_member_is_a_kernel_like_others(rng: np.random.Generator) -> None:
    x, out = rng.random(300).astype(np.float32), np.full(3, np.nan, np.float32)
    with kd.use("cpu"):
        sums.member(block=128, items=1)[3, 128, None, 512](x, out)
    assert out.sum() == pytest.approx(x.sum(), rel=1e-5)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: sums[1, 64], "not a member"),
        (lambda: sums.forall(10, block=64), "has a space"),
        (lambda: sums.member(items=1), "Give a value to each"),
        (lambda: sums.member(block=64, items=3), "no member with"),
        (lambda: sums.member(tile=3), "no member with"),
        (lambda: sums.forall(-1), "at least 0"),
    ],
)
def test_mistakes_are_told(use: Any, message: str) -> None:
    with pytest.raises((kd.LaunchConfigError, kd.ArgumentValueError), match=message):
        use()


FIRST = kd.Space(
    block=[32, 64, 128],
    width=[64, 128],
    covers=lambda c: 1,
    first=lambda c: c.block == c.width // 2,
)


@kd.kernel(space=FIRST)
def filled(x, *, width, value, number):
    """Fill a row of `width` by a block with a constant that no space has."""
    kd.syncthreads()
    for j in range(kd.threadIdx.x, width, kd.blockDim.x):
        x[kd.blockIdx.x, j] = number(value)


def test_launches_take_the_first_members_until_others_are_measured(target: NullTarget) -> None:
    for width, block in ((64, 32), (128, 64)):
        kernel = filled.member(width=width, value=1, number=np.float32)
        assert [c.block for c in kernel.space] == [32, 64, 128]
        assert [c.block for c in kernel.space.first()] == [block]
        x = kd.empty((1000, width), np.float32)
        plan = kernel.forall(1000).plan(x)
        assert (plan.block_dim, plan.grid_dim) == ((block, 1, 1), (1000, 1, 1))
        plans = kernel.forall(1000).plans(x)
        assert {each.block_dim[0] for each in plans} == {32, 64, 128}
        kernel.forall(1000)(x)
        assert kernel.forall(1000).plan(x).block_dim == (block, 1, 1)


def test_a_space_without_a_first_member_among_those_left_takes_any() -> None:
    rest = FIRST.subset(c for c in FIRST if c.block == 128)
    assert len(rest.first()) == len(rest) == 2
    everything = kd.Space(block=[32, 64])
    assert everything.first() is everything
    travelled = pickle.loads(pickle.dumps(FIRST))  # noqa: S301
    assert [str(c) for c in travelled.first()] == [str(c) for c in FIRST.first()]


def test_on_the_cpu_launches_take_the_first_member_too() -> None:
    with kd.use("cpu"):
        x = np.full((50, 128), -1, np.float32)
        kernel = filled.member(width=128, value=3, number=np.float32)
        assert kernel.forall(50).plan(x).block_dim == (64, 1, 1)
        kernel.forall(50)(x)
        assert (x == 3).all()


def test_what_is_measured_takes_the_place_of_the_first_member() -> None:
    with kd.use("cpu"):
        x = np.full((50, 64), -1, np.float32)
        launch = filled.member(width=64, value=7, number=np.float32).forall(50)
        report = launch.tune(x, budget="full", progress=False)
        assert {tried.plan.block_dim[0] for tried in report.tried} == {32, 64, 128}
        assert launch.plan(x).block_dim == report.plan.block_dim
        launch(x)
        assert (x == 7).all()


def test_parameters_that_no_space_has_are_given_by_each_launch() -> None:
    with kd.use("cpu"):
        for number, value in ((np.int32, 1), (np.int32, 2), (np.float32, 1)):
            x, y = np.zeros((20, 64), number), np.zeros((20, 64), number)
            filled.member(width=64, value=value, number=number).forall(20)(x)
            filled.member(value=value, number=number).member(width=64).forall(20)(y)
            assert (x == value).all()
            assert (y == value).all()
        z = np.zeros((20, 128))
        filled.forall(20)(z, value=5, number=np.float64)
        assert (z[:, :64] == 5).all()
    with pytest.raises(kd.ArgumentTypeError, match="'number' has no value"):
        filled.member(width=64, value=1)
    with pytest.raises(kd.ArgumentTypeError, match="'value' has no value"):
        filled.forall(20)(np.zeros((20, 64)))
    with pytest.raises(kd.ArgumentValueError, match="no member with width=3"):
        filled.member(width=3, value=1, number=np.float32)
    with pytest.raises(kd.LaunchConfigError, match="not a member"):
        _ = filled[20, 32]
    with pytest.raises(kd.LaunchConfigError, match="has a space"):
        filled.forall(20, block=32)


def test_a_kernel_whose_parameters_are_given_travels_by_name_and_members_by_value() -> None:
    assert pickle.loads(pickle.dumps(filled)) is filled  # noqa: S301
    member = filled.member(width=64, value=4, number=np.float32)
    travelled = pickle.loads(pickle.dumps(member))  # noqa: S301
    with kd.use("cpu"):
        x = np.zeros((9, 64), np.float32)
        travelled.forall(9)(x)
        assert (x == 4).all()


def test_parameters_and_space_belong_together() -> None:
    with pytest.raises(kd.ArgumentValueError, match="def bare"):

        @kd.kernel(space=kd.Space(block=[64], tile=[1]))
        def bare(x):
            x[0] = 1

    with pytest.raises(kd.ArgumentTypeError, match=r"It must be a kerneldsl\.Space"):
        kd.kernel(space=[64])
    with pytest.raises(kd.ArgumentValueError, match="Leave one of them out"):
        kd.kernel(space=SPACE, block=64)


def test_a_keyword_only_parameter_without_a_space() -> None:
    @kd.kernel
    def lost(x, *, tile):
        x[0] = tile

    with pytest.raises(kd.ArgumentTypeError, match="'tile' has no value"):
        lost.forall(1)(np.zeros(1))


def test_a_kernel_with_a_space_travels_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(sums)) is sums  # noqa: S301 - our own

    @kd.kernel(space=kd.Space(block=[32]))
    def local(x):
        x[0] = 1

    with pytest.raises(pickle.PicklingError, match="has a space"):
        pickle.dumps(local)


def test_a_member_travels_with_its_constants() -> None:
    @kd.kernel(space=kd.Space(block=[32], factor=[3, 5]))
    def stored(x, *, factor):
        x[0] = factor

    again = pickle.loads(pickle.dumps(stored.member(factor=5)))  # noqa: S301 - our own
    x = np.ones(1)
    again[1, 32](x)
    assert x[0] == 5


def test_a_parameter_is_a_constant() -> None:
    @kd.kernel(space=kd.Space(block=[32], tile=[7]))
    def assigned(x, *, tile):
        tile = 3
        x[0] = tile

    with pytest.raises(kd.UnsupportedConstructError, match="assigns to tile"):
        assigned.forall(1)(np.zeros(1))


# ------------------------------------------------------------------------ repeated launches


@kd.kernel(space=kd.Space(block=[64, 128]))
def scaled(x, out, *, block):
    cells = kd.shared.array(128, np.float64)
    i = kd.grid(1)
    if i < x.size:
        cells[kd.threadIdx.x] = x[i]
    kd.syncthreads()
    if i < x.size:
        out[i] = cells[kd.threadIdx.x] * FACTOR


FACTOR = 2.0


def _choices() -> list[Any]:
    """The members that were decided for, as the captured values are now."""
    known = scaled._dispatcher.state().choices
    return [choice for key, choice in known.items() if len(key) == 5]


@pytest.fixture
def native() -> None:
    require_native()
    scaled._remember_launches()
    scaled._dispatcher.state().choices.clear()


def test_a_repeated_launch_is_native(native: None, rng: np.random.Generator) -> None:
    x, out = rng.random(1000), np.full(1000, np.nan)
    with kd.use("cpu"):
        launch = scaled.forall(1000)
        warm_up(launch, x, out)
        assert scaled.forall(1000) is launch
        out[:] = np.nan
        with is_native(launch):
            launch(x, out)
        np.testing.assert_array_equal(out, FACTOR * x)
        with is_native(launch, expected=False):
            launch(out=out, x=x)
        with pytest.raises(kd.ArgumentTypeError, match="missing 'out'"):
            launch(x)


def test_other_kinds_of_arguments_choose_anew(native: None, rng: np.random.Generator) -> None:
    x = rng.random(1000)
    with kd.use("cpu"):
        launch = scaled.forall(1000)
        for dtype in (np.float64, np.float32, np.int16):
            given, out = (1000 * x).astype(dtype), np.full(1000, np.nan)
            with is_native(launch, expected=False):
                launch(given, out)
            np.testing.assert_array_equal(out, FACTOR * given.astype(np.float64))
            warm_up(launch, given, out)
        assert len(_choices()) == 3
        for dtype in (np.float32, np.float64, np.int16):
            given, out = (1000 * x).astype(dtype), np.full(1000, np.nan)
            with is_native(launch):
                launch(given, out)
            np.testing.assert_array_equal(out, FACTOR * given.astype(np.float64))


def test_another_captured_value_chooses_anew(
    native: None, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rng.random(1000)
    with kd.use("cpu"):
        launch = scaled.forall(1000)
        warm_up(launch, x, np.empty(1000))
        known = scaled._dispatcher.state()
        for factor in (5.0, -3.0):
            monkeypatch.setitem(globals(), "FACTOR", factor)
            for _ in range(5):
                out = np.full(1000, np.nan)
                launch(x, out)
                np.testing.assert_array_equal(out, factor * x)
            assert scaled._dispatcher.state() is not known
            assert len(_choices()) == 1


def test_another_place_chooses_anew(
    native: None, target: NullTarget, rng: np.random.Generator
) -> None:
    x, out = rng.random(1000), np.full(1000, np.nan)
    launch = scaled.forall(1000)
    with kd.use("cpu"):
        warm_up(launch, x, out)
    before = len(target.launches)
    launch(x, out)  # on the described GPU, for copies
    assert len(target.launches) == before + 1
    member = dict(launch.plan(x, out).parameters)
    assert target.launches[-1].config.block_dim == (member["block"], 1, 1)
    out[:] = np.nan
    with kd.use("cpu"), is_native(launch):
        launch(x, out)
    np.testing.assert_array_equal(out, FACTOR * x)


def test_an_active_stream_is_heeded(native: None, rng: np.random.Generator) -> None:
    x, out = rng.random(1000), np.full(1000, np.nan)
    with kd.use("cpu"), kd.Stream() as stream:
        launch = scaled.forall(1000)
        warm_up(launch, x, out)
        with stream, is_native(launch, expected=False):
            launch(x, out)
        with stream.capture() as graph:
            out[:] = np.nan
            launch(x, out)
            assert np.isnan(out).all()
        del graph
