"""The selected cases on the GPU; ``make sanitize`` runs them under each tool.

Without the sanitizer they are run by `tests/conformance`, so the ordinary suites leave them out.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.sanitizer.selection import sanitized_cases
from tests.support.cases import Case
from tests.support.targets import require

pytestmark = [pytest.mark.sanitizer, pytest.mark.slow, pytest.mark.gpu]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the cases where they are asked for alone: that takes apart a thousand kernels."""
    is_asked = "sanitizer" in metafunc.config.option.markexpr
    cases = sanitized_cases() if is_asked else ()
    metafunc.parametrize("case", cases, ids=lambda c: c.name)


def test_case(case: Case, rng: np.random.Generator) -> None:
    require("cuda")
    case.check("cuda", rng)
