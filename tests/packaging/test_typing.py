"""What a type checker says of a user's program."""

from __future__ import annotations

import re
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


LIBRARY = """
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kerneldsl as kd
import stdlib_kernels as sk
from stdlib_kernels import reduce, sort
from stdlib_kernels.reduce import sum

x: NDArray[np.float32] = np.zeros(4, np.float32)
d = kd.to_device(x)
host: np.ndarray[Any, Any] = sk.sort(x)
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


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What mypy says of both programs: it reads the packages once, which takes longest."""
    api = pytest.importorskip("mypy.api")
    folder = tmp_path_factory.mktemp("programs")
    for name, text in (("launches", PROGRAM + SLIPS), ("library", LIBRARY)):
        (folder / f"{name}.py").write_text(text)
    options = ["--strict", "--warn-unreachable", "--config-file", "", "--no-error-summary"]
    # What the packages themselves are checked with is `make types`.
    options += ["--follow-imports=silent", "--cache-dir", str(folder / "cache")]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("MYPYPATH", str(ROOT))
        said, failed, status = api.run([*options, *map(str, sorted(folder.glob("*.py")))])
    assert not failed, failed
    assert status in (0, 1), said
    return said


def test_a_type_checker_knows_launches(shown: str) -> None:
    expected = {
        number: line.rpartition(": ")[2]
        for number, line in enumerate((PROGRAM + SLIPS).splitlines(), 1)
        if number > PROGRAM.count("\n") and "  # " in line
    }
    assert len(expected) == 10
    found = re.findall(r"launches\.py:(\d+): error: .*\[([\w-]+)\]$", shown, re.MULTILINE)
    assert {int(line): kind for line, kind in found} == expected


def test_a_type_checker_knows_the_library(shown: str) -> None:
    found = dict.fromkeys(range(1, LIBRARY.count("\n") + 1), "")
    said = re.findall(r"library\.py:(\d+): (?:note|error): (.*)$", shown, re.MULTILINE)
    for line, text in said:
        revealed = re.match(r'Revealed type is "(.*)"', text)
        slip = re.search(r"\[([\w-]+)\]$", text)
        if revealed or slip:
            found[int(line)] = revealed[1] if revealed else f"error: {slip[1]}"
    expected = {
        number: line.partition("  # ")[2] for number, line in enumerate(LIBRARY.splitlines(), 1)
    }
    assert found == expected
