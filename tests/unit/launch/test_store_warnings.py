"""A float that is stored in an integer array is warned of, once for each compilation."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import kerneldsl as kd


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
    *_, line, caret = text.splitlines()
    assert code.co_firstlineno < warning.lineno < code.co_firstlineno + 8
    start = caret.index("^")
    assert line[start : start + caret.count("^")] == shown


@pytest.mark.parametrize("out", [np.int32, np.int64, np.uint16])
def test_what_is_meant_is_not_warned_of(out):
    assert _warnings(kd.kernel(says_so.function), np.ones(8), np.zeros(8, out)) == []


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
