"""Functions with tiles obey the rules of the IR; the verifier finds one that does not."""

from __future__ import annotations

import re

import pytest
from numba import types

from kerneldsl.ir.operations import Function, Value
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
from tests.support.cases import Case
from tests.support.extent import sample
from tests.support.regions.reading import before_passes
from tests.support.verifier import VerificationError, verify

_MODULES = (
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
_CASES = [case for module in _MODULES for case in module.CASES]


def _read(case: Case) -> Function:
    specialization = specialize(case.kernel, case.kinds, case.mode, block=case.block_dim)
    return before_passes(specialization)


@pytest.mark.parametrize("case", sample(_CASES, 20), ids=lambda case: case.name)
def test_tiles_obey_the_rules(case: Case) -> None:
    verify(_read(case))


def test_an_element_has_the_dtype_of_its_tile() -> None:
    (case,) = (each for each in _CASES if each.name == "tiles.softmax.128.300")
    function = _read(case)
    verify(function)
    fold = next(each for each in function.body.walk() if each.name == "tile.fold")
    region = fold.regions[0]
    region.arguments = [Value(types.int8, region)]
    for operation in region.operations:
        operation.operands = region.arguments
    with pytest.raises(VerificationError, match=re.escape("elements [int8] are not [float32]")):
        verify(function)
