"""What a type checker says of a user's program."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import numpy as np
from numpy.typing import NDArray

import kerneldsl as kd


@kd.kernel
def axpy(a: float, x: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    i = kd.grid(1)
    out[i] = a * x[i]


@kd.kernel
def plain(a, x):  # type: ignore[no-untyped-def]
    x[kd.grid(1)] = a


@kd.kernel(space=kd.Space(block=[64], items=[1, 2]))
def spaced(x, *, items):  # type: ignore[no-untyped-def]
    x[kd.grid(1)] = items


x = np.zeros(8, np.float32)
axpy.forall(8)(1.0, x, x)
axpy[1, 8](a=1.0, x=x, out=x)
axpy.forall(8).bind(1.0, x, x)()
axpy.forall(8).plan("float32, float32[::1], float32[::1]", arch="sm_90").explain()
plain.forall(8)(1, np.zeros(8))
spaced.forall(8)(x)
spaced.member(items=1)[1, 64](x)
"""

SLIPS = """
axpy.forall(8)(1.0, x)  # too few: call-arg
axpy[1, 8](1.0, x, x, x)  # too many: call-arg
axpy[1, 8](1.0, x, out=x, y=x)  # unknown: call-arg
axpy.forall(8)("one", x, x)  # a text: arg-type
axpy.forall(8).bind(1.0, x)  # too few: call-arg
plain[1, 8](1)  # too few: call-arg
axpy(1.0, x, x)  # no launch: operator
after: int = "one"  # checked behind it: assignment


def later() -> int:
    plain(1, x)  # no launch: operator
    return "one"  # checked behind it: return-value
"""


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Check a program with mypy; give the kinds of errors by their lines."""
    api = pytest.importorskip("mypy.api")
    monkeypatch.setenv("MYPYPATH", str(ROOT))

    def run(text: str) -> dict[int, str]:
        path = tmp_path / "program.py"
        path.write_text(text)
        options = ["--strict", "--warn-unreachable", "--config-file", "", "--no-error-summary"]
        cache = ["--cache-dir", str(tmp_path / "cache")]
        # What the packages themselves are checked with is `make types`.
        shown, failed, status = api.run([*options, *cache, "--follow-imports=silent", str(path)])
        assert not failed, failed
        assert status in (0, 1), shown
        found = re.findall(r"program\.py:(\d+): error: .*\[([\w-]+)\]$", shown, re.MULTILINE)
        return {int(line): kind for line, kind in found}

    return run


def test_a_type_checker_knows_launches(check):
    program = textwrap.dedent(PROGRAM)
    slips = program + textwrap.dedent(SLIPS)
    expected = {
        number: line.rpartition(": ")[2]
        for number, line in enumerate(slips.splitlines(), 1)
        if number > program.count("\n") and "  # " in line
    }
    assert len(expected) == 10
    assert check(slips) == expected
