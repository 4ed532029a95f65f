"""Stores of floats byte by byte: the lowest byte is the result of an integer instruction."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kerneldsl as kd


@kd.kernel
def write(a, x):
    i = kd.grid(1)
    a[i]["x"] = x[i] * 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
def test_no_float_register_is_stored_as_a_byte(dtype: type):
    packed = np.dtype([("flag", np.int8), ("x", dtype)])
    with kd.use("null"):
        arrays = kd.to_device(np.zeros(4, packed)), kd.to_device(np.zeros(4, dtype))
        ptx = write.ptx(*arrays, arch="sm_90")
    stored = re.findall(r"st\.global\.b8\s+\[[^]]+\], (%\w+);", ptx)
    assert len(stored) == np.dtype(dtype).itemsize
    floats = set(re.findall(r"(?:add|mul|fma|sub)[.\w]*\.f(?:32|64)\s+(%\w+),", ptx))
    assert floats
    assert not floats & set(stored)
    assert "bfe.u32" in ptx


_POINT = np.dtype([("tag", np.int8), ("x", np.float32), ("v", np.float64)], align=True)


@kd.kernel
def copy(a, b):
    i = kd.grid(1)
    a[i]["point"]["x"] = np.float32(i)
    b[i] = a[i]["point"]


def test_no_float_that_a_record_is_copied_with_is_stored_as_a_byte():
    """LLVM copies what it has just stored, a byte at a time where the other record is packed."""
    aligned = np.dtype([("k", np.int8), ("point", _POINT)], align=True)
    with kd.use("null"):
        arrays = kd.to_device(np.zeros(4, aligned)), kd.to_device(np.zeros(4, _POINT))
        ptx = copy.ptx(*arrays, arch="sm_90")
    stores = re.findall(r"st\.global\.b8\s+\[[^]]+\], (%\w+);", ptx)
    assert len(stores) >= 8
    floats = set(re.findall(r"cvt\.rn\.f32[.\w]*\s+(%\w+),", ptx))
    assert floats
    assert not floats & set(stores)
