"""Two devices in one process."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import DeviceMismatchError
from tests.support.arrays import assert_same_bits


@kd.kernel
def add(x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@pytest.fixture(autouse=True)
def _two_devices() -> None:
    count = len(kd.devices("cuda"))
    if count < 2:
        pytest.skip(f"two CUDA devices are needed, {count} is visible")


def test_arguments_decide_where_a_kernel_runs() -> None:
    x = np.arange(1000.0)
    for index in (1, 0, 1):
        device = f"cuda:{index}"
        with kd.use(device):
            ours = kd.to_device(x)
            out = kd.zeros_like(ours)
            add.forall(x.size)(ours, ours, out)
        assert str(out.device) == device
        assert_same_bits(out.copy_to_host(), x + x, device)


def test_arrays_of_two_devices_are_refused() -> None:
    first = kd.to_device(np.ones(4), device="cuda:0")
    second = kd.to_device(np.ones(4), device="cuda:1")
    with pytest.raises(DeviceMismatchError, match=r"cuda:0[\s\S]*cuda:1|cuda:1[\s\S]*cuda:0"):
        add.forall(4)(first, first, second)


def test_an_active_use_that_contradicts_is_refused() -> None:
    second = kd.to_device(np.ones(4), device="cuda:1")
    with pytest.raises(DeviceMismatchError, match="cuda:1"):
        add.forall(4)(second, second, second)
