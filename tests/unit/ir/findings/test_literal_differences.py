"""A difference that a literal makes unsigned is warned of wherever its sign matters."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.extent import full_beyond

HEADER = """
import numpy as np
import kerneldsl as kd

@kd.func
def at_least_zero(x):
    return max(x, 0)

@kd.func
def half_difference(x, y):
    return (x - y) // 2

@kd.func
def five_less(x):
    return x - 5

@kd.func
def put(where, i, value):
    where[i] = value

@kd.kernel
def kernel(a, b, out, floats):
    i = kd.grid(1)
    if i < out.size:
"""

OBSERVED = {
    "out[i] = max(a[i] - 5, 0)": "a number that is never negative",
    "out[i] = min(a[i] - 5, 9)": "a number that is never negative",
    "out[i] = np.maximum(a[i] - 5, 0)": "a number that is never negative",
    "out[i] = (a[i] - 5) // 2": "a number that is never negative",
    "out[i] = (a[i] - 5) >> 1": "a number that is never negative",
    "out[i] = (a[i] - 5) % 7": "a number that is never negative",
    "out[i] = 1 << (a[i] - 5)": "a number that is never negative",
    "out[i] = 1 if a[i] - 5 < 2 else 0": "a number that is never negative",
    "out[i] = 1 if 0 <= a[i] - 5 < 2 else 0": "a number that is never negative",
    "out[i] = 1 if a[i] - 5 == -1 else 0": "a number that is never negative",
    "out[i] = out[a[i] - 1]": "an index",
    "floats[i] = a[i] - 5 + 1": "converted to float64",
    "floats[i] = int(a[i] - 5)": "converted to float64",
    "floats[i] = -(a[i] % 3)": "converted to float64",
    "floats[i] = ~(a[i] % 3)": "converted to float64",
    "floats[i] = (a[i] - 5) ** 3": "a number that is never negative",
    "out[i] = (a[i] % 3 - b[i] % 4) // 2": "a number that is never negative",
    "out[i] = (a[i] - b[i]) // 2": "a number that is never negative",
    "d = a[i] - b[i]; d //= 2; out[i] = d": "a number that is never negative",
    "out[i] = (-a[i]) // 9": "a number that is never negative",
    "floats[i] = -a[i]": "converted to float64",
    "out[i] = abs(-a[i])": "abs() leaves it as it is",
    "out[i] = 1 if -a[i] < 0 else 0": "it is never negative",
    "d = -a[i]; floats[i] = d": "converted to float64",
    "d = a[i]; d -= 5; out[i] = d // 3": "a number that is never negative",
    "t = 0; t += a[i]; floats[i] = t - 9": "converted to float64",
    "t = (a[i] - 5, 1); floats[i] = t[0]": "converted to float64",
    "out[i] = at_least_zero(a[i] - 5)": "a number that is never negative",
    "out[i] = half_difference(a[i] % 3, b[i] % 4)": "a number that is never negative",
    "out[i] = max(five_less(a[i]) + 1, 3)": "a number that is never negative",
    "out[i] = abs(a[i] - 3)": "abs() leaves it as it is",
    "for k in range(a[i] - 5): out[i] = k; break": "a bound of a range",
    "for k in range(a[i] - b[i], a[i]): out[i] = k; break": "a bound of a range",
}

RIGHT = [
    "out[i] = (a[i] - b[i]) // b[i]",
    "out[i] = (~a[i]) >> 3",
    "out[i] = a[i] - 5",
    "floats[i] = ~a[i]",
    "floats[i] = a[i] & -a[i]",
    "out[i] = -a[i] + b[i]",
    "floats[i] = np.uint64(-a[i])",
    "floats[i] = (a[i] - 5) * (a[i] - 5)",
    "out[i] = (a[i] - 1) & a[i]",
    "out[i] = out[(a[i] - 1) & 7]",
    "out[i] = out[(a[i] + i) & 7]",
    "out[i] = 1 if a[i] - 5 == 2 else 0",
    "out[i] = 1 if not (a[i] - 5) else 0",
    "floats[i] = np.uint64(a[i] - 5) * 0.5",
    "floats[i] = np.int64(a[i]) - 5",
    "out[i] = (a[i] + 255 - 1) // 256",
    "out[i] = (a[i] - a[i] % 4) // 4",
    "out[i] = five_less(a[i]) + 1",
    "put(out, i, a[i] - 5)",
    "out[i] = (7 - (a[i] & 7)) // 2",
    "out[i] = out[a[i] - 1] if a[i] >= 1 else 0",
    "out[i] = 1 if a[i] >= 2 and out[a[i] - 1] > 3 else 0",
    "n = a[i]\nwhile n > 0:\n    n -= 1\nout[i] = n",
]


def _messages(body: str, tmp_path) -> list[str]:
    import importlib.util

    text = HEADER + "".join(f"        {line}\n" for line in body.replace("; ", "\n").split("\n"))
    path = tmp_path / "made.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("made", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    a, b = np.arange(1, 9, dtype=np.uint64), np.full(8, 3, np.uint64)
    with kd.use("cpu"), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        module.kernel.forall(8)(a, b, np.zeros(8, np.int64), np.zeros(8))
    return [
        str(each.message) for each in seen if issubclass(each.category, kd.errors.KernelWarning)
    ]


@pytest.mark.parametrize("body", full_beyond(OBSERVED, [*OBSERVED][::6]))
def test_a_difference_whose_sign_matters(body, tmp_path) -> None:
    found = _messages(body, tmp_path)
    assert any("is a uint64, and " in text and OBSERVED[body] in text for text in found), found


@pytest.mark.parametrize("body", full_beyond(RIGHT, RIGHT[::6]))
def test_a_difference_that_is_right(body, tmp_path) -> None:
    assert _messages(body, tmp_path) == []


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64"])
def test_a_negated_number_wraps_around_in_its_width(dtype: str) -> None:
    @kd.kernel
    def negate(x, out):
        out[0] = -x[0]

    x, out = np.array([1], dtype), np.zeros(1, np.float32)
    bits = x.itemsize * 8
    said = f"-x\\[0\\] is a {dtype}, .* a negative number is 2\\*\\*{bits} too large"
    with kd.use("cpu"), pytest.warns(kd.KernelWarning, match=said):
        negate[1, 1](x, out)
    assert out[0] == np.float32(2**bits - 1)


def test_long_functions_of_both_signs_are_looked_through_in_linear_time(tmp_path) -> None:
    lines = ["x = a[i] + i", *["x = x * x + x"] * 60, "out[i] = x // 3"]
    assert any("so the result is int64" in text for text in _messages("; ".join(lines), tmp_path))


SMALL = [
    pytest.param(body, is_small)
    for body, is_small in (
        ("x = b[i] & 0xFF\nfor _ in range(70):\n    x = x + x", False),
        ("x = b[i] & 0xFF\nfor _ in range(70):\n    y = x\n    x = y + x", False),
        ("x = b[i] & 0xFF\nfor _ in range(70):\n    x = x + 3", True),
        ("x = b[i] & 0xFF\nfor _ in range(70):\n    x = (x * 3 + 1) & 0xFFFF", True),
        ("x = np.uint64(3 % (i - 9))", False),
        ("x = np.uint64(3 // (i - 9))", False),
        ("k = i & 7\nx = np.uint64((k * 2**62) // 4)", False),
        ("x = np.uint64((i - 9) % 8)", True),
        ("x = b[i] // 4", True),
        ("x = b[i] >> (i & 3)", False),
    )
]


@pytest.mark.parametrize(("body", "is_small"), full_beyond(SMALL, SMALL[::6]))
def test_what_is_certainly_small(body, is_small, tmp_path) -> None:
    found = _messages(f"{body}\nout[i] = (x + i) // 3", tmp_path)
    assert ("so the result is int64" in "".join(found)) is not is_small, found
