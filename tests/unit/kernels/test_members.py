"""Members of a space: they know their block, their shared memory and what a block serves."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.tools.cli import app
from targets import null
from targets.null.target import NullTarget
from tests.support.extent import sample
from tests.unit.kernels.test_spaces import shifted, sums

pytestmark = pytest.mark.usefixtures("own_modules")

SIGNATURE = "float32[::1], float32[::1]"


@pytest.fixture
def target() -> Iterator[NullTarget]:
    with null.described_as(null.H100) as described, kd.use("null"):
        yield described


# --------------------------------------------------------------------------- launches


def test_a_launch_with_the_block_of_another_member_is_an_error() -> None:
    x, out = np.ones(4096, np.float32), np.zeros(32, np.float32)
    with (
        kd.use("cpu"),
        pytest.raises(kd.LaunchConfigError, match=r"the block \(128, 1, 1\)") as told,
    ):
        sums.member(block=64, items=1)[32, 128, 0, 512](x, out)
    assert "(64, 1, 1)" in str(told.value)
    assert not out.any()
    with kd.use("cpu"):
        sums.member(block=128, items=1)[32, 128, 0, 512](x, out)
    assert out.sum() == 4096


@pytest.mark.parametrize(
    "launch",
    [
        lambda member, n: member.forall(n),
        lambda member, n: member.forall(n, block=64),
        lambda member, n: member.forall(n, block=(64, 1)),
        lambda member, n: member[-(-n // 256), 64],
    ],
)
def test_a_member_keeps_block_shared_bytes_and_covers(launch: Any, target: NullTarget) -> None:
    """A block of this one has 64 threads and 256 bytes, and serves 256 indices."""
    x, out = kd.zeros(5000, np.float32), kd.zeros(5000, np.float32)
    launch(sums.member(block=64, items=4), x.size)(x, out)
    config = target.launches[-1].config
    assert (config.grid_dim, config.block_dim) == ((20, 1, 1), (64, 1, 1))
    assert config.shared_bytes == 256


def test_forall_of_a_member_computes_what_its_space_does(rng: np.random.Generator) -> None:
    x = rng.random(10_007).astype(np.float32)
    with kd.use("cpu"):
        for member in sample([*sums.space], 2):
            blocks = -(-x.size // (member.block * member.items))
            out = np.full(blocks, np.nan, np.float32)
            sums.member(**dict(member.values)).forall(x.size)(x, out)
            assert out.sum(dtype=np.float64) == pytest.approx(x.sum(dtype=np.float64), rel=1e-5)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda m: m.forall(100, block=128), r"the block \(128, 1, 1\)"),
        (lambda m: m[1, (8, 8)], r"the block \(8, 8, 1\)"),
        (lambda m: m.forall(100, shared_bytes=128), "shared_bytes 128"),
        (lambda m: m[1, 64, None, 128], "shared_bytes 128"),
        (lambda m: m.ptx(SIGNATURE, block=128, arch="sm_90"), r"the block \(128, 1, 1\)"),
        (lambda m: m.launched(SIGNATURE, extent=(9,), block=128), r"the block \(128, 1, 1\)"),
    ],
)
def test_what_contradicts_the_member_is_an_error(use: Any, message: str) -> None:
    with pytest.raises(kd.LaunchConfigError, match=message):
        use(sums.member(block=64, items=1))


def test_more_shared_memory_may_be_asked_for(target: NullTarget) -> None:
    x, out = kd.zeros(500, np.float32), kd.zeros(500, np.float32)
    for launch in (
        sums.member(block=64, items=1).forall(500, shared_bytes=1024),
        sums.member(block=64, items=1)[8, 64, None, 1024],
    ):
        launch(x, out)
        assert target.launches[-1].config.shared_bytes == 1024


def test_constants_that_leave_the_block_open_leave_it_to_the_planner(target: NullTarget) -> None:
    n = 1 << 22
    x, out = kd.zeros(n, np.float32), kd.zeros(n, np.float32)
    biased = shifted.member(bias=2)
    shifted.forall(n)(x, out)
    for _ in range(2):
        plan = biased.forall(n).plan(x, out)
        biased.forall(n)(x, out)
        assert dict(plan.parameters)["bias"] == 2
        assert target.launches[-1].config.block_dim == plan.block_dim
    assert {p.block_dim[0] for p in biased.forall(n).plans(x, out)} == {64, 128, 256}
    biased[n // 64, 64](x, out)
    with pytest.raises(kd.LaunchConfigError, match="was given the block"):
        biased[n // 32, 32]
    with pytest.raises(kd.LaunchConfigError, match="no block"):
        biased.forall(n, shared_bytes=8)


def test_a_plan_is_taken_only_of_a_member(target: NullTarget) -> None:
    x, out = kd.zeros(5000, np.float32), kd.zeros(5000, np.float32)
    plan = sums.forall(x.size).plan(x, out)
    member = sums.member(**dict(plan.parameters))
    own = member.forall(x.size).plan(x, out)
    assert own.parameters == plan.parameters
    for each in (plan, own):
        member.forall(x.size, plan=each)(x, out)
        assert target.launches[-1].config.block_dim == plan.block_dim
    (other, *_) = (m for m in sums.space if m.values != plan.parameters)
    refused = [
        (sums.member(**dict(other.values)), plan),
        (sums, replace(plan, block_dim=(32, 1, 1))),
        (sums, shifted.forall(x.size).plan(x, out)),
    ]
    for kernel, wrong in refused:
        with pytest.raises(kd.LaunchConfigError, match="was given a plan of"):
            kernel.forall(x.size, plan=wrong)


# ------------------------------------------------------------------------- inspection


def test_the_code_of_the_member_with_the_block_is_shown() -> None:
    @kd.kernel(space=kd.Space(block=[64, 128]))
    def marked(x, *, block):
        if kd.threadIdx.x == 0:
            x[kd.blockIdx.x] = 12_345 + block

    for block in (64, 128):
        text = marked.ptx("int64[::1]", block=block, arch="sm_90")
        assert str(12_345 + block) in text
        assert str(12_345 + 192 - block) not in text
        assert marked.member(block=block).ptx("int64[::1]", arch="sm_90") == text
        _, found = marked.specialization("int64[::1]", block=block, target="cpu")
        assert found.block_dim in (None, (block, 1, 1))


@pytest.mark.parametrize("options", [{}, {"block": 64}])
def test_code_of_several_members_is_not_one_of_them(options: Any) -> None:
    with pytest.raises(kd.ArgumentValueError, match=r"sums\.member\(block=…, items=…\)"):
        sums.ptx(SIGNATURE, arch="sm_90", **options)
    with pytest.raises(kd.ArgumentValueError, match="no member with block=96"):
        sums.ptx(SIGNATURE, arch="sm_90", block=96)


def test_the_cpu_compiles_for_the_members_block() -> None:
    _, found = sums.member(block=64, items=2).specialization(SIGNATURE, target="cpu")
    assert found.block_dim == (64, 1, 1)


def call(*arguments: object) -> object:
    with pytest.raises(SystemExit) as ended:
        app.run([str(each) for each in arguments])
    return ended.value.code


def test_the_parameter_file_names_the_member(tmp_path: Path) -> None:
    source = tmp_path / "marked.py"
    source.write_text(
        "import kerneldsl as kd\n\n"
        "@kd.kernel(space=kd.Space(block=[64, 128], shared=lambda c: 4 * c.block,\n"
        "                          covers=lambda c: 2 * c.block))\n"
        "def marked(x, *, block):\n"
        "    x[kd.blockIdx.x] = block\n"
    )
    output = tmp_path / "marked.ptx"
    arguments = "compile", f"{source}:marked", "-s", "int64[::1]", "-a", "sm_90"
    assert call(*arguments, "--block", "128", "-o", output) == 0
    told = output.with_name("marked.ptx.params.txt").read_text()
    assert "member      block=128: block_dim (128, 1, 1), shared_bytes 512" in told
    assert "(256, 1, 1) indices" in told
    assert call(*arguments, "--block", "96", "-o", output) == 2
    assert call(*arguments, "-o", output) == 2


def test_the_report_names_the_member(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = tmp_path / "plain.py"
    source.write_text(
        "import kerneldsl as kd\n\n@kd.kernel(space=kd.Space(block=[64]))\n"
        "def marked(x):\n    x[kd.blockIdx.x] = 1\n"
    )
    arguments = "compile", f"{source}:marked", "-s", "int64[::1]", "-a", "sm_90", "--json"
    assert call(*arguments) == 0
    (member,) = json.loads(capsys.readouterr().out)["members"]
    assert member["parameters"] == {"block": 64}
    assert member["block_dim"] == [64, 1, 1]


# ------------------------------------------------------------------------------ values


def test_members_are_the_same_objects_and_name_themselves() -> None:
    member = sums.member(block=64, items=2)
    assert sums.member(block=(64, 1, 1), items=2) is member
    assert sums.member(block=128, items=2) is not member
    assert repr(member).startswith("<member block=64, items=2 of kernel ")


def test_a_member_knows_its_block_where_it_arrives() -> None:
    @kd.kernel(
        space=kd.Space(block=[32, 64], shared=lambda c: 8 * c.block, covers=lambda c: 2 * c.block)
    )
    def local(x, *, block):
        cells = kd.shared.array(0, np.float64)
        cells[kd.threadIdx.x] = block
        kd.syncthreads()
        x[kd.blockIdx.x] = cells[kd.threadIdx.x]

    again: Any = pickle.loads(pickle.dumps(local.member(block=64)))  # noqa: S301 - our own
    with kd.use("cpu"):
        x = np.zeros(3)
        again.forall(300)(x)
        assert x.tolist() == [64, 64, 64]
    with pytest.raises(kd.LaunchConfigError, match="the block"):
        again[1, 32]


@kd.kernel(space=kd.Space(block=[32, 64], items=[1, 2]))
def of_a_space(x, n, *, items):
    i = kd.grid(1)
    if i < n:
        x[i] = items


@kd.kernel
def of_none(x, n):
    i = kd.grid(1)
    if i < n:
        x[i] = 1


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ((), {}),
        ((np.zeros(8),), {}),
        ((np.zeros(8), 8, 9), {}),
        ((np.zeros(8), "a"), {}),
        (([1.0], 8), {}),
        ((np.zeros(8),), {"m": 3}),
        ((np.zeros(8), 8), {"items": 2}),
    ],
)
@pytest.mark.parametrize("target", ["cpu", "null"])
def test_arguments_are_checked_as_those_of_a_kernel_without_a_space(target, args, named):
    member = of_a_space.member(block=32, items=1)
    launches = of_a_space.forall(8), member.forall(8), member[1, 32], of_a_space.forall(0)
    with kd.use(target):
        with pytest.raises(kd.ArgumentTypeError) as plain:
            of_none.forall(8)(*args, **named)
        for launch in launches:
            for call in (launch, launch.bind, launch.plan):
                with pytest.raises(kd.ArgumentTypeError) as info:
                    call(*args, **named)
                expected = str(plain.value).replace("of_none", "of_a_space")
                assert str(info.value) == expected
