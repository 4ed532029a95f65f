"""Explanations of the kernels of the conformance suite: what must hold of every one."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from tests.conformance.kernels import CASES
from tests.support.extent import IS_QUICK

_STEP = 307 if IS_QUICK else 11


@pytest.mark.parametrize("case", CASES[::_STEP], ids=lambda case: case.name)
def test_counts_are_within_bounds(case):
    arguments = case.arguments(np.random.default_rng(0))
    options = {"arch": "sm_90", "occupancy": False}
    if case.extent is not None:
        found = case.kernel.explain(*arguments, forall=case.extent, **options)
        threads = math.prod(case.extent)
    else:
        shape = {"block": case.block, "grid": case.grid, "shared_bytes": case.shared_bytes}
        found = case.kernel.explain(*arguments, **shape, **options)
        threads = math.prod(found.block_dim) * math.prod(found.grid_dim)
    assert 0 <= found.lanes_at_work <= 1
    for access in found.accesses:
        assert access.requests > 0 or access.is_tile  # which may lie beside its array
        each = access.itemsize if access.is_bytewise else 1
        assert access.requests <= each * access.threads * (1 + 1e-9)
        assert access.threads <= 32 * access.requests * (1 + 1e-9)
        assert access.needed_bytes <= 32 * access.sectors * (1 + 1e-9)
        assert access.least_wavefronts <= access.wavefronts * (1 + 1e-9)
        loops = any(branch.is_loop for branch in found.branches)
        is_called = access.where.function != found.kernel  # as often as it is
        most = math.inf if loops or is_called or access.is_tile else threads * (1 + 1e-9)
        assert access.threads <= most, access.text
    for array in found.arrays:
        assert array.read_bytes >= 0
        assert array.written_bytes >= 0
    assert json.loads(json.dumps(found.to_dict()))["kernel"] == found.kernel
    assert str(found).startswith(found.kernel)
