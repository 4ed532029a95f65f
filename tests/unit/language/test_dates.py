"""Dates as the documentation has them in kernels: as int64, of one unit, with NaT kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from tests.support.source import exec_source

_PAGE = Path(__file__).parents[3] / "docs" / "language.md"


def _documented() -> dict[str, Any]:
    """Run the documentation's definitions."""
    (text,) = re.findall(r"```python\n(NAT = .*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return exec_source(f"import numpy as np\nimport kerneldsl as kd\n{text}", "documented")


minus, plus = (_documented()[name] for name in ("minus", "plus"))


@kd.kernel
def arithmetic(a, b, t, differences, sums):
    i = kd.grid(1)
    differences[i] = minus(a[i], b[i])
    sums[i] = plus(a[i], t[i])


_WORDS = st.one_of(st.just("NaT"), st.integers(-(10**9), 10**9))


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.tuples(_WORDS, _WORDS, _WORDS), min_size=1, max_size=70),
    units=st.tuples(*[st.sampled_from(["s", "m", "h", "D"])] * 3),
)
def test_dates_and_spans_are_numpys(rows: list[Any], units: tuple[str, ...]) -> None:
    kinds = ("M8", "M8", "m8")
    a, b, t = (
        np.array([row[k] for row in rows], "U20").astype(f"{kind}[{unit}]")
        if kind == "m8"
        else np.array([np.datetime64(row[k], unit) for row in rows])
        for k, (kind, unit) in enumerate(zip(kinds, units, strict=True))
    )
    a, b, t = (x.astype(f"{kind}[s]") for kind, x in zip(kinds, (a, b, t), strict=True))
    differences, sums = np.empty(a.shape, "m8[s]"), np.empty(a.shape, "M8[s]")
    given_arrays = [x.view(np.int64) for x in (a, b, t, differences, sums)]
    with kd.use("cpu"):
        arithmetic.forall(a.size)(*given_arrays)
    np.testing.assert_array_equal(differences, a - b)
    np.testing.assert_array_equal(sums, a + t)


@pytest.mark.parametrize("value", [np.zeros(3, "m8[D]"), np.timedelta64("NaT")])
def test_a_refusal_says_what_nat_becomes(value: Any) -> None:
    with kd.use("cpu"), pytest.raises(kd.ArgumentTypeError, match="NaT is the smallest int64"):
        arithmetic.forall(3)(value, *[np.zeros(3, np.int64)] * 4)
