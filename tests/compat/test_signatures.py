"""Parameters that are types, and what is known of the code of a signature."""

from __future__ import annotations

import pickle

import numba
import numpy as np
import pytest
from numba import errors, types

import kerneldsl as kd
from kerneldsl import cuda
from tests.support.targets import require


@pytest.fixture(autouse=True, params=["cpu", "cuda"])
def target(request):
    if request.param != "cpu":
        require(request.param)
    with kd.use(request.param):
        yield request.param


def reverse(out, dtype):
    shared = cuda.shared.array(32, dtype)
    i = cuda.threadIdx.x
    shared[i] = out[i]
    cuda.syncthreads()
    out[i] = shared[31 - i]


@pytest.mark.parametrize(("dtype", "nbytes"), [(np.int32, 128), (np.float64, 256)])
def test_a_parameter_that_is_a_type(dtype, nbytes):
    declared = cuda.jit(types.void(types.int32[::1], numba.typeof(dtype)))(reverse)
    assert declared.get_shared_mem_per_block() == nbytes
    found = cuda.jit(reverse).specialize(np.zeros(32, np.int32), dtype)
    assert found.get_shared_mem_per_block() == nbytes
    x = np.arange(32, dtype=np.int32)
    found[1, 32](x)
    assert x.tolist() == list(range(31, -1, -1))


def test_shared_memory_that_the_compiler_removes_counts():
    @cuda.jit
    def kernel(x):
        first = cuda.shared.array(3, x.dtype)
        second = cuda.shared.array((1, 5), np.int8)
        first[0] = x[0]
        second[0, 4] = 1
        x[1] = first[0] + second[0, 4]

    for dtype, nbytes in ((np.float32, 16 + 5), (np.float64, 32 + 5)):
        kernel[1, 1](x := np.arange(1, 3, dtype=dtype))
        assert x.tolist() == [1, 2]
        assert (
            kernel.get_shared_mem_per_block((types.Array(numba.typeof(x).dtype, 1, "C"),)) == nbytes
        )
    assert list(kernel.get_shared_mem_per_block().values()) == [21, 37]


def test_one_kernel_for_the_same_types():
    kernel, x = cuda.jit(reverse), np.zeros(32, np.int32)
    found = kernel.specialize(x, np.float32)
    assert kernel.specialize(x, np.float32) is found
    assert kernel.specialize(x, np.float64) is not found
    x = np.arange(32, dtype=np.int32)
    pickle.loads(pickle.dumps(found))[1, 32](x)  # noqa: S301
    assert x.tolist() == list(range(31, -1, -1))


def test_the_code_library():
    @cuda.jit("(float32[::1],)")
    def increment(x):
        x[0] += 1

    (overload,) = increment.overloads.values()
    function = overload._codelibrary.get_cufunc()
    for wanted in ({}, {"prefer_shared": True}, {"prefer_cache": True}, {"prefer_equal": True}):
        function.cache_config(**wanted)
    for carveout in (-1, 0, 50, 100):
        function.set_shared_memory_carveout(carveout)
    for carveout in (-2, 101):
        with pytest.raises(ValueError, match="between -1 and 100"):
            function.set_shared_memory_carveout(carveout)
    assert overload._codelibrary._linking_files == set()
    x = np.zeros(1, np.float32)
    increment[1, 1](x)
    assert x[0] == 1


def test_functions_of_the_cpu_alone():
    @numba.jit("(i4, i4)")
    def add(a, b):
        return a + b

    @cuda.jit
    def kernel(x):
        x[0] = add(x[0], 1)

    with pytest.raises(numba.errors.TypingError, match="name 'add': using cpu function on device"):
        kernel[1, 1](np.zeros(1, np.int32))


def test_an_array_of_negative_strides_is_not_copied():
    x = cuda.to_device(np.arange(4.0))
    with pytest.raises(NotImplementedError, match="not implemented for negative strides"):
        x[::-1].copy_to_host()
    assert x[::2].copy_to_host().tolist() == [0, 2]
    y = cuda.to_device(np.zeros(4, np.float32))
    y[:] = x[::-1]
    assert y.copy_to_host().tolist() == [3, 2, 1, 0]


class TestDeviceFunctionsForSeveralSignatures:
    """Each call has the signature that fits it best, and converts numbers to it."""

    def test_the_best_one(self):
        @cuda.jit(["int64(int64, int64)", "float64(float64, float64)"], device=True)
        def third(x, y):
            return (x + y) / 3

        @cuda.jit
        def kernel(out, i, f):
            out[0] = third(i[0], i[1])
            out[1] = third(f[0], f[1])
            out[2] = third(i[0], f[1])
            out[3] = third(7, 4)

        out = np.full(4, -7.0)
        kernel[1, 1](out, np.array([4, 3], np.int32), np.array([1.5, 4], np.float32))
        assert out.tolist() == [2, 5.5 / 3, 8 / 3, 3]

    def test_captured_and_given_arrays(self):
        table = cuda.to_device(np.array([2.5, -1]))

        @cuda.jit(["float64(float64[::1], int64)", "float32(float32[::1], int64)"], device=True)
        def read(x, i):
            return x[i] * table[0]

        @cuda.jit
        def kernel(out, wide, narrow):
            out[0] = read(wide, np.int32(1))
            out[1] = read(narrow, 0)

        out = np.full(2, -7.0)
        kernel[1, 1](out, np.array([0, 1.1]), np.array([1.1], np.float32))
        assert out.tolist() == [2.75, float(np.float32(2.5 * np.float32(1.1)))]

    def test_given_functions(self):
        @cuda.jit(device=True)
        def double(x):
            return 2 * x

        @cuda.jit(["(int64, int64)", "(float64, float64)"], device=True)
        def total(x, y):
            return x + y

        @cuda.jit
        def kernel(out):
            out[0] = double(total(1, 2))
            out[1] = total(y=0.5, x=2)

        out = np.full(2, -7.0)
        kernel[1, 1](out)
        assert out.tolist() == [6, 2.5]

    def test_others_are_refused(self):
        @cuda.jit(["(int64, int64)", "(float64, float64)"], device=True)
        def total(x, y):
            return x + y

        @cuda.jit
        def kernel(out):
            out[0] = total(out[0], 1).real

        words = r"Invalid use of type\(.*total.*\) with parameters \(complex128, int64\)"
        with pytest.raises(errors.TypingError, match=words):
            kernel[1, 1](np.zeros(1, np.complex128))
