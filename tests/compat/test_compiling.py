"""``cuda.compile`` and its like, and what compiled functions say of themselves."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from numba import types
from numba.core import config
from numba.core.errors import NumbaPerformanceWarning

import kerneldsl as kd
from kerneldsl import cuda
from kerneldsl.compat.numba_cuda.errors import CudaAPIError
from tests.support.targets import require


@pytest.fixture(autouse=True)
def cpu():
    with kd.use("cpu"):
        yield


def add(x, y):
    return x + y


def to_float16(x):
    return np.float16(x)


def to_float32(x):
    return np.float32(x)


def is_less(x, y):
    return x < y


def nothing(x):
    pass


@cuda.jit
def increment(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


class TestFunctions:
    """Device functions as other GPU code calls them."""

    @pytest.mark.parametrize(
        ("function", "signature", "result", "head"),
        [
            (add, (types.float32, types.float32), types.float32, "(.param .b32 func_retval0) add("),
            (add, "int64(int64, int64)", types.int64, "(.param .b64 func_retval0) add("),
            (add, "int16(int16, int16)", types.int16, "(.param .b32 func_retval0) add("),
            (is_less, "(float64, float64)", types.boolean, "(.param .b32 func_retval0) is_less("),
            (nothing, "(int32,)", types.void, ".visible .func nothing("),
            (
                add,
                "complex128(complex128, complex128)",
                types.complex128,
                "(.param .align 8 .b8 func_retval0[16]) add(",
            ),
        ],
    )
    def test_of_c(self, function, signature, result, head):
        ptx, found = cuda.compile(function, signature, cc=(8, 0))
        assert found == result
        assert head in ptx
        assert ".entry" not in ptx
        assert ".target sm_80" in ptx

    def test_with_a_status(self):
        ptx, found = cuda.compile_ptx(add, "float32(float32, float32)", device=True)
        assert found == types.float32
        assert ptx.count(".param .b64 add_param_0") == 1  # the address of the result
        assert "st.param.b32 \t[func_retval0], 0;" in ptx

    def test_of_a_name(self):
        ptx, _ = cuda.compile(
            lambda x: 2 * x, "int32(int32)", abi_info={"abi_name": "_Z5twicei"}, cc=(9, 0, "a")
        )
        assert "func_retval0) _Z5twicei(" in ptx
        assert ".target sm_90a" in ptx

    def test_options(self):
        def quotient(x, y):
            return x / y

        signature = "float32(float32, float32)"
        assert "div.rn.f32" in cuda.compile(quotient, signature)[0]
        assert "div.approx.ftz.f32" in cuda.compile(quotient, signature, fastmath=True)[0]
        lines, _ = cuda.compile(quotient, signature, lineinfo=True)
        assert "test_compiling.py" in lines
        assert "fma" in cuda.compile(lambda x, y, z: x * y + z, (types.float32,) * 3)[0]
        assert (
            "fma" not in cuda.compile(lambda x, y, z: x * y + z, (types.float32,) * 3, opt=False)[0]
        )

    def test_float16(self):
        code, result = cuda.compile(lambda x: x + x, (types.float16,))
        assert result == types.float16
        assert "add.f16" in code
        assert ".align 2 .b8 func_retval0[2]" in code  # as CUDA C++ returns __half
        for convert, given in ((to_float32, types.float16), (to_float16, types.int8)):
            code, result = cuda.compile_ptx(convert, (given,), device=True)
            assert "cvt." in code
            assert ".f16" in code

    def test_names_in_the_code(self):
        made = cuda.jit(device=True)(add).compile_device((types.int32, types.int32))
        assert made.fndesc.mangled_name in made.inspect_llvm()
        assert made.fndesc.mangled_name in made.inspect_asm()

    def test_of_arrays_is_refused(self):
        with pytest.raises(kd.ArgumentTypeError, match="a parameter of add is of the type float32"):
            cuda.compile(add, (types.float32[::1], types.float32))

    @pytest.mark.parametrize(
        ("options", "error", "match"),
        [
            ({"abi": "fast"}, NotImplementedError, "Unsupported ABI: fast"),
            ({"device": False}, NotImplementedError, "The C ABI is not supported for kernels"),
            ({"output": "sass"}, NotImplementedError, "Unsupported output type: sass"),
            ({"output": "ltoir"}, NotImplementedError, "writes PTX"),
            ({"forceinline": True}, ValueError, "Can only designate forced inlining in LTO-IR"),
        ],
    )
    def test_what_is_refused(self, options, error, match):
        with pytest.raises(error, match=match):
            cuda.compile(add, (types.int32, types.int32), **options)

    def test_inspection(self):
        made = cuda.jit("float32(float32, float32)", device=True)(add)
        (signature,) = made.signatures
        assert ".func" in made.inspect_asm(signature)
        assert "define" in made.inspect_llvm(signature)
        with pytest.raises(RuntimeError, match="Cannot inspect SASS of a device function"):
            made.inspect_sass(signature)
        with pytest.raises(RuntimeError, match="Cannot compile a device function as a kernel"):
            made[1, 1]

    def test_a_kernel_calls_what_was_compiled(self):
        """The code of a Python function, linked as code of CUDA C++ is."""
        text, _ = cuda.compile(add, "float32(float32, float32)", cc=(8, 0))

        @kd.func(link=text.encode(), signature="float32(float32, float32)", name="add")
        def linked(x, y):
            return x + y

        @kd.kernel
        def sums(x, y):
            i = kd.grid(1)
            y[i] = linked(x[i], y[i])

        ptx = sums.ptx("float32[::1], float32[::1]", arch="sm_90")
        assert "add.rn.f32" in ptx or "add.f32" in ptx


def test_bounds_of_a_block():
    kernel = cuda.jit(launch_bounds=4)(increment.py_func)
    kernel[1, 4](np.zeros(4))
    with pytest.raises(CudaAPIError, match=r"CUDA_ERROR_INVALID_VALUE: block_dim \(5, 1, 1\)"):
        kernel[1, 5](np.zeros(5))
    with pytest.raises(ValueError, match="1025 threads"):
        increment[1, 1025](np.zeros(5))


def test_bytes_of_constants():
    table = np.arange(32)

    @cuda.jit("void(int64[::1])")
    def copy(x):
        i = cuda.grid(1)
        x[i] = cuda.const.array_like(table)[i]

    assert copy.get_const_mem_size() == table.nbytes
    assert cuda.jit("void(int64[::1])")(increment.py_func).get_const_mem_size() == 0


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_constants_with_equal_parts(dtype):
    table = (0.5 + 1j * np.arange(60)).astype(dtype).reshape(3, 4, 5)

    @cuda.jit
    def copy(x):
        i, j, k = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        x[i, j, k] = cuda.const.array_like(table)[i, j, k] + table[2 - i, j, k]

    x = np.full_like(table, np.nan)
    copy[1, (3, 4, 5)](x)
    np.testing.assert_array_equal(x, table + table[::-1])


def test_constant_memory_as_far_as_there_is_room():
    tables = [np.arange(size, dtype=np.int32) * 3 - 7 for size in (8192, 8193, 7777, 40000)]
    first, second, third, fourth = tables

    @cuda.jit("void(int32[:, ::1])")
    def copy(x):
        i = cuda.grid(1)
        x[0, i] = cuda.const.array_like(first)[i]
        x[1, i] = cuda.const.array_like(second)[i]
        x[2, i] = cuda.const.array_like(third)[i]
        x[3, i] = cuda.const.array_like(fourth)[i]

    (ptx,) = copy.inspect_asm().values()
    found = re.findall(r"\.(const|global) \.align 16 \.b8 \w+\[(\d+)\]", ptx)
    wanted = {("const", 32768), ("global", 32772), ("const", 31108), ("global", 160000)}
    assert {(space, int(size)) for space, size in found} == wanted
    assert ptx.count("ld.const.b32") == 2
    x = np.full((4, 77), -1, np.int32)
    copy[1, 77](x)
    np.testing.assert_array_equal(x, [each[:77] for each in tables])


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("DUMP_BYTECODE", "STORE_SUBSCR"),
        ("DUMP_CFG", "CFG dominators"),
        ("DUMP_IR", "def shifted("),
        ("DUMP_LLVM", "define ptx_kernel void @shifted"),
        ("DUMP_OPTIMIZED", "OPTIMIZED DUMP shifted"),
        ("DUMP_ASSEMBLY", ".visible .entry shifted("),
    ],
)
def test_dumped_forms(setting, text, monkeypatch, capsys):
    def shifted(x):
        x[0] = x[0] + 5

    monkeypatch.setattr(config, setting, 1)
    cuda.jit("void(int64[::1])")(shifted)
    assert text in capsys.readouterr().out
    lazy, x = cuda.jit(shifted), np.ones(1, np.int64)
    for _ in range(2):
        lazy[1, 1](x)
    assert capsys.readouterr().out.count(text) == 1
    assert x[0] == 11


def test_forms_for_records():
    signature = (types.Record.make_c_struct([("a", types.int32), ("b", types.float32)]),)

    def set_first(r):
        r.a = 3

    kernel = cuda.jit(signature)(set_first)
    assert ".entry set_first(" in kernel.inspect_asm(signature)
    assert kernel.get_const_mem_size(types.void(*signature)) == 0


def test_a_launch_is_pickled():
    launch = pickle.loads(pickle.dumps(increment[2, 3]))  # noqa: S301
    assert (launch.griddim, launch.blockdim, launch.sharedmem) == ((2, 1, 1), (3, 1, 1), 0)
    x = np.zeros(6)
    launch(x)
    assert x.tolist() == [1] * 6


class TestWarnings:
    @pytest.fixture(autouse=True)
    def settings(self, monkeypatch):
        monkeypatch.setattr(config, "CUDA_LOW_OCCUPANCY_WARNINGS", 1)
        monkeypatch.setattr(config, "CUDA_WARN_ON_IMPLICIT_COPY", 1)

    def test_a_small_grid(self, recwarn):
        with pytest.warns(NumbaPerformanceWarning, match="Grid size 2 .* low occupancy"):
            increment[2, 4]
        increment[128, 4]
        assert not recwarn

    def test_a_host_array(self, recwarn):
        with pytest.warns(NumbaPerformanceWarning, match="Host array .* copy overhead") as warned:
            increment[128, 4](np.zeros(3))
        assert warned[0].filename == __file__
        increment[128, 4](cuda.to_device(np.zeros(3)))
        assert not recwarn

    def test_none_in_the_simulator(self, monkeypatch, recwarn):
        monkeypatch.setattr(config, "ENABLE_CUDASIM", 1)
        increment[3, 4](np.zeros(3))  # a warning comes once for each configuration
        assert not recwarn


@pytest.mark.parametrize(
    ("target", "variable", "setting", "count"),
    [
        ("cpu", {}, "", 0),
        ("cpu", {"NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "1"}, "", 1),
        (
            "cpu",
            {},
            "config.CUDA_LOW_OCCUPANCY_WARNINGS = config.CUDA_WARN_ON_IMPLICIT_COPY = 1",
            2,
        ),
        ("cuda", {}, "", 2),
    ],
)
def test_warnings_of_times_on_a_cpu_are_those_that_are_set(target, variable, setting, count):
    require(target)
    text = (
        "import kerneldsl.drop_in, numpy as np\n"
        "from numba import config, cuda\n"
        "@cuda.jit\ndef kernel(x):\n    x[0] = 1\n"
        f"{setting}\nkernel[1, 1](np.zeros(1))\n"
    )
    command = [sys.executable, "-W", "always", "-c", text]
    given = {**os.environ, **variable, "KERNELDSL_TARGET": target}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=given)
    assert done.stderr.count("NumbaPerformanceWarning") == count


def test_a_function_in_no_file_that_is_debugged():
    text = (
        "import kerneldsl.drop_in, numpy as np, sys\n"
        "from numba import cuda\n"
        "outside = {}\n"
        "exec('def kernel(x):\\n    x[0] = 1', outside)\n"
        "cuda.jit(debug=True, opt=False)(outside['kernel'])[1, 1](np.zeros(1))\n"
    )
    command = [sys.executable, "-W", "always", "-c", text]
    # Where colorama is installed, Numba highlights its warnings.
    plain = {**os.environ, "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1"}
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=plain).stderr
    assert "NumbaDebugInfoWarning: Could not find source for function: <function kernel" in said
