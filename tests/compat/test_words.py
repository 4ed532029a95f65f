"""What kernels of numba.cuda's programs say, beyond kerneldsl's own vocabulary."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import traceback
import warnings

import numba
import numpy as np
import pytest
from numba import errors, float64, from_dtype, types, void

import kerneldsl as kd
from kerneldsl import cuda
from tests.support.targets import require

RECORD = np.dtype([("a", np.float64), ("g", np.int32), ("h", np.float32, 2)])


class Foreign:
    """An array of another library."""

    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


@pytest.fixture(autouse=True)
def cpu():
    with kd.use("cpu"):
        yield


class TestWrittenRecords:
    @staticmethod
    @cuda.jit
    def write(record, x):
        record.a = x[0]
        record["h"][1] = np.float32(3)
        record.g += np.int32(2)

    def test_of_the_host(self):
        records, x = np.zeros(2, RECORD), np.array([5.0])
        self.write[1, 1](records[1], x)
        self.write[1, 1](records[1], x)
        expected = np.array([(0, 0, (0, 0)), (5, 4, (0, 3))], RECORD)
        assert records.tobytes() == expected.tobytes()

    def test_of_the_device(self):
        record = cuda.to_device(np.zeros(1, RECORD)[0])
        self.write[1, 1](record, np.array([-0.0]))
        found = record.copy_to_host()[()]
        assert np.signbit(found["a"])
        assert found["g"] == 2
        assert found["h"].tolist() == [0, 3]

    def test_one_that_is_read_keeps_its_bytes(self):
        @cuda.jit
        def read(record, out):
            out[0] = record.a + record[1]

        record, out = np.array([(2.5, 4, (1, 1))], RECORD)[0], np.full(1, np.nan)
        read[1, 1](record, out)
        assert out[0] == 6.5

    def test_of_a_declared_signature(self):
        declared = void(from_dtype(RECORD), float64[::1])
        write = cuda.jit(declared)(self.write.py_func)
        records, device = np.zeros(2, RECORD), cuda.to_device(np.zeros(1, RECORD)[0])
        for record in (records[1], device):
            write[1, 1](record, np.array([5.0]))
        expected = np.array([(0, 0, (0, 0)), (5, 2, (0, 3))], RECORD)
        assert records.tobytes() == expected.tobytes()
        assert device.copy_to_host()[()] == expected[1]

    def test_parts_of_one_that_a_function_is_given(self):
        @cuda.jit(device=True)
        def second(part):
            return part[1]

        @cuda.jit(void(from_dtype(RECORD), float64[::1]))
        def read(record, out):
            out[0] = second(record["h"]) + record["a"]

        record, out = np.array([(2.5, 4, (1, 7))], RECORD)[0], np.full(1, np.nan)
        for each in (record, cuda.to_device(record)):
            out[0] = np.nan
            read[1, 1](each, out)
            assert out[0] == 9.5


class TestCapturedDeviceArrays:
    @pytest.mark.parametrize("make", [lambda x: x, Foreign])
    def test_functions_read_and_kernels_write(self, make):
        table = make(cuda.to_device(np.arange(6.0).reshape(3, 2)))
        into = make(cuda.to_device(np.full(6, np.nan)))

        @cuda.jit(device=True)
        def element(i):
            return table[i // 2, i % 2]

        @cuda.jit
        def kernel(scale):
            i = cuda.grid(1)
            if i < 6:
                into[i] = scale * element(i) + table[0, 1]

        kernel[1, 8](2.0)
        kernel[1, 8](3.0)
        found = getattr(into, "array", into).copy_to_host()
        assert found.tolist() == [1, 4, 7, 10, 13, 16]

    def test_of_a_declared_signature(self):
        table = cuda.to_device(np.arange(4.0))

        @cuda.jit("void(float64[:])")
        def kernel(out):
            i = cuda.grid(1)
            out[i] = table[3 - i]

        out = np.full(4, np.nan)
        kernel[1, 4](out)
        assert out.tolist() == [3, 2, 1, 0]

    def test_without_axes(self):
        number = cuda.to_device(np.array(21.0))

        @cuda.jit
        def kernel(out):
            out[()] = 2 * number[()]

        out = cuda.device_array((), np.float64)
        kernel[1, 1](out)
        assert out.copy_to_host() == 42

    def test_it_may_overlap_an_argument(self):
        shared = cuda.to_device(np.arange(5.0))

        @cuda.jit
        def kernel(out):
            for i in range(4):
                out[i + 1] = shared[i]

        kernel[1, 1](shared)
        assert shared.copy_to_host().tolist() == [0] * 5

    def test_kernels_of_kerneldsl_refuse_it(self):
        table = kd.to_device(np.arange(4.0))

        @kd.kernel
        def kernel(out):
            out[kd.grid(1)] = table[kd.grid(1)]

        with pytest.raises(kd.UnsupportedConstructError, match="captures table"):
            kernel[1, 4](np.zeros(4))

    def test_a_message_names_the_users_parameters_alone(self):
        table = cuda.to_device(np.arange(4.0))

        @cuda.jit
        def kernel(out, n):
            out[0] = table[n]

        with pytest.raises(kd.KernelError, match=r"missing 'n'.*\(out, n\)"):
            kernel[1, 1](np.zeros(1))


def test_prints_of_tuples(capfd):
    @cuda.jit
    def kernel(t):
        print(t, cuda.blockDim, (1.5,), ((), True))

    kernel[1, (1, 1, 1)]((1, (-0.0, 3)))
    cuda.synchronize()
    assert capfd.readouterr().out == "(1, (-0.0, 3)) (1, 1, 1) (1.5,) ((), True)\n"


def test_an_index_beyond_a_shape_has_the_words_of_python():
    @cuda.jit(debug=True, opt=False)
    def kernel(x):
        x.shape[-cuda.threadIdx.x]

    with pytest.raises(IndexError, match="tuple index out of range"):
        kernel[1, 3](np.zeros(2))


def test_a_bfloat16_has_six_decimals_in_prints(capfd):
    @cuda.jit
    def kernel():
        a = cuda.bfloat16(0.9375)
        print(a, (a, 1.5))

    kernel[1, 1]()
    cuda.synchronize()
    assert capfd.readouterr().out == "0.937500 (0.937500, 1.5)\n"
    assert "%f (%f, %.15g%s)\n" in texts_in(kernel.ptx(arch="sm_90"))


def texts_in(ptx):
    """Return the constant texts in PTX."""
    found = re.findall(r"\.b8 \w+\[\d+\] = \{([^}]*)\}", ptx)
    return [bytes(map(int, each.split(","))).decode().rstrip("\0") for each in found]


def test_a_print_of_more_values_than_a_gpu_formats(capfd):
    @cuda.jit
    def kernel(t):
        print(t, 0.5, "a")

    values = tuple(range(32))
    with pytest.warns(kd.KernelWarning, match="cannot print more than 32 items.*has 33") as found:
        kernel[1, 1](values)
    assert found[0].filename == __file__
    cuda.synchronize()
    assert capfd.readouterr().out == f"{values} 0.5 a\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kd.KernelWarning)
        ptx = kernel.ptx("(" + ", ".join(["int64"] * 32) + ")", arch="sm_90")
    shown = ", ".join(["%%lld"] * 32)
    assert f"({shown}) %%.15g a\n" in texts_in(ptx)


def test_a_print_of_as_many_values_as_a_gpu_formats(recwarn):
    @cuda.jit
    def kernel(t):
        print(t, "a")

    kernel[1, 1](tuple(range(32)))
    assert not recwarn.list


def test_vectors_that_arrays_do_not_have():
    @cuda.jit
    def kernel(out):
        one, three, four = cuda.uchar1(257), cuda.float3(0.1, 2, 3), cuda.float64x4(1, 2, 3, 0.1)
        out[0] = three.x
        out[1] = four.w + one.x
        out[2] = three.z + cuda.int3(1, 2, 3).y

    out = np.full(3, np.nan)
    kernel[1, 1](out)
    assert out.tolist() == [np.float32(0.1), 1.1, 5]


def test_their_names_are_listed_once():
    from kerneldsl.compat.numba_cuda import vectors

    assert all(callable(getattr(vectors, each)) for each in cuda._VALUES.split())


def test_a_vector_without_an_array_of_them_in_a_fresh_process(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np, kerneldsl as kd\n"
        "@kd.kernel\n"
        "def kernel(out):\n"
        "    v = kd.int16x2(3, -4)\n"
        "    out[0] = v.x + v.y\n"
        "out = np.zeros(1)\n"
        "with kd.use('cpu'):\n"
        "    kernel[1, 1](out)\n"
        "print(out[0])\n"
    )
    command = [sys.executable, str(program)]
    environment = {**os.environ, "KERNELDSL_CACHE": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "-1.0\n"


class TestArraysInRecords:
    def test_numbas_type_is_a_dtype(self):
        kind = from_dtype(RECORD)

        @cuda.jit((kind, kind[:], float64[:]))
        def kernel(record, records, out):
            own = cuda.local.array(2, dtype=kind)
            shared = cuda.shared.array(2, dtype=kind)
            shared[1].h[1] = records[1].h[1] + 1
            own[0].g = record.g
            out[0], out[1] = shared[1].h[1], own[0].g

        records, out = np.zeros(2, RECORD), np.full(2, np.nan)
        records["g"], records["h"] = 4, 2.5
        kernel[1, 1](records[0], records, out)
        assert out.tolist() == [3.5, 4]

    def test_one_is_copied_from_a_record_that_is_read(self):
        @cuda.jit
        def kernel(source, target):
            target["h"] = source["h"]

        records = np.zeros(2, RECORD)
        records[0]["h"] = 3, -0.0
        kernel[1, 1](records[0], records[1])
        assert records[1].tobytes() == records[0].tobytes()


class TestPointers:
    @pytest.mark.parametrize("target", ["cpu", "cuda"])
    def test_an_address_is_an_argument(self, target):
        require(target)

        @cuda.jit(
            types.void(types.CPointer(types.int32), types.CPointer(types.float16), types.int64)
        )
        def kernel(x, y, n):
            i = cuda.grid(1)
            if i < n:
                x[i] += 2 * y[i]

        with kd.use(target):
            x = cuda.to_device(np.arange(5, dtype=np.int32))
            y = cuda.to_device(np.full(5, 1.5, np.float16))
            for _ in range(3):  # the second launch may be native
                given = (each.__cuda_array_interface__["data"][0] for each in (x, y))
                kernel[1, 32](*given, 4)
            assert x.copy_to_host().tolist() == [9, 10, 11, 12, 4]


@pytest.mark.parametrize("given", [(), (3, 5)])
def test_another_number_of_arguments_is_refused_by_names(given):
    @cuda.jit("void(int32[:], int32)")
    def store(x, value):
        x[0] = value

    x = np.zeros(1, np.int32)
    with pytest.raises(TypeError, match=r"store was given .*\(x, value\)"):
        store[1, 1](x, *given)
    assert x[0] == 0


class TestViewsOfPointers:
    """Views of the elements at a pointer, which a kernel takes as an address."""

    @pytest.mark.parametrize("view", [numba.carray, numba.farray])
    def test_elements_in_order(self, view, rng):
        @cuda.jit(void(types.CPointer(types.float32), types.CPointer(types.float32)))
        def kernel(source, target):
            a, b = numba.carray(source, (2, 3)), view(target, (2, 3), dtype=types.float32)
            for i in range(2):
                for j in range(3):
                    b[i, j] = a[i, j]
            view(source, (6,))[5] = -1

        values = rng.normal(size=6).astype(np.float32)
        source, target = cuda.to_device(values), cuda.device_array(6, np.float32)
        addresses = (int(each.gpu_data.device_pointer) for each in (source, target))
        kernel[1, 1](*addresses)
        order = "C" if view is numba.carray else "F"
        expected = values.reshape(2, 3).ravel(order)
        assert target.copy_to_host().tobytes() == expected.tobytes()
        assert source.copy_to_host()[5] == -1

    def test_another_dtype(self):
        @cuda.jit
        def kernel(x):
            numba.carray(x, 2, types.float32)[0] = 1

        with pytest.raises(errors.TypingError, match="carray do not take this call"):
            kernel[1, 1](np.zeros(2))


def test_the_traceback_of_a_launch_has_the_frames_of_the_program(monkeypatch):
    @cuda.jit
    def kernel(x):
        x[cuda.grid(1)] += undefined  # noqa: F821 -- the name that is refused

    def frames_of(error):
        return [entry.name for entry in traceback.extract_tb(error.__traceback__)]

    this = "test_the_traceback_of_a_launch_has_the_frames_of_the_program"
    with pytest.raises(errors.TypingError, match="The name undefined is not defined") as info:
        kernel[1, 8](np.zeros(8))
    assert frames_of(info.value) == [this]
    assert info.value.__cause__ is None
    assert "make_unit" in info.value.error.details
    monkeypatch.setenv("KERNELDSL_TRACEBACK", "full")
    with pytest.raises(errors.TypingError) as info:
        kernel[1, 8](np.zeros(8))
    assert len(frames_of(info.value)) > 1
    assert isinstance(info.value.__cause__, kd.KernelError)
