"""What the oracle of integers says of signs that change."""

from __future__ import annotations

import pytest

from tests.fuzz.integer_worker import Oracle

_HUGE = 2**63 + 5


@pytest.mark.parametrize("smallest", [2**62, 2**63 - 1])
def test_the_smallest_of_a_huge_and_a_signed_number_stays_signed(smallest: int) -> None:
    """It is exact, so that what overflows later overflows as an int64 does."""
    found = []
    for is_exact in (False, True):
        oracle = Oracle(is_exact=is_exact)
        least = oracle.operate("min", "int64", _HUGE, smallest)
        found.append(oracle.operate("+", "int64", least, 2**63 - 1))
    assert found[0] == found[1] == smallest - 2**63 - 1


def test_a_huge_number_that_is_chosen_changes_its_sign() -> None:
    one, two = (
        Oracle(is_exact=is_exact).operate("min", "int64", _HUGE, 2**63 + 9)
        for is_exact in (False, True)
    )
    assert (one, two) == (_HUGE - 2**64, _HUGE)
