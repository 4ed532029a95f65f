"""uint64 beside bools, large literals and signed numbers: the value, or a warning, on every target.

Expected values are computed by Python's integers, modulo the width of the type.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.extent import full_beyond
from tests.support.source import exec_source

U64 = 2**64
A = [U64 - 1, 2**63 + 5, 7, 0, 2**63, 3, U64 - 9, 12345]
N = [-1, 2, 3, -4, 5, 0, 7, -8]

EXACT: dict[str, Callable[[int, int], float]] = {
    "out[i] = (a[i] + (a[i] > 5)) // 3": lambda a, n: (a + (a > 5)) % U64 // 3,
    "out[i] = a[i] // (n[i] == n[i])": lambda a, n: a,
    "out[i] = (a[i] * True) >> 3": lambda a, n: a >> 3,
    "b = a[i] > 5; x = b if n[i] > 2 else a[i]; out[i] = x // 3": lambda a, n: (
        (int(a > 5) if n > 2 else a) // 3
    ),
    "out[i] = max(a[i], a[i] > 5)": lambda a, n: max(a, int(a > 5)),
    # The type of `v` is not known before the kernel is typed; a conversion of it has one.
    "v = ((U64, 3) if U64 == 4 else (np.int32(6), 5))[0]; x = max(a[i], np.int64(v)); "
    "out[i] = (x + 1) // 3": lambda a, n: (max(a, 6) + 1) % U64 // 3,
    # Of a variable of two types under a literal condition, which Python leaves out, one is known.
    "m = np.int32(3); if True:;     if n[i] > 2:;         m = n[i]; x = max(a[i], m); "
    "out[i] = (x + 1) // 3": lambda a, n: (max(a, n, 3) + 1) % U64 // 3,
    "t = (a[i], n[i]); out[i] = max(t)": lambda a, n: max(a, n),
    "t = (a[i], n[i], 3); floats[i] = min(t)": lambda a, n: float(min(a, n, 3)),
    "t = (a[i], n[i]); out[i] = sum(t)": lambda a, n: (a + n) % U64,
    "out[i] = np.minimum(a[i], a[i] > 5)": lambda a, n: min(a, int(a > 5)),
    "out[i] = 1 if a[i] > (n[i] == n[i]) else 0": lambda a, n: int(a > 1),
    "floats[i] = a[i] + (n[i] > 0)": lambda a, n: float((a + (n > 0)) % U64),
    "out[i] = (a[i] << (n[i] == n[i])) // 3": lambda a, n: (a << 1) % U64 // 3,
    "out[i] = a[i] >> (n[i] == n[i])": lambda a, n: a >> 1,
    "out[i] = (a[i] ^ (n[i] == n[i])) % 7": lambda a, n: (a ^ 1) % 7,
    "floats[i] = a[i] / (n[i] == n[i])": lambda a, n: float(a),
    "out[i] = np.add(a[i], n[i] == n[i]) // 3": lambda a, n: (a + 1) % U64 // 3,
    "t = n[i] > 0; t += a[i]; out[i] = t // 3": lambda a, n: (a + (n > 0)) % U64 // 3,
    "x = 0; b = a[i] > 5; x = b if n[i] > 2 else x; x = x if n[i] else a[i]; out[i] = x // 3": (
        lambda a, n: (int(n > 2 and a > 5) if n else a) // 3
    ),
    "x = a[i] > 5 if n[i] > 2 else 7; out[i] = (a[i] + x) // 3": lambda a, n: (
        (a + (int(a > 5) if n > 2 else 7)) % U64 // 3
    ),
    "out[i] = 1 if n[i] < 0xFFFFFFFFFFFFFFF0 else 0": lambda a, n: 1,
    "out[i] = max(n[i], 2**63 + 5)": lambda a, n: 2**63 + 5,
    "out[i] = np.where(n[i] > 2, a[i], 0) // 3": lambda a, n: a // 3 if n > 2 else 0,
    "out[i] = np.where(n[i] > 2, 5, a[i])": lambda a, n: 5 if n > 2 else a,
    "out[i] = pow(a[i], 3) // 7": lambda a, n: a**3 % U64 // 7,
    "out[i] = np.right_shift(a[i], 3)": lambda a, n: a >> 3,
    "out[i] = np.left_shift(a[i], 3) // 3": lambda a, n: (a << 3) % U64 // 3,
    "out[i] = np.right_shift(a[i], abs(n[i]))": lambda a, n: a >> abs(n),
    "out[i] = np.gcd(a[i], 12)": lambda a, n: math.gcd(a, 12),
    "out[i] = math.gcd(a[i], 12)": lambda a, n: math.gcd(a, 12),
    "out[i] = np.lcm(a[i], 12)": lambda a, n: math.lcm(a, 12) % U64,
    "out[i] = ((n[i] > 0) + 0xFFFFFFFFFFFFFFF0) // 3": lambda a, n: ((n > 0) + U64 - 16) // 3,
    "out[i] = np.clip(a[i], n[i], 2**63 + 2)": lambda a, n: min(max(a, n), 2**63 + 2),
    "out[i] = np.clip(n[i], 3, a[i])": lambda a, n: min(max(n, 3), a),
    "out[i] = np.clip(a_min=n[i], a=a[i], a_max=None)": lambda a, n: max(a, n),
    "out[i] = a[i] in (3, 2**63 + 5)": lambda a, n: int(a in (3, 2**63 + 5)),
    "out[i] = n[i] in (3, U64)": lambda a, n: int(n == 3),
    "out[i] = a[i] not in (n[i], np.uint64(7))": lambda a, n: int(a not in (n, 7)),
    "out[i] = sum((a[i], n[i] > 0)) // np.uint64(3)": lambda a, n: (a + (n > 0)) % U64 // 3,
    "x = ((a[i], 3) if np.int64(-3) < np.int64(9) else (a[i] > 5, 5))[0]; out[i] = x // 3": (
        lambda a, n: a // 3
    ),
    "out[i] = (a[i], 1) == (n[i], 1)": lambda a, n: int(a == n),
    "out[i] = (3, a[i]) != (3, n[i])": lambda a, n: int(a != n),
    "out[i] = (a[i], 2) < (n[i], 3)": lambda a, n: int(a <= n),
    "out[i] = (n[i], a[i]) <= (a[i], 5)": lambda a, n: int((n, a) <= (a, 5)),
    "out[i] = (a[i], 2) > (n[i],)": lambda a, n: int(a >= n),
    "out[i] = ((a[i], n[i]), 1) >= ((n[i], a[i]), 2)": lambda a, n: int(a > n),
    "out[i] = ((a[i], 5), 1) == ((n[i], 5), 1)": lambda a, n: int(a == n),
    "out[i] = (a[i], 5, 1) == (n[i], 5)": lambda a, n: 0,
    "out[i] = (a[i], a[i]) == (-1, 5)": lambda a, n: 0,
    "out[i] = (a[i], n[i]) in ((n[i], a[i]), (n[i], a[i]))": lambda a, n: int(a == n),
    "out[i] = kd.uint64(3) < 5 and (n[i], 1.5) < (a[i], 0.5)": lambda a, n: int(n < a),
    "v = np.uint8(a[i]); out[i] = max(v - 255, 0); v = np.uint64(3)": lambda a, n: max(
        a % 256 - 255, 0
    ),
}
_counted = "s = 0; for k in {}:;     s += 1;     if s == 5:;         break; out[i] = s"
EXACT |= {
    _counted.format("range(a[i])"): lambda a, n: min(a, 5),
    _counted.format("range(2, a[i], 3)"): lambda a, n: len(range(2, a, 3)[:5]),
    _counted.format("range(a[i], U64, 2**61)"): lambda a, n: len(range(a, U64 - 1, 2**61)[:5]),
    _counted.format("range(U64, a[i], -(2**61))"): lambda a, n: len(
        range(U64 - 1, a, -(2**61))[:5]
    ),
    _counted.format("range(a[i], np.uint64(4), n[i])"): lambda a, n: (
        len(range(a, 4, n)[:5]) if n else 0
    ),
    "x = 0; for k in range(a[i], a[i] | 2):;     x = k // 3; out[i] = x": lambda a, n: (
        [0, *range(a, a | 2)][-1] // 3
    ),
}

WARNED = [
    "out[i] = (n[i] * 0x9E3779B97F4A7C15) // 7",
    "out[i] = (i + 0xFFFFFFFFFFFFFFFF) // 3",
    "z = i * 0xBF58476D1CE4E5B9; z ^= z >> 30; out[i] = z",
    "floats[i] = n[i] if n[i] > 2 else 0xFFFFFFFFFFFFFFF0",
    "out[i] = np.where(n[i] > 2, a[i], n[i]) // 3",
    "floats[i] = np.where(n[i] > 2, a[i], n[i])",
    "out[i] = pow(a[i], n[i]) // 7",
    "out[i] = np.power(a[i], n[i]) // 7",
    "out[i] = np.gcd(a[i], n[i])",
    "out[i] = sum((a[i], n[i])) // 3",
    "t = (a[i], n[i]); floats[i] = sum(t)",
]


def _launch(body: str, target: str):
    lines = "".join(f"        {line}\n" for line in body.split("; "))
    text = (
        "import math\nimport numpy as np\nimport kerneldsl as kd\nU64 = np.uint64(2**64 - 1)\n"
        "@kd.kernel\ndef kernel(a, n, out, floats):\n"
        f"    i = kd.grid(1)\n    if i < out.size:\n{lines}"
    )
    out, floats = poisoned(len(A), "uint64"), poisoned(len(A), "float64")
    with kd.use(target), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        kernel = exec_source(text)["kernel"]
        kernel.forall(len(A))(np.array(A, np.uint64), np.array(N, np.int64), out, floats)
    said = [str(each.message) for each in seen if issubclass(each.category, kd.KernelWarning)]
    return (floats if "floats[i]" in body else out), said


@pytest.mark.parametrize("body", full_beyond(EXACT, [*EXACT][::6]))
def test_values_are_exact(body: str, computing_target: str) -> None:
    found, said = _launch(body, computing_target)
    assert (found.tolist(), said) == ([EXACT[body](a, n) for a, n in zip(A, N, strict=True)], [])


@pytest.mark.parametrize("body", full_beyond(WARNED, WARNED[::6]))
def test_what_becomes_signed_is_warned_of(body: str, computing_target: str) -> None:
    _, said = _launch(body, computing_target)
    assert any("is uint64 and" in text and "int64" in text for text in said), said


@pytest.mark.parametrize("name", ["max", "min", "inc"])
def test_signed_numbers_in_unsigned_extremes_are_warned_of(name, computing_target: str) -> None:
    _, (said,) = _launch(f"v = n[i]; x = v; kd.atomic.{name}(out, i, v)", computing_target)
    assert "v is int64 (line 9) and the elements of out are uint64" in said
    assert f"kd.atomic.{name} compares them as uint64 (line 11)" in said


_NEVER_NEGATIVE = [
    "3",
    "kd.gridDim.x - 1",
    "i",
    "i + 1",
    "a.size",
    "abs(kd.popc(a[i]))",
    "n[i] > 0",
]


@pytest.mark.parametrize("value", full_beyond(_NEVER_NEGATIVE, _NEVER_NEGATIVE[1::2]))
def test_nothing_is_said_of_numbers_that_are_never_negative(value, computing_target: str) -> None:
    assert _launch(f"kd.atomic.max(out, i, {value})", computing_target)[1] == []
    body = "v = n[i]; t = v if v >= 0 else 5; kd.atomic.max(out, i, t)"
    assert _launch(body, computing_target)[1] == []


def test_unsigned_numbers_in_signed_extremes_are_warned_of(computing_target: str) -> None:
    _, (said,) = _launch("kd.atomic.max(n, i, a[i]); out[i] = 0", computing_target)
    assert "a[i] is uint64 (line 9) and the elements of n are int64" in said
    assert _launch("kd.atomic.max(n, i, a[i] >> 1); out[i] = 0", computing_target)[1] == []


def test_a_power_modulo_a_number_is_refused(computing_target: str) -> None:
    with pytest.raises(kd.KernelTypingError, match="pow takes two arguments"):
        _launch("out[i] = pow(a[i], 3, 7)", computing_target)


@pytest.mark.parametrize("tile", ["zeros(4, np.int64)", "full(4, 0, np.int64)"])
def test_a_tile_whose_dtype_is_named_is_no_literal(tile: str, computing_target: str) -> None:
    text = (
        "import numpy as np\nimport kerneldsl as kd\n@kd.kernel\ndef kernel(a, out):\n"
        f"    u = kd.tile.load(a, 0, 4) - kd.tile.{tile}\n    kd.tile.store(out, 0, u / 2)\n"
    )
    out = poisoned(4, "float64")
    with kd.use(computing_target), warnings.catch_warnings():
        warnings.simplefilter("ignore", kd.KernelWarning)
        exec_source(text)["kernel"][1, 4](np.full(4, U64 - 1, np.uint64), out)
    assert out.tolist() == [-0.5] * 4
