"""A long-lived process that defines kernels anew all the time."""

from __future__ import annotations

import pytest

from targets.cpu.runtime import objects
from tests.support.redefining import growth

pytestmark = [
    pytest.mark.skipif(not objects.IS_SUPPORTED, reason="code is not linked by ORC on this system"),
    pytest.mark.slow,
]


@pytest.mark.timeout(7200)
def test_ten_thousand_redefinitions_grow_by_less_than_200_mb() -> None:
    whole, _ = growth(50, 10_000)
    assert whole < 200_000_000
