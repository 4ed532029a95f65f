"""Tiles as the CUDA target spreads them over threads, run on the host."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance.kernels import (
    packed_tiles,
    tile_axes,
    tile_order,
    tile_scans,
    tile_sorts,
    tile_transposes,
    tiles,
    tiles_and_threads,
)
from tests.ptx.helpers import specialize
from tests.support.cases import Case, copy_arguments
from tests.support.extent import sample
from tests.support.spread_tiles import simulate_spread

#: Those whose arithmetic NumPy types as Numba does.
_WORDS = ("window", "copy", "sum", "max", "min", "any", "all")
_CASES = [
    *(case for case in tiles.CASES if case.name.split(".")[1] in _WORDS),
    *packed_tiles.CASES,
    *tile_axes.CASES,
    *tile_scans.CASES,
    *tile_sorts.CASES,
    *tiles_and_threads.CASES,
    *tile_order.CASES,
    *tile_transposes.CASES,
]


@pytest.mark.parametrize("case", sample(_CASES, 6), ids=lambda case: case.name)
def test_spread_tiles_hold_the_same_elements(case: Case) -> None:
    args = case.arguments(np.random.default_rng(3))
    expected = case.expect(args)
    specialization = specialize(case.kernel, case.kinds, case.mode, block=case.block_dim)
    for is_reversed in (False, True):
        after = copy_arguments(args)
        simulate_spread(specialization, case.grid, after, is_reversed=is_reversed)
        case.compare("cuda", after, expected)
