"""A fixture: each test of a module that imports it runs on a CPU and on a GPU."""

import pytest

import kerneldsl as kd
from tests.support.targets import require

__all__ = ["target"]


@pytest.fixture(autouse=True, params=["cpu", "cuda"])
def target(request):
    if request.param != "cpu":
        require(request.param)
    with kd.use(request.param):
        yield request.param
