"""Every float32 as an argument, against C's float64 functions; ordinary runs take a stride."""

from __future__ import annotations

import pytest

from targets.cpu.math.vector.define import FUNCTIONS as WRITTEN
from tests.support.extent import IS_QUICK, full_beyond, sample
from tests.unit.targets.cpu.math.exhaustive import worst_of_all
from tests.unit.targets.cpu.math.functions import FUNCTIONS

_NAMES = [name for name in WRITTEN if FUNCTIONS[name].arity == 1]


@pytest.mark.parametrize("name", full_beyond(_NAMES, sample(_NAMES, 1)))
@pytest.mark.parametrize(
    "stride",
    [
        4099 if IS_QUICK else 61,
        pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(3600)]),
    ],
)
def test_of_float32(name: str, stride: int) -> None:
    worst, where = worst_of_all(name, stride)
    assert worst <= FUNCTIONS[name].bounds[0] + 0.5, where
