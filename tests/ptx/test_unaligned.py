"""Accesses by the alignment that is known.

Stores of floats byte by byte: the lowest byte is the result of an integer instruction. Complex
numbers in memory of a kernel: one access.
"""

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


#: All real parts are equal, so that LLVM may know those.
TABLE = np.full(9, 0.5) + 1j * np.arange(9)


@kd.kernel
def own_memory(x, out):
    shared = kd.shared.array(64, x.dtype)
    mine = kd.local.array(3, x.dtype)
    t = kd.grid(1)
    shared[t] = x[t]
    for j in range(3):
        mine[j] = x[(t + j) % 64] * TABLE[t % 9]
    kd.syncthreads()
    out[t] = shared[63 - t] + mine[t % 3]


@pytest.mark.parametrize(("dtype", "width"), [("complex64", 32), ("complex128", 64)])
def test_complex_numbers_of_the_kernel_itself_are_one_access(dtype: str, width: int):
    ptx = own_memory.ptx(f"{dtype}[::1], complex128[::1]", arch="sm_90", block=64)
    for place in ("ld.shared", "st.shared", "ld.local", "st.local"):
        assert place in ptx
        assert not re.search(rf"{place}\.b{width}\s", ptx)
    assert f"ld.shared.v2.b{width}" in ptx
    assert re.search(r"ld\.global\S*\.v2\.b64", ptx)  # the table
