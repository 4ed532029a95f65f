"""A result has the same bits wherever its element lies: in a vector, in a remainder, alone."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from targets.cpu.math.vector.define import FUNCTIONS as WRITTEN
from tests.support.arrays import assert_same_bits
from tests.support.extent import full_beyond, sample
from tests.unit.targets.cpu.math.functions import FUNCTIONS, results, sampled

_CASES = [
    pytest.param(name, dtype)
    for name, kinds in WRITTEN.items()
    for kind, dtype in (("float", "float32"), ("double", "float64"))
    if kind in kinds
]


@pytest.mark.parametrize(("name", "dtype"), full_beyond(_CASES, sample(_CASES, 5)))
def test_the_same_bits_in_every_place(name: str, dtype: str) -> None:
    function = FUNCTIONS[name]
    x = sampled(function, np.dtype(dtype), 300, np.random.default_rng())
    expected = results(function, *x)
    with kd.use("cpu"):
        for start, count in ((0, 1), (1, 7), (3, 33), (5, 100), (2, 257)):
            out = np.full(count, 7, dtype)
            part = [each[start : start + count].copy() for each in x]
            function.kernel.forall(count)(*part, out)
            assert_same_bits(out, expected[start : start + count], f"{count} from {start}")
        for block in (1, 32, 96, 256):
            out = np.full_like(expected, 7)
            function.kernel[-(-out.size // block), block](*x, out)
            assert_same_bits(out, expected, f"block of {block}")
        every_third = np.full(3 * expected.size, 7, dtype)[::3]
        function.kernel.forall(expected.size)(*x, every_third)
        assert_same_bits(every_third, expected, "every third")
