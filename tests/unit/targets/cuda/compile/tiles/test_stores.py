"""Functions of a store are called only for elements that the array has a place for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from targets.cuda.compile.tiles.memory import is_harmless
from tests.ptx.helpers import specialize
from tests.support.device_threads import simulate_device
from tests.support.regions.reading import before_passes


@kd.func
def _scaled(v: Any, i: Any, a: Any) -> Any:
    return v + 1 if v > a else v * a


@kd.func
def _weighted(v: Any, i: Any, a: Any) -> Any:
    return v * a[i]


@kd.func
def _counted(v: Any, i: Any, a: Any) -> Any:
    while v != a:
        v += 1
    return v + i


def scaled(x: Any, out: Any) -> None:
    kd.tile.store(out, 0, kd.tile.load(x, 0, 64, other=0.5), _scaled, 8.0)


def weighted(x: Any, out: Any) -> None:
    kd.tile.store(out, 0, kd.tile.load(x, 0, 64, other=0.5), _weighted, x)


def counted(x: Any, out: Any) -> None:
    kd.tile.store(out, 0, kd.tile.load(x, 0, 64, other=0.5), _counted, 8.0)


@pytest.mark.parametrize(
    ("kernel", "expected", "is_computed_for_all"),
    [
        (scaled, lambda x: x * 8, True),
        (weighted, lambda x: x * x, False),
        (counted, lambda x: 8 + np.arange(x.size), False),
    ],
)
def test_elements_beyond_the_array_are_not_computed(
    kernel: Callable[..., Any],
    expected: Callable[[np.ndarray], np.ndarray],
    is_computed_for_all: bool,
) -> None:
    specialization = specialize(kernel, "float64[::1], float64[::1]", block=(16, 1, 1))
    function = before_passes(specialization)
    (store,) = (each for each in function.body.walk() if each.name == "tile.store")
    assert all(map(is_harmless, store.regions[0].walk())) == is_computed_for_all
    x = np.arange(5, dtype=np.float64)
    out = np.full(5, np.nan)
    simulate_device(specialization, (1,), (x, out))  # the loop has no end for 0.5
    np.testing.assert_array_equal(out, expected(x))
