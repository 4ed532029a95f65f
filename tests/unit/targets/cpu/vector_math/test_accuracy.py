"""Each function is within the guide's bound everywhere, with the special results of IEEE 754."""

from __future__ import annotations

import numpy as np
import pytest

from targets.cpu.vector_math.define import FUNCTIONS as WRITTEN
from tests.support.extent import examples
from tests.unit.targets.cpu.vector_math.functions import (
    FUNCTIONS,
    edges,
    is_close_enough,
    results,
    sampled,
)

KINDS = {"float": "float32", "double": "float64"}
WRITTEN_KINDS = [(name, KINDS[kind]) for name, kinds in WRITTEN.items() for kind in kinds]


def _exact(name: str, x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return FUNCTIONS[name].exact(x.astype(np.longdouble))


@pytest.mark.parametrize(("name", "dtype"), WRITTEN_KINDS)
def test_of_samples(name: str, dtype: str) -> None:
    function, kind = FUNCTIONS[name], np.dtype(dtype)
    x = sampled(function, kind, examples(1_000_000), np.random.default_rng())
    got, exact = results(function, x), _exact(name, x)
    wrong = ~is_close_enough(got, exact, function.bounds[kind.itemsize > 4])
    shown = [(a, b, c) for a, b, c in zip(x[wrong], got[wrong], exact[wrong], strict=True)]
    assert not wrong.any(), shown[:8]


@pytest.mark.parametrize(("name", "dtype"), WRITTEN_KINDS)
def test_a_number_that_can_be_had_exactly_is(name: str, dtype: str) -> None:
    """Zeros, infinities, NaN, and powers of two: what is a number of the type is met."""
    x = edges(np.dtype(dtype))
    got, exact = results(FUNCTIONS[name], x), _exact(name, x)
    is_number = np.isin(x, [0, np.inf, -np.inf]) | np.isnan(exact)
    assert np.array_equal(got[is_number], exact[is_number].astype(dtype), equal_nan=True)
    assert np.array_equal(np.isnan(got), np.isnan(exact))
