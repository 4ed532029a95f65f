"""The target that a conformance test runs on."""

from __future__ import annotations

import pytest

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
