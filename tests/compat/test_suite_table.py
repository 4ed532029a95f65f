"""The table of numba-cuda's suite: what counts, and what is left out of the last share."""

from __future__ import annotations

from tests.compat.suite import table
from tests.compat.suite_left_out import LEFT_OUT

_BELOW = "numba.cuda.tests."


def _row(name: str, kind: str, why: str = "said") -> dict:
    return {"test": _BELOW + name, "class": kind, "why": why}


def test_at_most_fifteen_tests_are_left_out_each_with_a_reason():
    assert 1 <= len(LEFT_OUT) <= 15
    assert all(name.startswith(_BELOW) and why for name, why in LEFT_OUT.items())


def test_the_table_has_the_share_with_and_without_them():
    first, second = (name.removeprefix(_BELOW) for name in list(LEFT_OUT)[:2])
    rows = [_row(f"a.A.test_{n}", "passed") for n in range(6)]
    rows += [
        _row(first, "host"),
        _row("a.A.test_host", "host"),
        _row("a.A.test_no", "not applicable"),
    ]
    found = table([*rows, _row(second, "different")])
    assert "| passed | 6 | 66.7 % |" in found
    assert "| applicable | 9 | |" in found
    assert "| host: text of numba-cuda | 1 | passed: 75.0 % |" in found
    reason = f"- {first}: {LEFT_OUT[_BELOW + first]}"
    assert found.count(reason) == 1
    assert f"- {first}: said" in found  # it is among those that fail, too
    # A result that differs counts, and a test that passes.
    assert f"- {second}: {LEFT_OUT[_BELOW + second]}" not in found
    assert "text of numba-cuda" not in table([_row(first, "passed")])
