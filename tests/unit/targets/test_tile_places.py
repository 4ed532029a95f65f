"""Places in sorted tiles: rows with equal elements, NaN of both signs, zeros and extremes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import kerneldsl as kd
from tests.ptx.helpers import specialize
from tests.support.cases import kind_of
from tests.support.device_threads import simulate_device
from tests.support.extent import examples, full_beyond
from tests.support.tiles import places_in_order

_SPECIAL = {
    "float32": [np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1.5, -1.5, 1e-45],
    "float64": [np.nan, -np.nan, 0.0, -0.0, np.inf, 2.0**-1074, 1.0, 1.0 + 2.0**-52, -1.0],
    "int64": [-(2**63), 2**63 - 1, 0, 1, 2**32, 2**32 + 1, -1, -(2**32)],
    "uint8": [0, 1, 255],
}


@cache
def _ordering(rows: int, columns: int) -> Any:
    @kd.kernel
    def ordering(x, y, places):
        t = kd.tile.load(x, (0, 0), (rows, columns))
        order = t.argsort()
        kd.tile.store(places, (0, 0), order)
        kd.tile.store(y, (0, 0), t.take(order))

    return ordering


@pytest.mark.parametrize("dtype", full_beyond(_SPECIAL, ["uint8", "float32"]))
@pytest.mark.parametrize("shape", full_beyond([(1, 61), (3, 20), (2, 49)], [(3, 20)]))
@settings(max_examples=examples(10), deadline=None)
@given(data=st.data())
def test_places_are_those_of_a_stable_sort(
    dtype: str, shape: tuple[int, int], data: st.DataObject
) -> None:
    rows, columns = shape
    x = data.draw(arrays(dtype, (rows, columns), elements=st.sampled_from(_SPECIAL[dtype])))
    expected = np.stack([places_in_order(row) for row in x])
    taken = np.take_along_axis(x, expected, -1)
    kernel, block = _ordering(rows, columns), 7
    args = x, np.empty_like(x), np.full(x.shape, -1)
    with kd.use("cpu"):
        kernel[1, block](*args)
    for found, wanted in zip(args[1:], (taken, expected), strict=True):
        assert found.tobytes() == wanted.tobytes()
    spread = x, np.empty_like(x), np.full(x.shape, -1)
    kinds = tuple(map(kind_of, spread))
    simulate_device(specialize(kernel, kinds, block=(block, 1, 1)), (1,), spread)
    for found, wanted in zip(spread[1:], (taken, expected), strict=True):
        assert found.tobytes() == wanted.tobytes()
