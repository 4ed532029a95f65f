"""Each library test runs on each target that runs kernels, with NumPy and with device arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.extent import full_beyond
from tests.support.targets import require, target_names


@pytest.fixture(params=[name for name in target_names() if name != "null"])
def target(request: pytest.FixtureRequest) -> Iterator[str]:
    """Name of the target that is in use."""
    require(request.param)
    with kd.use(request.param):
        yield request.param


@pytest.fixture(params=full_beyond(["numpy", "device"], ["numpy"]))
def to_kind(request: pytest.FixtureRequest, target: str) -> Callable[[np.ndarray], Any]:
    """Function that makes the kind of array under test of a NumPy array."""
    return kd.to_device if request.param == "device" else np.asarray


@pytest.fixture
def call(to_kind: Callable[[np.ndarray], Any]) -> Callable[..., Any]:
    """Function that calls a library function on arrays of one kind and gives NumPy arrays back.

    It also holds that the result is of the arguments' kind.
    """

    def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        taken = [to_kind(a) if isinstance(a, np.ndarray) else a for a in args]
        result = function(*taken, **kwargs)
        if to_kind is kd.to_device:
            assert isinstance(result, kd.DeviceArray)
            return result.copy_to_host()
        assert isinstance(result, (np.ndarray, np.generic))
        return result

    return call
