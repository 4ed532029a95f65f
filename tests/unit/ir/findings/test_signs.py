"""A uint64 that becomes an int64 is warned of where that can be seen, with both places."""

from __future__ import annotations

import warnings

import numba
import numpy as np
import pytest

import kerneldsl as kd
from tests.support.extent import full_beyond

U = np.array([2**63 + 5, 7], np.uint64)
N = np.array([-1, 3], np.int64)
SMALL = np.array([5, 250], np.uint8)


@kd.kernel
def divided(u, n, out):
    i = kd.grid(1)
    out[i] = u[i] // n[i]


@kd.kernel
def grown(u, n, out):
    i = kd.grid(1)
    s = u[i]
    for _ in range(3):
        s = s * n[i] + 7
    out[i] = s // 3


@kd.kernel
def chosen(u, n, out):
    i = kd.grid(1)
    out[i] = float(u[i] if n[i] > 0 else n[i])


@kd.kernel
def compared_sum(u, n, out):
    i = kd.grid(1)
    out[i] = u[i] > u[0] + n[i]


@kd.func
def half(x):
    return x / 2


@kd.kernel
def passed(u, n, out):
    i = kd.grid(1)
    m = u[i]
    if n[i] > 0:
        m = n[i]
    out[i] = half(m)


@kd.func
def either(x, m):
    if m > 0:
        return x
    return m


@kd.kernel
def returned(u, n, out):
    i = kd.grid(1)
    out[i] = either(u[i], n[i]) // 3


@kd.kernel
def returned_bits(u, n, out):
    i = kd.grid(1)
    out[i] = either(u[i], n[i]) + 3


@kd.kernel
def chosen_pairs(u, n, out):
    i = kd.grid(1)
    pair = (u[i], n[i]) if n[i] > 0 else (n[i], 7)
    out[i] = pair[0] // 3 + pair[1] // 3


@kd.kernel
def assigned_pairs(u, n, out):
    i = kd.grid(1)
    pair = (n[i], u[i])
    if n[i] > 0:
        pair = ordered(n[i], n[i])
    first, second = pair
    out[i] = second // 3 + first


@kd.func
def ordered(x, m):
    if m > 0:
        return x, m
    return m, m


@kd.kernel
def returned_pairs(u, n, out):
    i = kd.grid(1)
    first, second = ordered(u[i], n[i])
    out[i] = first // 3 + second // 3


@kd.kernel
def nested_pairs(u, n, out):
    i = kd.grid(1)
    both = (u[i], (u[i], 3))
    if n[i] > 0:
        both = (7, (n[i], 3))
    _, (first, second) = both
    out[i] = first // 3 + second


@kd.kernel
def bits_of_pairs(u, n, out):
    i = kd.grid(1)
    pair = ordered(u[i], n[i])
    if n[i] > 3:
        pair = (u[i], n[i])
    out[i] = pair[0] + pair[1] // 3 + ordered(u[i], n[i])[0]


@kd.kernel
def in_place(u, n, out):
    i = kd.grid(1)
    v = u[i]
    v //= n[i]
    out[i] = v


@kd.kernel
def modular(u, n, out):
    i = kd.grid(1)
    s = u[i] + n[i]
    s = s * 3 - n[i]
    out[i] = np.uint32(s) ^ np.uint64(n[i])


@kd.kernel
def small_sums(a, n, out):
    i = kd.grid(1)
    s = a[i]
    for k in range(2):
        s += a[k]
    out[i] = (s + n[i]) // 3 + (a[i] * a[i]) // n[i]


@kd.kernel
def counted(u, n, out):
    i = kd.grid(1)
    out[i] = n[i] // 2 + kd.popc(u[i])


@kd.kernel
def shifted(u, n, out):
    i = kd.grid(1)
    h = u[i]
    for _ in range(2):
        h ^= h >> 7
        h *= n[i]
    out[i] = h


@kd.kernel
def shifted_before(u, n, out):
    i = kd.grid(1)
    v = n[i]
    if u[i] > 3:
        v = v >> 1
        v = u[i]
    out[i] = v + 1


@numba.njit
def third(x):
    return x // 3


@numba.njit
def summed(x):
    s = 1
    for _ in range(2):
        s = x + s
    return s


@numba.njit
def of_remainder(x):
    _, remainder = divmod(x, 7)
    return remainder


@numba.vectorize
def quotient(x, y):
    return x // y


@kd.kernel
def calls_ufunc(u, n, out):
    i = kd.grid(1)
    out[i] = quotient(u[i], n[i])


@kd.kernel
def sums_a_tuple(u, n, out):
    i = kd.grid(1)
    t = (u[i], 2, n[i])
    out[i] = sum(t) / 2


@kd.kernel
def calls_numba(u, n, out):
    i = kd.grid(1)
    out[i] = third(u[i])


@kd.kernel
def calls_sum(u, n, out):
    i = kd.grid(1)
    out[i] = summed(u[i]) // 3


@kd.kernel
def calls_remainder(u, n, out):
    i = kd.grid(1)
    out[i] = of_remainder(u[i])


@kd.kernel
def calls_modular_sum(u, n, out):
    i = kd.grid(1)
    out[i] = summed(u[i])


def _warned(kernel, *args):
    with warnings.catch_warnings(record=True) as caught, kd.use("cpu"):
        warnings.simplefilter("always")
        kernel[1, 2](*args)
        kernel[2, 1](*args)
    return [
        warnings.formatwarning(each.message, each.category, each.filename, each.lineno)
        for each in caught
        if issubclass(each.category, kd.KernelWarning)
    ]


def _line(kernel, text):
    source = __import__("inspect").getsource(kernel.__wrapped__).splitlines()
    first = kernel.__wrapped__.__code__.co_firstlineno
    return first + next(n for n, line in enumerate(source) if text in line)


WARNED = [
    (divided, ["u[i] is uint64 and n[i] is int64", "out[i] = u[i] // n[i]"]),
    (grown, ["s is uint64 where line", "so it becomes int64", "np.uint64(s * n[i] + 7)"]),
    (chosen, ["u[i] is uint64 and n[i] is int64"]),
    (compared_sum, ["u[0] is uint64 and n[i] is int64"]),
    (passed, ["m is uint64 where line", "half(m)"]),
    (returned, ["x is uint64 and m is int64", "return x"]),
    (calls_numba, ["third: x is uint64 and 3 is int64"]),
    (calls_ufunc, ["u[i] is uint64 and n[i] is int64", "quotient(u[i], n[i])"]),
    (sums_a_tuple, ["t[0] is uint64 and t[1] is int64", "sum(t) / 2"]),
    (calls_sum, ["summed: x is uint64 and s is int64"]),
    (calls_remainder, ["of_remainder: x is uint64 and 7 is int64"]),
    (chosen_pairs, ["u[i] is uint64 and n[i] is int64", "if n[i] > 0 else"]),
    (assigned_pairs, ["pair[1] is uint64 where", "np.uint64(ordered(n[i], n[i])[1])"]),
    (returned_pairs, ["x is uint64 and m is int64", "return x, m"]),
    (nested_pairs, ["both[1][0] is uint64 where", "np.uint64(n[i])"]),
    (in_place, ["v is uint64 and n[i] is int64", "Write v = v // np.uint64(n[i])"]),
]
WARNED_ROWS = [pytest.param(kernel, parts, id=kernel.__name__) for kernel, parts in WARNED]


@pytest.mark.parametrize(("kernel", "parts"), full_beyond(WARNED_ROWS, WARNED_ROWS[::4]))
def test_warnings_name_both_values_and_places(kernel, parts) -> None:
    found = _warned(kernel, U, N, np.zeros(2))
    assert len(found) == 1  # once for the same arguments
    assert all(part in found[0] for part in parts), found[0]
    assert "test_signs.py:" in found[0]


def test_a_variable_is_named_with_both_lines() -> None:
    (found,) = _warned(grown, U, N, np.zeros(2, np.uint64))
    first, second = _line(grown, "s = u[i]"), _line(grown, "s = s * n[i]")
    assert f"s is uint64 where line {first} assigns it and int64 where line {second} does" in found


@pytest.mark.parametrize(
    ("kernel", "first"),
    [
        (modular, U),
        (returned_bits, U),
        (small_sums, SMALL),
        (counted, U),
        (shifted_before, U),
        (calls_modular_sum, U),
        (bits_of_pairs, U),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_nothing_is_said_where_no_result_differs(kernel, first) -> None:
    assert _warned(kernel, first, N, np.zeros(2, np.uint64)) == []


def test_a_right_shift_of_both_signs_is_refused() -> None:
    with kd.use("cpu"), pytest.raises(kd.KernelTypingError) as caught:
        shifted[1, 2](U, N, np.zeros(2, np.uint64))
    text = str(caught.value)
    assert "h is uint64 where line" in text
    assert "A right shift brings in zeros for uint64" in text
    assert "np.uint64(n[i])" in text


@pytest.mark.full
def test_the_cache_of_another_process_warns_too(tmp_path, monkeypatch) -> None:
    """Code that is found in the cache is warned of as code that is compiled."""
    import subprocess
    import sys

    script = tmp_path / "divides.py"
    script.write_text(
        "import numpy as np, kerneldsl as kd\n"
        "@kd.kernel\n"
        "def divided(u, n, out):\n"
        "    i = kd.grid(1)\n"
        "    out[i] = u[i] // n[i]\n"
        "u, n = np.array([2**63 + 5], np.uint64), np.array([-1], np.int64)\n"
        "divided[1, 1](u, n, np.zeros(1))\n"
        "print(kd.cache.stats().hits)\n"
    )
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("KERNELDSL_TARGET", "cpu")
    monkeypatch.delenv("KERNELDSL_CACHE", raising=False)
    for hits in ("0", "1"):
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == hits
        assert done.stderr.count("u[i] is uint64 and n[i] is int64") == 1


@kd.func
def bits(word, first):
    return word >> np.uint64(first) & np.uint64(255)


@kd.kernel
def given_both(u, n, out):
    i = kd.grid(1)
    out[i] = bits(u[i], n[i])


def test_a_call_with_both_mixes_nothing() -> None:
    out = np.zeros(2, np.uint64)
    assert _warned(given_both, U, np.array([0, 1]), out) == []
    assert out.tolist() == [5, 3]


def test_another_variable_of_the_same_value_may_be_shifted() -> None:
    @kd.kernel
    def shifts_another(u, n, out):
        i = kd.grid(1)
        signed = n[i] if n[i] != 5 else np.int64(7)
        mixed = u[i]
        if u[i] > 3:
            mixed = signed
        for _ in range(4):
            signed = signed >> 1
        out[i] = mixed + signed

    out = np.zeros(2, np.uint64)
    with kd.use("cpu"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shifts_another[1, 2](U, N, out)
    mixed = np.where(U > 3, N, U.astype(np.int64))
    assert out.tolist() == (mixed + (N >> 4)).astype(np.uint64).tolist()
