"""Tiles as the code of the region IR computes them, in simulated threads of a block."""

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
    tile_tuples,
    tiles,
    tiles_and_threads,
)
from tests.ptx.helpers import specialize
from tests.support.cases import Case, copy_arguments
from tests.support.device_threads import simulate_device
from tests.support.extent import sample

_CASES = [
    *tiles.CASES,
    *packed_tiles.CASES,
    *tile_axes.CASES,
    *tile_scans.CASES,
    *tile_sorts.CASES,
    *tiles_and_threads.CASES,
    *tile_order.CASES,
    *tile_transposes.CASES,
    *tile_tuples.CASES,
]


@pytest.mark.parametrize("case", sample(_CASES, 12), ids=lambda case: case.name)
def test_threads_compute_the_same_elements(case: Case) -> None:
    args = case.arguments(np.random.default_rng(3))
    expected = case.expect(args)
    specialization = specialize(case.kernel, case.kinds, case.mode, block=case.block_dim)
    for is_reversed in (False, True):
        after = copy_arguments(args)
        simulate_device(specialization, case.grid, after, is_reversed=is_reversed)
        case.compare("cuda", after, expected)
