"""Calls that LLVM makes with vectors: products of bytes, and prefetches."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kerneldsl as kd
from targets.cpu.codegen.levels import features_in_use

THREADS = 16
HAS_VNNI = {"avx512vnni", "avx512vl"} <= features_in_use()


@kd.kernel(wraparound=False)
def products(words, x, out):
    """Add the products of a row of bytes, chunk by chunk and then what is left."""
    row, t = kd.blockIdx.x, kd.threadIdx.x
    count = words.shape[1]
    whole = count // THREADS
    total = kd.int32(0)
    for chunk in range(whole):
        k = chunk * THREADS + t
        total = kd.dot4(kd.load(words, (row, k), cache="streaming"), x[k], total)
    if whole * THREADS + t < count:
        k = whole * THREADS + t
        total = kd.dot4(words[row, k], x[k], total)
    out[row, t] = total


@kd.kernel(wraparound=False)
def plain(words, x, out):
    row, t = kd.blockIdx.x, kd.threadIdx.x
    total = kd.int32(0)
    for chunk in range(words.shape[1] // THREADS):
        k = chunk * THREADS + t
        total = kd.dot4(words[row, k], x[k], total)
    out[row, t] = total


@pytest.mark.parametrize("first", ["int32", "uint32"])
@pytest.mark.parametrize("second", ["int32", "uint32"])
@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 67])
def test_products_of_vectors_are_exact(rng, first, second, count):
    ends = np.array([-128, 127, 0, -1], np.int8)
    narrow = {"int32": np.int8, "uint32": np.uint8}
    bytes_of_words = rng.choice(ends, (5, 2 * count, 4)).view(narrow[first])[:, ::2]
    words = rng.integers(-(2**31), 2**31, (5, 2 * count)).astype(np.int32).view(first)[:, ::2]
    words[1:] = np.ascontiguousarray(bytes_of_words[1:]).view(first)[..., 0]
    x = rng.integers(-(2**31), 2**31, count).astype(np.int32).view(second)
    out = np.empty((5, THREADS), np.int32)
    with kd.use("cpu"):
        products[5, THREADS](words, x, out)
    pairs = (
        np.ascontiguousarray(each)[..., None].view(narrow[kind]).astype(np.int64)
        for each, kind in ((words, first), (x, second))
    )
    expected = np.zeros((5, count + THREADS), np.int64)
    expected[:, :count] = np.multiply(*pairs).sum(axis=2)
    for t in range(THREADS):
        assert np.array_equal(out[:, t], expected[:, t::THREADS].sum(axis=1))


def _assembly(kernel, first):
    signature = f"{first}[:, ::1], int32[::1], int32[:, ::1]"
    return kernel.artifact(signature, target="cpu", block=THREADS).text("asm")


@pytest.mark.skipif(not HAS_VNNI, reason="the processor has no AVX512-VNNI")
@pytest.mark.parametrize("first", ["int32", "uint32"])
def test_neighbouring_threads_multiply_by_one_instruction(first):
    text = _assembly(plain, first)
    assert re.search(r"vpdpbusd\s.*%zmm", text)
    assert not re.search(r"vpdpbusd\s.*%ymm", text)
    assert "kerneldsl." not in text


@pytest.mark.skipif(not HAS_VNNI, reason="the processor has no AVX512-VNNI")
def test_vectors_that_are_read_once_are_prefetched():
    text = _assembly(products, "uint32")
    assert "prefetcht0" in text
    assert "vmovq" not in text, "an address is computed in vectors"
    assert "prefetch" not in _assembly(plain, "uint32")
