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


@pytest.mark.parametrize("case", sanitized_cases(), ids=lambda c: c.name)
def test_case(case: Case, rng: np.random.Generator) -> None:
    require("cuda")
    case.check("cuda", rng)
