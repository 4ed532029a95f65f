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


LIBRARY = """
import numpy as np
from numpy.typing import NDArray

import kerneldsl as kd
import stdlib_kernels as sk
from stdlib_kernels import reduce, sort
from stdlib_kernels.reduce import sum

x: NDArray[np.float32] = np.zeros(4, np.float32)
d = kd.to_device(x)
host: np.ndarray = sk.sort(x)
reveal_type(sk.softmax(x))  # numpy.ndarray[Any, Any]
reveal_type(sk.softmax(d))  # kerneldsl.memory.arrays.DeviceArray
reveal_type(sk.cumsum([1, 2]))  # numpy.ndarray[Any, Any]
reveal_type(sort(d))  # kerneldsl.memory.arrays.DeviceArray
reveal_type(sk.sort.argsort(d))  # kerneldsl.memory.arrays.DeviceArray
reveal_type(reduce.max(d, 0))  # kerneldsl.memory.arrays.DeviceArray
reveal_type(sum(d))  # kerneldsl.memory.arrays.DeviceArray
reveal_type(sum(x, 0))  # numpy.ndarray[Any, Any]
reveal_type(float(sum(x)))  # float
reveal_type(sk.argmax([1, 2]))  # numpy.signedinteger[numpy._typing._nbit_base._64Bit]
reveal_type(sk.unique(d))  # kerneldsl.memory.arrays.DeviceArray
reveal_type(sk.top_k(x, 2))  # tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]
reveal_type(sk.partition(d, d))  # tuple[kerneldsl.memory.arrays.DeviceArray, int]
reveal_type(sk.imaging.sobel(d))  # kerneldsl.memory.arrays.DeviceArray
reveal_type(sk.searchsorted(x, 2.5))  # numpy.ndarray[Any, Any]
sk.smu(x)  # error: attr-defined
sk.softmax(x, axes=1)  # error: call-overload
sk.softmax(object())  # error: call-overload
sum(d, axis="x")  # error: call-overload
"""


def test_a_type_checker_knows_the_library(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    path = tmp_path / "program.py"
    path.write_text(LIBRARY)
    options = ["--config-file", "", "--no-error-summary", "--follow-imports=silent"]
    shown, failed, _ = api.run([*options, "--cache-dir", str(tmp_path / "cache"), str(path)])
    assert not failed, failed
    found = dict.fromkeys(range(1, LIBRARY.count("\n") + 1), "")
    for line, text in re.findall(r"program\.py:(\d+): (?:note|error): (.*)$", shown, re.MULTILINE):
        revealed = re.match(r'Revealed type is "(.*)"', text)
        slip = re.search(r"\[([\w-]+)\]$", text)
        if revealed or slip:
            found[int(line)] = revealed[1] if revealed else f"error: {slip[1]}"
    expected = {
        number: line.partition("  # ")[2] for number, line in enumerate(LIBRARY.splitlines(), 1)
    }
    assert found == expected
