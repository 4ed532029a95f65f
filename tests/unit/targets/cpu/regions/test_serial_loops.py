"""Loops of one thread in which an iteration reads what an earlier one has written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd

_SIZE = 40


def doubled(x, y):
    if kd.grid(1) == 0:
        for i in range(1, x.size):
            y[i] = x[i - 1] * 2 + 1


def doubled_while(x, y):
    if kd.grid(1) == 0:
        i = 1
        while i < x.size:
            y[i] = x[i - 1] * 2 + 1
            i += 1


def doubled_by_the_last(x, y):
    if kd.grid(1) == kd.gridsize(1) - 1:
        for i in range(1, x.size):
            y[i] = x[i - 1] * 2 + 1


@pytest.mark.parametrize("distance", [0, 1, 3, _SIZE])
@pytest.mark.parametrize("function", [doubled, doubled_while, doubled_by_the_last])
def test_iterations_of_one_thread_are_in_order(
    function: Callable[..., None], distance: int
) -> None:
    expected = np.arange(2 * _SIZE)
    for i in range(1, _SIZE):
        expected[distance + i] = expected[i - 1] * 2 + 1
    kernel = kd.kernel(function)
    launches: tuple[Any, ...] = (kernel[1, 1], kernel[1, 64], kernel.forall(1), kernel.forall(9))
    for launch in launches:
        memory = np.arange(2 * _SIZE)
        with kd.use("cpu"):
            launch(memory[:_SIZE], memory[distance : distance + _SIZE])
        np.testing.assert_array_equal(memory, expected)
