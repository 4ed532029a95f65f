"""One launch is followed through its steps."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, FunctionType
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.kernels import launches
from kerneldsl.launch.artifact import find_artifact
from kerneldsl.launch.configuration import configure
from kerneldsl.launch.decision import decide
from kerneldsl.launch.pipeline import load
from kerneldsl.launch.request import make_request
from kerneldsl.launch.specialize import make_specialization

#: Every function in which something is made for a launch, in the order of the steps.
STEPS = (make_request, decide, make_specialization, find_artifact, load, configure)


@contextmanager
def entered() -> Iterator[list[str]]:
    """The names of the steps that are entered within the block, in order."""
    names = {_code(step): step.__name__ for step in STEPS}
    found: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in names:
            found.append(names[frame.f_code])

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)


def _code(step: Callable[..., Any]) -> Any:
    assert isinstance(step, FunctionType)
    return step.__code__


def _element() -> Any:
    @kd.kernel
    def fill(x):
        i = kd.grid(1)
        if i < x.size:
            x[i] = 1.0

    return fill


def _block() -> Any:
    @kd.kernel
    def fill(x):
        kd.syncthreads()
        x[kd.threadIdx.x] = 1.0

    return fill


def _member() -> Any:
    @kd.kernel(space=kd.Space(block=[32], covers=lambda c: 2 * c.block))
    def fill(x, *, block):
        kd.syncthreads()
        x[2 * block * kd.blockIdx.x + kd.threadIdx.x] = 1.0

    return fill


@pytest.fixture(autouse=True)
def by_way_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches are not repeated by native code, whatever other tests have made of it."""
    for name in ("_LAUNCHES_BEFORE_TABLE", "_LAUNCHES_BEFORE_NATIVE"):
        monkeypatch.setattr(launches, name, sys.maxsize)


@pytest.fixture(params=["cpu", "null"])
def x(request: pytest.FixtureRequest) -> Iterator[Any]:
    with kd.use(request.param):
        yield kd.zeros(64, np.float32)


def _launches(x: Any) -> dict[str, Callable[[], Any]]:
    element, block, member = _element(), _block(), _member()
    return {
        "forall": lambda: element.forall(64, block=32)(x),
        "explicit": lambda: element[2, 32](x),
        "block": lambda: block[1, 64](x),
        "space": lambda: member.forall(64)(x),
    }


@pytest.mark.parametrize("form", ["forall", "explicit", "block", "space"])
def test_a_first_launch_enters_each_step_once_and_in_order(form: str, x: Any) -> None:
    launch = _launches(x)[form]
    with entered() as first:
        launch()
    assert first == [step.__name__ for step in STEPS]
    with entered() as second:
        launch()
    assert second == ["make_request"]


def test_another_extent_is_configured_alone_where_nothing_is_planned() -> None:
    fill, x = _element(), np.zeros(64)
    with kd.use("cpu"), entered() as found:
        fill.forall(64)(x)
        found.clear()
        fill.forall(63)(x)
    assert found == ["make_request", "configure"]


def test_a_plan_of_a_launch_that_was_made_finds_what_it_needs(x: Any) -> None:
    fill = _element()
    fill.forall(64)(x)
    with entered() as found:
        fill.forall(64).plan(x)
    assert found[:1] == ["make_request"]
    assert not {"make_specialization", "load"} & set(found)


def test_binding_makes_all_that_a_launch_needs(x: Any) -> None:
    fill = _element()
    with entered() as found:
        launch = fill.forall(64).bind(x)
    assert [name for name in found if name != "make_request"] == [
        step.__name__ for step in STEPS[1:]
    ]
    with entered() as later:
        launch()
    assert set(later) <= {"make_request"}


def test_a_plan_of_a_signature_makes_what_a_launch_takes() -> None:
    fill, x = _element(), np.zeros(64)
    with kd.use("cpu"):
        fill.forall(64).plan("float64[::1]")
        with entered() as found:
            fill.forall(64)(x)
    assert found == ["make_request"]
