"""Indices of as many axes as the extent has; numba.cuda's ``forall(tasks, threads)`` is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from targets import null


@kd.func
def place():
    return kd.grid(1)


@kd.kernel
def one(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] += 1


@kd.kernel
def by_function(x):
    i = place()
    if i < x.size:
        x[i] += 1


@kd.kernel
def strided(x):
    i = kd.blockIdx.x * kd.blockDim.x + kd.threadIdx.x
    while i < x.size:
        x[i] += 1
        i += kd.gridsize(1)


@kd.kernel
def two(x):
    i, j = kd.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        x[i, j] += 1


@kd.kernel
def three(x):
    i, j, k = kd.grid(3)
    kd.atomic.add(x, 0, i + j + k)


@kd.kernel
def both(x):
    i = kd.grid(1)
    j, k = kd.grid(2)
    if i + j + k == 0:
        x[0] += 1


@kd.kernel
def neither(x):
    kd.atomic.add(x, 0, 1)


@kd.kernel(block=32)
def barrier(x):
    cells = kd.shared.array(32, np.float64)
    i = kd.grid(1)
    cells[kd.threadIdx.x] = i
    kd.syncthreads()
    if i < x.size:
        x[i] = cells[kd.threadIdx.x]


@kd.kernel(space=kd.Space(block=[32, 64]))
def spaced(x, *, block):
    i = kd.grid(1)
    if i < x.size:
        x[i] = block


@pytest.fixture(params=["cpu", "null"], autouse=True)
def target(request: pytest.FixtureRequest) -> Iterator[None]:
    with null.described_as(null.H100), kd.use(request.param):
        yield


def _show(kernel: Any) -> str:
    member = kernel.member(block=32) if kernel is spaced else kernel
    return str(member.ptx("float64[::1]", arch="sm_90", forall=2))


USES = {
    "launch": lambda kernel, x: kernel.forall(1000, 128)(x),
    "plan": lambda kernel, x: kernel.forall(1000, 128).plan(x),
    "bind": lambda kernel, x: kernel.forall(1000, 128).bind(x),
    "empty": lambda kernel, x: kernel.forall(0, 128)(x),
    "ptx": lambda kernel, x: _show(kernel),
}


@pytest.mark.parametrize("kernel", [one, by_function, strided, barrier, spaced], ids=repr)
@pytest.mark.parametrize("how", USES)
def test_one_index_under_an_extent_of_two_axes(kernel: Any, how: str) -> None:
    x = np.zeros(1000)
    with pytest.raises(kd.LaunchConfigError) as told:
        USES[how](kernel, x)
    text = str(told.value)
    assert ("kd.gridsize(1)" if kernel is strided else "kd.grid(1)") in text
    if how in ("launch", "plan", "bind"):
        assert "the extent (1000, 128)" in text
        assert "forall(1000, block=128)" in text
    assert "kd.grid(2)" in text
    assert "test_extent_rank.py" in text
    assert not x.any()


@pytest.mark.parametrize(
    ("kernel", "extent", "remedy"),
    [
        (one, (2, 3, 4), "one.forall(n)"),
        (two, (10,), "two.forall(n0, n1), or call kd.grid(1)"),
        (two, (2, 3, 4), "call kd.grid(3)"),
        (three, (5,), "three.forall(n0, n1, n2)"),
        (three, (5, 5), "call kd.grid(2)"),
        (both, (5,), "both[grid, block]"),
        (both, (5, 5), "both[grid, block]"),
    ],
)
def test_other_numbers_of_axes(kernel: Any, extent: tuple[int, ...], remedy: str) -> None:
    x = np.zeros((4, 4) if kernel is two else 4)
    with pytest.raises(kd.LaunchConfigError) as told:
        kernel.forall(*extent)(x)
    assert str(extent) in str(told.value)
    assert remedy in str(told.value)
    assert not x.any()


def test_the_place_is_that_of_the_call_in_a_device_function() -> None:
    with pytest.raises(kd.LaunchConfigError) as told:
        by_function.forall(4, 4)(np.zeros(4))
    assert "in place" in str(told.value)
    assert "return kd.grid(1)" in str(told.value)


def test_what_fits_is_launched(target: None) -> None:
    """On the null target, what is recorded; see below for results."""
    flat, image = kd.zeros(30), kd.zeros((5, 6))
    for launch, array in (
        (one.forall(30), flat),
        (by_function.forall(30, block=8), flat),
        (two.forall(5, 6), image),
        (neither.forall(30, 2), flat),
        (spaced.forall(30), flat),
        (both[1, 1], flat),
        (one[(2, 2), (8, 1)], flat),
    ):
        kd.reset_stats()
        launch(array)
        assert kd.stats().launches == 1


def test_bodies_run_once_for_each_index() -> None:
    with kd.use("cpu"):
        flat, image = np.zeros(30), np.zeros((5, 6))
        one.forall(30)(flat)
        two.forall(5, 6)(image)
        assert (flat == 1).all()
        assert (image == 1).all()
        for extent, count in (((4,), 4), ((4, 5), 20), ((2, 3, 4), 24)):
            total = np.zeros(1)
            neither.forall(*extent)(total)
            assert total[0] == count
