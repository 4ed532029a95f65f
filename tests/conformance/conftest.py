"""The target that a conformance test runs on, by name or as the place where kernels run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kerneldsl as kd
from tests.support.targets import require, target_names


@pytest.fixture(params=target_names())
def target(request: pytest.FixtureRequest) -> str:
    """Name of a target that can be used here; skips, with its reason, one that cannot."""
    name: str = request.param
    require(name)
    return name


@pytest.fixture
def computing_target(target: str) -> str:
    """As `target`, without the null target, which computes nothing."""
    if target == "null":
        pytest.skip("the null target computes nothing to compare")
    return target


@pytest.fixture
def on(target: str) -> Iterator[str]:
    """Name of a target, which is where kernels run."""
    with kd.use(target):
        yield target


@pytest.fixture
def computing(computing_target: str) -> Iterator[str]:
    """The same for targets that compute."""
    with kd.use(computing_target):
        yield computing_target
