"""Signatures as Numba's users write them: text, objects, lists."""

from __future__ import annotations

import subprocess
import sys

import numba
import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.language.kinds import ScalarKind, format_signature
from kerneldsl.language.records import record_name
from kerneldsl.language.signatures import parse_signature, read_signature, read_signatures


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("void(float64[:], int32)", "float64[:], int32"),
        ("none(f8)", "float64"),
        ("void()", ""),
        ("()", ""),
        ("", ""),
        ("(f8[:])", "float64[:]"),
        ("double, float_, intc, long_, uchar", "float64, float32, int32, int64, uint8"),
        ("numba.float64[:], types.int8", "float64[:], int8"),
        ("f4[:, ::1], f4[::1, :], f4[:,:], f4[()]",
         "float32[:, ::1], float32[::1, :], float32[:, :], float32[()]"),
        ("UniTuple(i4, 2), Tuple((f8, i8[:]))", "(int32, int32), (float64, int64[:])"),
        ("Tuple((f8,))", "(float64,),"),
        ("f8,\n  f8", "float64, float64"),
        ("(f8[:],),", "(float64[:],),"),
        ("f8,", "float64"),
        ("datetime64[D], timedelta64[ms][:, ::1]", "datetime64[D], timedelta64[ms][:, ::1]"),
    ],
)  # fmt: skip
def test_texts(text: str, kinds: str) -> None:
    assert format_signature(parse_signature(text)) == kinds
    assert parse_signature(kinds) == parse_signature(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("f8 f8", "a comma between two"),
        ("f8), (f8", "a comma between two"),
        ("float64(float64)", "it returns float64, and kernels return nothing"),
        ("f9[:]", "unknown dtype 'f9'"),
        ("f8[::2]", "axes must be ':' or one '::1', found f8[::2]"),
        ("f8[:, ::1, :]", "'::1' must stand first or last"),
        ("3", "cannot read '3'"),
        ("datetime64[q]", "unknown dtype 'datetime64'"),
        ("pkg.float64", "cannot read"),
        ("UniTuple(f8, -1)", "cannot read"),
        ("(f8[:],)", "is a tuple of one. Write 'f8[:]' for a parameter that is not a tuple, or "),
    ],
)
def test_texts_that_mean_nothing(text: str, why: str) -> None:
    with pytest.raises(ValueError, match="signature") as info:
        parse_signature(text)
    assert why in str(info.value)


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        (numba.void(numba.float64[:], numba.int32), "float64[:], int32"),
        ((numba.float32[:, ::1], numba.types.boolean), "float32[:, ::1], bool"),
        ((numba.types.UniTuple(numba.int32, 2), "f8"), "(int32, int32), float64"),
        ((numba.types.Tuple((numba.int32, numba.double)),), "(int32, float64)"),
        (numba.float64[::1], "float64[::1]"),
        (("f4", "(i4,)"), "float32, (int32,)"),
    ],
)
def test_objects(value: object, kinds: str) -> None:
    assert format_signature(read_signature(value)) == kinds


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (numba.float64(numba.float64), "kernels return nothing"),
        ((numba.types.unicode_type,), "unicode_type is the type of no argument"),
        (5, "5 is the type of no argument"),
        ((None,), "None is the type of no argument"),
    ],
)
def test_objects_that_mean_nothing(value: object, why: str) -> None:
    with pytest.raises(ValueError, match="signature") as info:
        read_signatures(value)
    assert why in str(info.value)


def test_reading_a_text_does_not_import_numba() -> None:
    code = (
        "import sys; from kerneldsl.language.signatures import read_signatures as r; "
        "r(['void(f8[:])', 'f4[:]']); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def _scale(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]


@pytest.mark.parametrize(
    "signature",
    [
        "(f8[:], f8[:])",
        "void(float64[:], float64[::1])",
        numba.void(numba.float64[:], numba.float64[:]),
        (numba.float64[:], numba.float64[:]),
        [numba.void(numba.float32[:], numba.float32[:]), "(double[:], double[:])"],
    ],
)
def test_kernels_take_them(signature: object) -> None:
    kernel = kd.kernel(signature)(_scale)
    out = np.zeros(4)
    with kd.use("cpu"):
        kernel.forall(4)(np.arange(4.0), out)
    np.testing.assert_array_equal(out, [0, 2, 4, 6])
    with kd.use("cpu"), pytest.raises(kd.ArgumentTypeError, match=r"signatures? "):
        kernel.forall(4)(np.arange(4), np.zeros(4, int))


def test_of_a_list_the_arguments_own_is_taken() -> None:
    @kd.kernel(["void(f8, f8[:])", "void(i8, f8[:])", "void(i8, i8[:])"])
    def fill(value, out):
        out[kd.grid(1)] = value / 2

    with kd.use("cpu"):
        out = np.zeros(2)
        fill.forall(2)(3, out)
        np.testing.assert_array_equal(out, 1.5)
        whole = np.zeros(2, np.int64)
        with pytest.warns(kd.KernelWarning, match="cuts off its fraction"):
            fill.forall(2)(np.int32(7), whole)  # fits the third by a conversion
        np.testing.assert_array_equal(whole, 3)
    assert {each.signature for each in fill.specializations} == {
        "int64, float64[:]", "int64, int64[:]"
    }  # fmt: skip


def test_inspection_takes_them() -> None:
    kernel = kd.kernel(_scale)
    text = kernel.ptx("(f8[:], f8[:])", arch="sm_90")
    assert "st.global.b64" in text
    assert kernel.ptx(numba.void(numba.double[:], numba.double[:]), arch="sm_90") == text
    with pytest.raises(kd.ArgumentValueError, match="kernels return nothing"):
        kernel.ptx("f8(f8[:], f8[:])", arch="sm_90")


def test_a_dtype_of_numpy_is_a_scalar() -> None:
    pair = np.dtype([("first", np.float32), ("second", np.int64)], align=True)
    whole, record = read_signature((np.dtype(np.int16), pair))
    assert str(whole) == "int16"
    assert record == ScalarKind(record_name(pair) or "")
    with pytest.raises(ValueError, match="is the type of no argument"):
        read_signature((np.dtype("U4"),))


def test_a_record_of_numba_is_a_scalar() -> None:
    record = np.dtype([("step", "f4", (2, 3)), ("count", "i4")])

    def total(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = x["step"][1, i] + x["count"]

    value = np.zeros((), record)
    value["step"] = np.arange(6).reshape(2, 3)
    value["count"] = 10
    out = np.full(3, np.nan, np.float32)
    kernel = kd.kernel(numba.void(numba.from_dtype(record), numba.float32[::1]))(total)
    with kd.use("cpu"):
        kernel[1, 4](value[()], out)
    np.testing.assert_array_equal(out, [13, 14, 15])
