"""Plans for devices that are not there, of a space on the CPU, and as an interpreter shows them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.launch import describe
from kerneldsl.planner.candidates import Choice

SIGNATURE = "float32[::1], float32[::1]"


@kd.kernel
def scale(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]


@kd.kernel(space=kd.Space(block=[64, 128, 2048], items=[1, 2], where=lambda c: c.items < 9))
def spaced(x, out, *, items):
    i = kd.grid(1)
    if i < out.size:
        out[i] = items * x[i]


SCOPE = {
    each.__name__: each
    for each in (kd.LaunchPlan, kd.PlanAlternative, kd.ElementMapping, kd.HostShare)
}


@pytest.mark.parametrize("where", [{"arch": "sm_80"}, {"device": "null"}])
def test_every_plan_for_a_device_that_is_not_there(where: dict[str, str]) -> None:
    launch = scale.forall(1 << 20)
    plans, taken = launch.plans(SIGNATURE, **where), launch.plan(SIGNATURE, **where)
    assert len(plans) == taken.considered_count > 1
    assert {(plan.device, plan.arch) for plan in plans} == {(taken.device, taken.arch)}
    assert (taken.block_dim, taken.mapping) in {(p.block_dim, p.mapping) for p in plans}
    times = [plan.predicted_ns or 0 for plan in plans]
    assert times[0] <= 1.011 * min(times)
    assert max(times) > 1.1 * times[0]


def test_the_plans_of_a_space_on_the_cpu_are_its_members() -> None:
    x = np.ones(1000, np.float32)
    out = np.zeros_like(x)
    with kd.use("cpu"):
        launch = spaced.forall(x.size)
        plans = launch.plans(x, out)
        assert [dict(plan.parameters) for plan in plans[:1]] == [
            dict(launch.plan(x, out).parameters)
        ]
        # A block of 2048 threads cannot run.
        found = sorted((p.block_dim[0], dict(p.parameters)["items"]) for p in plans)
        assert found == [(64, 1), (64, 2), (128, 1), (128, 2)]
        for plan in plans:
            spaced.forall(x.size, plan=plan)(x, out)
            assert (out == dict(plan.parameters)["items"]).all()


def shown() -> list[kd.LaunchPlan]:
    x = np.ones(1000, np.float32)
    with kd.use("cpu"):
        here = scale.forall(1000).plan(x, np.zeros_like(x))
    return [
        here,
        scale.forall(1 << 20).plan(SIGNATURE, arch="sm_90"),
        scale[10, 128].plan(SIGNATURE, arch="sm_90"),
        spaced.forall(1000).plan(SIGNATURE, arch="sm_90"),
    ]


def test_the_repr_of_a_plan_can_be_read_by_a_person_and_by_python() -> None:
    for plan in shown():
        text = repr(plan)
        head, *lines, end = text.splitlines()
        assert head == f"LaunchPlan(  # {plan}"
        assert end == ")"
        assert all(len(line) < 240 for line in lines)
        assert all(len(line) <= 100 for line in lines if line.count("=") > 8)
        # What has its default says nothing.
        assert "None" not in text.replace("extent=None", "")
        assert "notes=()" not in text
        again = eval(text, dict(SCOPE))  # noqa: S307 -- that is what is promised
        assert again == plan
        assert repr(again) == text


def test_devices_are_shown_as_a_table() -> None:
    found = kd.devices("null") + kd.devices("cpu")
    assert isinstance(kd.devices("null"), tuple)
    assert [str(each) for each in found] == [
        *(str(each) for each in kd.devices("null")),
        "cpu",
    ]
    head, row = repr(kd.devices("cpu")).splitlines()
    assert head.split() == ["device", "name", "kind", "arch", "processors", "bandwidth", "memory"]
    assert row.startswith("cpu ")
    assert kd.devices("cpu")[0].name in row
    assert "<table>" in kd.devices("cpu")._repr_html_()
    again = pickle.loads(pickle.dumps(kd.devices("cpu")))  # noqa: S301 -- our own
    assert [each.name for each in again] == [each.name for each in kd.devices("cpu")]


@kd.kernel
def doubled(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] * 2


def test_a_plan_for_another_kind_of_device_is_refused():
    x, out = np.ones(1000), np.full(1000, np.nan)
    of_gpu = doubled.forall(1000).plan("f8[::1], f8[::1]", arch="sm_90")
    with kd.use("cpu"):
        of_cpu = doubled.forall(1000).plan(x, out)
        with pytest.raises(kd.LaunchConfigError, match=r"a plan for sm_90.* launch on cpu"):
            doubled.forall(1000, plan=of_gpu)(x, out)
        assert np.isnan(out).all()
        doubled.forall(1000, plan=of_cpu)(x, out)
        assert (out == 2).all()
    with kd.use("null"):
        doubled.forall(1000, plan=of_gpu)(x, out)
        with pytest.raises(kd.LaunchConfigError, match="a plan for cpu was given to a launch on"):
            doubled.forall(1000, plan=of_cpu)(x, out)


def test_a_plan_that_was_recorded_for_a_member_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """No member was compiled to choose it."""

    @kd.kernel(space=kd.Space(block=[64, 128], items=[1, 2], covers=lambda c: c.block * c.items))
    def halve(x, *, block, items):
        for k in range(items):
            i = (kd.blockIdx.x * items + k) * block + kd.threadIdx.x
            if i < x.size:
                x[i] *= np.float32(0.5)

    with kd.use("null:0"):
        x = kd.empty(1 << 20, np.float32)
        launch = halve.forall(x.size)
        first = launch.plan(x)
        decide, wanted = describe.make_choice, {"block": 128, "items": 2}

        def recorded(request: Any) -> Any:
            (last,) = (m for m in request.shape.space if dict(m.values) == wanted)
            candidate = decide(request).candidate
            return Choice(candidate._replace(block_dim=last.block_dim, member=last), {})

        monkeypatch.setattr(describe, "make_choice", recorded)
        shown = launch.plan(x)
    assert dict(shown.parameters) == wanted
    assert shown.block_dim == (128, 1, 1)
    assert set(dict(first.parameters)) == {"block", "items"}
