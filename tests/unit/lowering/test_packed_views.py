"""Views of packed numbers: what is refused, what debug mode checks, what PTX does."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd


def _compile(function, signature):
    return kd.kernel(function).ptx(signature, arch="sm_90")


def test_a_number_is_not_written() -> None:
    def kernel(words):
        p = kd.packed(words, kd.int4)
        p[kd.grid(1)] = 3

    with pytest.raises(kd.KernelTypingError, match="Let one thread compute a word"):
        _compile(kernel, "uint32[::1]")


@pytest.mark.parametrize("dtype", ["float32", "int16", "bool"])
def test_words_are_integers(dtype: str) -> None:
    def kernel(words, out):
        out[0] = kd.packed(words, kd.int4)[0]

    with pytest.raises(kd.KernelTypingError, match="words must be an array"):
        _compile(kernel, f"{dtype}[::1], int32[::1]")


def test_an_index_has_as_many_parts_as_there_are_axes() -> None:
    def kernel(words, out):
        out[0] = kd.packed(words, kd.int4)[0]

    with pytest.raises(kd.KernelTypingError, match="2 dimensions, and the index 1"):
        _compile(kernel, "uint32[:, ::1], int32[::1]")


def test_other_dtypes_are_no_packed_numbers() -> None:
    def kernel(words, out):
        out[0] = kd.packed(words, np.int8)[0]

    with pytest.raises(kd.UnsupportedConstructError, match=r"kd\.ternary"):
        _compile(kernel, "uint32[::1], int32[::1]")


def test_a_word_has_32_bits() -> None:
    def kernel(words, out):
        out[0] = kd.unpack(words[0], kd.int4)[0]

    with pytest.raises(kd.KernelTypingError, match=r"array\.view\(np\.uint32\)"):
        _compile(kernel, "uint8[::1], int32[::1]")


def test_debug_mode_checks_the_place_of_a_number() -> None:
    @kd.kernel(debug=True)
    def beyond(words, out):
        i = kd.grid(1)
        p = kd.packed(words, kd.int2)
        out[i] = p[i]

    with (
        kd.use("cpu"),
        pytest.raises(kd.KernelFault, match=r"Index 32 .* axis 0 of p with extent 32"),
    ):
        beyond[1, 33](np.zeros(2, np.uint32), np.zeros(33, np.int32))


def test_a_word_of_two_bits_is_looked_up() -> None:
    def kernel(words, x, out):
        i = kd.grid(1)
        parts = kd.unpack(words[i], kd.ternary)
        total = kd.int32(0)
        for q in range(4):
            total = kd.dot4(parts[q], x[q], total)
        out[i] = total

    ptx = _compile(kernel, "uint32[::1], int32[::1], int32[::1]")
    assert ptx.count("prmt.b32") == 8
    assert ptx.count("dp4a") == 4
