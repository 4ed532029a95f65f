"""Kernels that are not optimized, with the variables that debuggers read, compute the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kerneldsl.kernels.kernel import Kernel
from tests.conformance.kernels import CASES, QUICK_CASES
from tests.support.cases import Case
from tests.support.extent import full_beyond


@pytest.mark.parametrize("variables", [False, True], ids=["plain", "variables"])
@pytest.mark.parametrize("case", full_beyond(CASES[::20], QUICK_CASES[::20]), ids=lambda c: c.name)
def test_cases(case: Case, variables: bool, rng: np.random.Generator) -> None:
    options = case.kernel.options
    compiled = replace(options.compile, optimize=False, variables=variables)
    kernel = Kernel(case.kernel.function, options._replace(compile=compiled))
    replace(case, kernel=kernel).check("cuda", rng)
