"""Parameters ``*rest``, signatures of device functions, and alignments of arrays."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl import cuda


def total(first, *rest):
    for each in rest:
        first += each
    return first


@kd.kernel
def sums(out, *arrays):
    i = kd.grid(1)
    found = 0.0
    for array in arrays:
        found += array[i]
    out[i] = found + total(1, 2, 3) + total(1)


@cuda.jit("int32(int32, int32)", device=True)
def whole_sum(x, y):
    return x + y


@cuda.jit
def converted(out, x, y):
    out[0] = whole_sum(x, y)


@kd.kernel
def aligned(x):
    held = kd.shared.array(4, np.float32, alignment=256)
    own = kd.local.array(4, np.float32, 64)
    i = kd.threadIdx.x
    held[i] = x[i]
    kd.syncthreads()
    for j in range(4):
        own[j] = held[3 - j]
    x[i] = own[i]


@kd.kernel
def misaligned(x):
    held = kd.shared.array(4, np.float32, alignment=24)
    x[0] = held[0]


@pytest.fixture(autouse=True)
def cpu():
    with kd.use("cpu"):
        yield


@pytest.mark.parametrize("count", [0, 1, 3])
def test_rest_of_a_kernel_and_of_a_function(count):
    out = np.zeros(4)
    for _ in range(40):
        sums[1, 4](out, *[np.ones(4)] * count)
    assert out.tolist() == [count + 7] * 4


def test_a_signature_has_the_rest_as_a_tuple():
    one, two = (
        sums.ptx(f"float64[::1], ({', '.join(['float64[::1]'] * count)},)", arch="sm_90")
        for count in (1, 2)
    )
    assert two.count("ld.global") == one.count("ld.global") + 1


def test_a_signature_converts():
    out = np.zeros(1)
    converted[1, 1](out, 1.5, 2.5)
    assert out[0] == 3


def test_alignment():
    x = np.arange(4, dtype=np.float32)
    aligned[1, 4](x)
    assert x.tolist() == [3, 2, 1, 0]
    ptx = aligned.ptx("float32[::1]", arch="sm_90")
    assert ".shared .align 256" in ptx
    with pytest.raises(ValueError, match="Alignment must be a power of two, and is 24"):
        misaligned[1, 4](x)
