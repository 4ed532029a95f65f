"""A float that is stored in an integer array is warned of, once for each compilation."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.extent import full_beyond


@kd.kernel
def halves(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] * 0.5


@kd.func
def put(out, i, value):
    out[i] = value


@kd.kernel
def halves_elsewhere(x, out):
    i = kd.grid(1)
    if i < out.size:
        put(out, i, x[i] / 2)


@kd.kernel
def grows(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] += x[i] * 0.5


@kd.kernel
def local_halves(x, out):
    kept = kd.local.array(1, np.int32)
    i = kd.grid(1)
    if i < out.size:
        kept[0] = x[i] * 0.5
        out[i] = kept[0]


ZERO = 0.0


@kd.kernel
def says_so(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = int(x[i] * 0.5)
        out[i] = np.int32(x[i])
        out[i] = math.floor(x[i])
        out[i] = np.rint(x[i])
        out[i] = x[i] // 2.0
        out[i] = round(x[i])
        out[i] = 0.0
        out[i] = -1.0
        out[i] = ZERO
        out[i] = x[i] > 0.5
        out[i] += 1


def _warnings(kernel, *args, target="cpu"):
    with warnings.catch_warnings(record=True) as caught, kd.use(target):
        warnings.simplefilter("always")
        kernel.forall(8)(*args)
        kernel.forall(4)(*args)
    return [each for each in caught if issubclass(each.category, kd.KernelWarning)]


@pytest.mark.parametrize("target", ["cpu", "null"])
@pytest.mark.parametrize(
    ("kernel", "out", "place", "shown", "value"),
    [
        (halves, np.int32, halves, "x[i] * 0.5", "float64"),
        (halves, np.uint8, halves, "x[i] * 0.5", "float64"),
        (halves_elsewhere, np.int64, put, "value", "float64"),
        (grows, np.int32, grows, "out[i] += x[i] * 0.5", "float64"),
        (local_halves, np.float64, local_halves, "x[i] * 0.5", "float64"),
    ],
)
def test_a_warning_names_types_place_and_remedy(target, kernel, out, place, shown, value):
    anew = kd.kernel(kernel.function)
    (warning,) = _warnings(anew, np.ones(8), np.zeros(8, out), target=target)
    element = "int32" if out is np.float64 else np.dtype(out).name
    text = str(warning.message)
    assert f"{value} is stored in an element of type {element}" in text
    assert "int(…)" in text
    assert "astype" in text
    code = place.function.__code__
    assert warning.filename == code.co_filename
    assert code.co_firstlineno < warning.lineno < code.co_firstlineno + 8
    assert f"in `{shown}`" in text
    printed = warnings.formatwarning(
        warning.message, warning.category, warning.filename, warning.lineno
    )
    _message, line = printed.splitlines()  # the source line once
    assert shown in line
    with kd.use(target), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(kd.KernelWarning) as raised:
            kd.kernel(kernel.function).forall(8)(np.ones(8), np.zeros(8, out))
    _head, line, caret = raised.value.__notes__[0].splitlines()
    start = caret.index("^")
    assert line[start : start + caret.count("^")] == shown


@pytest.mark.parametrize("out", [np.int32, np.int64, np.uint16])
def test_what_is_meant_is_not_warned_of(out):
    assert _warnings(kd.kernel(says_so.function), np.ones(8), np.zeros(8, out)) == []


@kd.kernel
def powers(x, y, out):
    i = kd.grid(1)
    n = -3
    out[i] = x[i] ** -1
    out[i] = np.power(x[i], -2) + x[i] ** n + pow(x[i], ORDER)
    x[i] **= -1
    out[i] = 2**-1 + y[i] ** -1 + np.power(y[i], -2) + float(x[i]) ** -1  # floats
    out[i] = x[i] ** 2 + x[i] ** x[i]  # of exponents that may be negative


ORDER = -4


@pytest.mark.parametrize("target", ["cpu", "null"])
@pytest.mark.parametrize("dtype", full_beyond(["int8", "int64", "uint64"], ["int64"]))
def test_negative_powers_of_integers(dtype, target) -> None:
    args = np.ones(8, dtype), np.ones(8), np.zeros(8)
    found = [
        str(each.message) for each in _warnings(kd.kernel(powers.function), *args, target=target)
    ]
    places = ("x[i] ** -1", "np.power(x[i], -2)", "x[i] ** n", "pow(x[i], ORDER)", "x[i] **= -1")
    assert len(found) == len(places)
    for text, place in zip(found, places, strict=True):
        assert f"powers: {place} is a power of integers with a negative exponent" in text
        assert "float(x[i])" in text


@pytest.mark.parametrize("out", [np.float32, np.float64, np.float16])
def test_float_arrays_are_not_warned_of(out):
    assert _warnings(kd.kernel(halves.function), np.ones(8), np.zeros(8, out)) == []


def test_integers_are_not_warned_of():
    @kd.kernel
    def doubles(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = x[i] * 2

    assert _warnings(doubles, np.ones(8, np.int64), np.zeros(8, np.int8)) == []


@kd.kernel
def places_or_values(x, out, *, gives_places):
    i = kd.grid(1)
    if i < out.size:
        if gives_places:
            out[i] = i
        else:
            out[i] = x[i]


def test_a_branch_that_the_compiler_drops_is_not_warned_of():
    x, out = np.ones(8), np.zeros(8, np.int64)
    with kd.use("cpu"), warnings.catch_warnings():
        warnings.simplefilter("error", kd.errors.KernelWarning)
        places_or_values.forall(8)(x, out, gives_places=True)
    np.testing.assert_array_equal(out, np.arange(8))


@kd.kernel
def differences(a, b, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = abs(a[i] - b[i])


@kd.kernel
def negative_differences(a, b, out):
    i = kd.grid(1)
    if i < out.size:
        d = a[i] - b[i]
        out[i] = 0
        if d < 0:
            out[i] = 1


@kd.kernel
def scaled_differences(a, b, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = (a[i] - b[i]) * 0.5


@kd.kernel
def signed_differences(a, b, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = abs(np.int64(a[i]) - b[i])


@kd.kernel
def squared_differences(a, b, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = (a[i] - b[i]) * (a[i] - b[i])


@pytest.mark.parametrize("dtype", full_beyond(["uint8", "uint32", "uint64"], ["uint64"]))
@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (differences, "abs() leaves it as it is"),
        (negative_differences, "it is never negative"),
        (scaled_differences, "it is converted to float64"),
    ],
)
def test_unsigned_differences_whose_size_matters(kernel, said, dtype) -> None:
    a, b = np.array([9, 5] * 4, dtype), np.array([5, 9] * 4, dtype)
    found = [str(each.message) for each in _warnings(kernel, a, b, np.zeros(8, np.float32))]
    assert any(f"a[i] - b[i] is a uint64, and {said}" in text for text in found), found
    right = "np.int64(b[i])" if dtype == "uint64" else "b[i]"
    assert any(f"Write np.int64(a[i]) - {right}" in text for text in found)


def test_the_remedy_of_differences_is_right() -> None:
    a, b = np.array([9, 5] * 4, np.uint8), np.array([5, 9] * 4, np.uint8)
    out = np.full(8, -1, np.float32)
    assert _warnings(signed_differences, a, b, out) == []
    np.testing.assert_array_equal(out, [4] * 8)


def test_squares_of_differences_are_right_modulo_the_width() -> None:
    a, b = np.array([9, 5] * 4, np.uint8), np.array([5, 9] * 4, np.uint8)
    out = np.full(8, -1, np.float32)
    assert _warnings(squared_differences, a, b, out) == []
    np.testing.assert_array_equal(out, [16] * 8)


@kd.kernel
def mixed_bits(x, out):
    i = kd.grid(1)
    if i < out.size:
        h = x[i]
        for _ in range(2):
            h ^= h >> 16
            h *= 0x85EBCA6B
        out[i] = h


@kd.kernel
def rotated(x, out):
    i = kd.grid(1)
    if i < out.size:
        h = x[i]
        for _ in range(2):
            h = (h << 13) | (h >> 19)
        out[i] = h


@kd.kernel
def generated(x, out):
    i = kd.grid(1)
    if i < out.size:
        s = x[i]
        s = s * 1664525 + 1013904223
        out[i] = s >> 16


@kd.kernel
def reduced_bits(x, out):
    i = kd.grid(1)
    if i < out.size:
        h = x[i]
        for _ in range(2):
            h = np.uint32(h ^ h >> 16)
            h = np.uint32(h * 0x85EBCA6B)
        out[i] = h


@kd.kernel
def halved(x, out):
    i = kd.grid(1)
    if i < out.size:
        n = x[i]
        while n > 1:
            n = 3 * n + 1 if n & 1 else n >> 1
            n >>= 1
        out[i] = n


@pytest.mark.parametrize("kernel", [mixed_bits, rotated, generated])
def test_right_shifts_of_numbers_that_were_uint32(kernel) -> None:
    (found,) = _warnings(kernel, np.arange(8, dtype=np.uint32), np.zeros(8, np.uint32))
    assert "is uint32 where line" in str(found.message)
    assert "not reduced modulo 2**32" in str(found.message)
    assert "np.uint32(" in str(found.message)


@pytest.mark.parametrize("kernel", [reduced_bits, halved])
def test_right_shifts_without_a_warning(kernel) -> None:
    x = np.array([1, 12345, 7, 2**31 + 1, 3, 8, 9, 11], np.uint32)
    out = np.zeros(8, np.uint32)
    assert _warnings(kernel, x, out) == []
    if kernel is reduced_bits:
        for _ in range(2):
            x ^= x >> np.uint32(16)
            x *= np.uint32(0x85EBCA6B)
        np.testing.assert_array_equal(out, x)


@pytest.mark.full
@pytest.mark.parametrize(("value", "warnings_of_each"), [("x[i] * 0.5", 1), ("int(x[i])", 0)])
def test_a_hit_warns_as_a_compilation_and_imports_no_numba(
    value, warnings_of_each, tmp_path, monkeypatch
):
    script = tmp_path / "stores.py"
    script.write_text(
        "import sys, numpy as np, kerneldsl as kd\n"
        "@kd.kernel\n"
        "def stores(x, out):\n"
        "    i = kd.grid(1)\n"
        f"    out[i] = {value}\n"
        "stores[1, 1](np.ones(1), np.zeros(1, np.int32))\n"
        "print(kd.cache.stats().hits, 'numba' in sys.modules)\n"
    )
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("KERNELDSL_TARGET", "cpu")
    monkeypatch.delenv("KERNELDSL_CACHE", raising=False)
    for printed in ("0 True", "1 False"):
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == printed
        assert done.stderr.count("cuts off its fraction") == warnings_of_each
