"""Every float32 as an argument, against C's float64 functions; a quick run takes a stride."""

from __future__ import annotations

import pytest

from targets.cpu.vector_math.define import FUNCTIONS as WRITTEN
from tests.support.extent import IS_QUICK, full_beyond, sample
from tests.unit.targets.cpu.vector_math.exhaustive import worst_of_all
from tests.unit.targets.cpu.vector_math.functions import FUNCTIONS

_STRIDE = 4099 if IS_QUICK else 1
_NAMES = [name for name in WRITTEN if FUNCTIONS[name].arity == 1]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", full_beyond(_NAMES, sample(_NAMES, 6)))
def test_of_float32(name: str) -> None:
    worst, where = worst_of_all(name, _STRIDE)
    assert worst <= FUNCTIONS[name].bounds[0] + 0.5, where
