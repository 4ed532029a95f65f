"""Numba's types of what functions are compiled for, as programs write and look them up."""

from __future__ import annotations

import numpy as np
import pytest
from numba import types
from numba.np.numpy_support import from_dtype

import kerneldsl as kd
from kerneldsl import cuda

POINT = np.dtype([("a", np.int32), ("b", np.float32)], align=True)
PACKED = np.dtype([("a", np.int8), ("p", np.dtype([("x", np.int16)])), ("m", np.float16, (2,))])


@cuda.jit
def copy_first(out, x):
    out[0] = x[0]


@pytest.mark.parametrize(
    "dtype", ["float16", "bool", "complex64", "datetime64[D]", "timedelta64[ms]", POINT, PACKED]
)
def test_overloads_are_found_by_numbas_types(dtype):
    x = np.ones(3, "int64").astype(dtype) if isinstance(dtype, str) else np.ones(3, dtype)
    array = from_dtype(np.dtype(dtype))[::1]
    with kd.use("cpu"):
        kernel = cuda.jit(copy_first.py_func)
        out = np.zeros_like(x)
        kernel[1, 1](out, x)
        assert out[0] == x[0]
        assert list(kernel.overloads) == [(array, array)]
        declared = cuda.jit(types.void(array, array))(copy_first.py_func)
        assert declared.overloads[array, array].signature == types.void(array, array)
        assert cuda.to_device(x)._numba_type_ == array


def test_records_are_numbas():
    record = np.zeros(1, POINT)[0]
    with kd.use("cpu"):
        assert cuda.to_device(record)._numba_type_ == from_dtype(POINT)

        @cuda.jit(types.void(types.float32[::1], from_dtype(POINT)))
        def read(out, r):
            out[0] = r["b"]

        out, record["b"] = np.zeros(1, np.float32), 7
        read[1, 1](out, record)
    assert out[0] == 7


def test_types_that_numba_has_not():
    array = types.Array(cuda.types.bfloat16, 1, "C")
    assert str(array.dtype) == "bfloat16"
    assert list(cuda.jit(types.void(array, array))(copy_first.py_func).overloads) == [
        (array, array)
    ]
    with pytest.raises(AttributeError, match="float12"):
        cuda.types.float12


def test_the_result_of_a_ufunc_may_be_left_out():
    day = from_dtype(np.dtype("datetime64[D]"))
    with kd.use("cpu"):

        @cuda.vectorize([(day, day), (types.int32, types.float64)])
        def difference(start, end):
            return end - start

        x = np.arange("2005-02", "2006-02", dtype="datetime64[D]")
        y = x + np.arange(x.size)[::-1]
        found = difference(x, y)
        assert found.dtype == np.dtype("timedelta64[D]")
        assert (found == y - x).all()
        ones = np.ones(3)
        assert difference(np.arange(3, dtype=np.int32), ones).tolist() == [1, 0, -1]
