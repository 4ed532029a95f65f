"""Narrow floats around a kernel: parameters, device arrays, refusals, what is imported."""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.language.element_types import ELEMENT_TYPES, numpy_dtype
from tests.support.arrays import HOST_DTYPES, assert_same_bits
from tests.support.dlpack import Relabelled
from tests.support.extent import full_beyond

NAMES = [name for name in HOST_DTYPES if ELEMENT_TYPES[name].is_narrow]
_TYPES = [pytest.param(numpy_dtype(name).type, id=name) for name in NAMES]
#: In a quick run one that NumPy has, and one of eight bits.
each_type = pytest.mark.parametrize("dtype", full_beyond(_TYPES, [_TYPES[1], _TYPES[2]]))


@pytest.fixture(autouse=True)
def _on_cpu():
    with kd.use("cpu"):
        yield


@kd.kernel
def fill(a, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a


@kd.kernel
def double(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] + x[i]


# --------------------------------------------------------------------------- parameters


@each_type
def test_scalars_are_converted_to_a_signature(dtype):
    name = np.dtype(dtype).name
    declared = kd.kernel(f"{name}, {name}[::1]")(fill.__wrapped__)
    for value in (dtype(1.1), 1.1, 7, True, np.float32(1.1), math.inf, math.nan):
        out = np.zeros(3, dtype)
        declared.forall(out.size)(value, out)
        assert_same_bits(out, np.full(3, value).astype(dtype), repr(value))


@each_type
def test_a_repeated_launch_reads_other_scalars(dtype):
    out = np.zeros(3, dtype)
    for value in (1.5, -0.1, 1e4, 3.0) * 3:
        fill.forall(3)(dtype(value), out)
        assert_same_bits(out, np.full(3, dtype(value)), repr(value))


@each_type
def test_scalars_in_tuples_and_in_device_functions(dtype):
    @kd.func
    def scaled(x, pair):
        return x * pair[0] + pair[1]

    @kd.kernel(contract=False)
    def apply(x, pair, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = scaled(x[i], pair)

    x = np.linspace(-3, 3, 99).astype(dtype)
    out = np.zeros_like(x)
    pair = (dtype(0.3), dtype(1.7))
    apply.forall(x.size)(x, pair, out)
    assert_same_bits(out, x * pair[0] + pair[1], "scaled")


# --------------------------------------------------------------------------- device arrays


@each_type
def test_device_arrays_hold_them(dtype):
    name = np.dtype(dtype).name
    x = np.linspace(-9, 9, 1000).astype(dtype)
    device = kd.to_device(x)
    assert device.dtype == np.dtype(dtype)
    assert_same_bits(device.copy_to_host(), x, "copied")
    assert_same_bits(np.asarray(device), x, "viewed")
    out = kd.zeros(1000, name)
    double.forall(1000)(device[::-1], out)
    assert_same_bits(out.copy_to_host(), x[::-1] + x[::-1], "doubled")
    assert_same_bits(kd.full(3, 1.5, dtype).copy_to_host(), np.full(3, 1.5, dtype), "full")


@each_type
def test_dlpack_carries_them(dtype):
    x = np.linspace(-9, 9, 100).astype(dtype)
    again = kd.from_dlpack(kd.to_device(x))
    assert again.dtype == np.dtype(dtype)
    assert_same_bits(again.copy_to_host(), x, "through DLPack")


#: Of dlpack.h.
_DLPACK_CODES = {"float16": 2, "bfloat16": 4}
_DLPACK_CODES |= {"float8_e4m3fn": 10, "float8_e5m2": 12, "float8_e8m0fnu": 14}


@each_type
def test_another_librarys_arrays_come_in_without_a_copy(dtype):
    x = np.linspace(-3, 3, 100).astype(dtype)
    code = _DLPACK_CODES[np.dtype(dtype).name]
    foreign = Relabelled(x.view(f"u{x.itemsize}"), code, 8 * x.itemsize)
    taken = kd.from_dlpack(foreign)
    assert (taken.dtype, taken.pointer) == (x.dtype, x.ctypes.data)
    wanted = x + x
    double.forall(100)(foreign, foreign)  # in its memory
    assert_same_bits(x, wanted, "doubled")


@each_type
def test_torchs_tensors_go_in_and_out_without_a_copy(dtype):
    torch = pytest.importorskip("torch")
    name = np.dtype(dtype).name
    tensor = torch.linspace(-3, 3, 100).to(getattr(torch, name))
    x = tensor.view(torch.uint8).numpy().copy().view(dtype)
    assert kd.from_dlpack(tensor).pointer == tensor.data_ptr()
    double.forall(100)(tensor, tensor)
    assert_same_bits(tensor.view(torch.uint8).numpy().view(dtype), x + x, "a tensor")
    array = kd.to_device(x)
    again = torch.from_dlpack(array)
    assert (str(again.dtype), again.data_ptr()) == (f"torch.{name}", array.pointer)


# --------------------------------------------------------------------------- functions, printing


@each_type
def test_functions_of_math_and_numpy_compute_in_float32(dtype):
    @kd.kernel
    def functions(x, out):
        i = kd.grid(1)
        if i < x.size:
            out[0, i] = math.sqrt(x[i])
            out[1, i] = np.sqrt(x[i])
            out[2, i] = math.fmod(x[i], kd.float32(0.7))
            out[3, i] = math.floor(x[i])
            out[4, i] = np.maximum(x[i], kd.float32(1))
            out[5, i] = math.fabs(-x[i])

    has_sign = np.dtype(dtype).name != "float8_e8m0fnu"  # nor a zero
    x = np.linspace(0 if has_sign else 0.5, 90, 999).astype(dtype)
    out = np.zeros((6, x.size))
    functions.forall(x.size)(x, out)
    wide = x.astype(np.float32)
    rows = (
        [np.sqrt(wide)] * 2
        + [np.fmod(wide, np.float32(0.7)), np.floor(wide)]
        + [np.maximum(wide, np.float32(1)), wide if has_sign else wide * math.nan]
    )
    assert_same_bits(out, np.stack(rows).astype(np.float64), "functions")


@each_type
def test_a_power_counts_as_float32(dtype):
    @kd.kernel
    def powers(x, out):
        i = kd.grid(1)
        if i < x.size:
            out[0, i] = x[i] ** 2
            out[1, i] = x[i] ** x[i]
            out[2, i] = x[i] ** kd.float32(2)

    x = np.linspace(0.5, 9, 99).astype(dtype)
    out = np.zeros((3, x.size), np.float32)
    powers.forall(x.size)(x, out)
    wide = x.astype(np.float32)
    np.testing.assert_array_equal(out[0], wide * wide)
    np.testing.assert_array_equal(out[2], wide * wide)
    with np.errstate(over="ignore"):
        closed = (wide**wide).astype(dtype).astype(np.float32)  # of one type: rounded to it
    np.testing.assert_allclose(out[1], closed, rtol=2.0**-7)
    assert_same_bits(out[1], out[1].astype(dtype).astype(np.float32), "rounded")


@each_type
def test_print_shows_the_digits_that_a_number_has(dtype, capfd):
    @kd.kernel
    def show(x):
        if kd.grid(1) == 0:
            print("value", x[0])

    show[1, 1](np.array([0.1], dtype))
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == f"value {float(dtype(0.1)):.4g}\n"


# --------------------------------------------------------------------------- refusals


@each_type
def test_captured_constants_are_refused(dtype):
    scale = dtype(2)

    @kd.kernel
    def scaled(x):
        i = kd.grid(1)
        if i < x.size:
            x[i] = x[i] * scale

    with pytest.raises(kd.KernelError, match=r"Pass (it|scale) as an argument"):
        scaled.forall(4)(np.zeros(4, dtype))


# --------------------------------------------------------------------------- imports


@pytest.fixture
def run(tmp_path):
    """Runs a program in a process of its own, and returns what it prints."""

    def run(code):
        program = tmp_path / "program.py"  # a file, as kernels have their source from one
        program.write_text(SETUP + code)
        path = ":".join(p for p in [os.getcwd(), *sys.path] if p)
        return subprocess.run(
            [sys.executable, str(program)],
            check=True,
            timeout=120,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        ).stdout

    return run


SETUP = """
import sys
import kerneldsl as kd
from tests.ptx.helpers import compile_ptx
def double(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] = x[i] + x[i]
def shared(x):
    tile = kd.shared.array(32, "float16")
    tile[kd.threadIdx.x] = 1
    kd.syncthreads()
    x[kd.threadIdx.x] = tile[kd.threadIdx.x] + tile[0]
def is_loaded():
    return "kerneldsl.lowering.narrow_floats" in sys.modules
"""


LAUNCH_ON_CPU = """
import numpy as np
x = np.ones(3, np.{})
with kd.use("cpu"):
    kd.kernel(double).forall(3)(x)
"""


def test_kernels_of_other_types_load_nothing(run):
    code = "compile_ptx(double, 'float32[::1]')" + LAUNCH_ON_CPU.format("float32")
    assert run(code + "print(is_loaded())") == "False\n"


@pytest.mark.parametrize(
    "first", full_beyond(["compile_ptx(double, 'float32[::1]')", "pass"], ["pass"])
)
@pytest.mark.parametrize(
    "call",
    full_beyond(
        ["compile_ptx(double, 'float16[::1]')", "compile_ptx(shared, 'float32[::1]')"],
        ["compile_ptx(shared, 'float32[::1]')"],
    ),
)
def test_a_context_that_is_in_use_learns_the_types(run, first, call):
    assert "add.f16" in run(f"{first}\nprint({call}.ptx)")


def test_both_targets_learn_the_types(run):
    code = "compile_ptx(double, 'float32[::1]')" + LAUNCH_ON_CPU.format("float16")
    code += "print(x.sum(), 'add.f16' in compile_ptx(double, 'float16[::1]').ptx)"
    assert run(code) == "6.0 True\n"


def test_a_signature_that_is_remembered_from_before_serves_narrow_numbers(run):
    """The CUDA target's context remembers what operators mean for given types."""
    out = run("""
import operator
from numba import types
from targets.cuda.compile.numba_device import descriptor
wide = (types.float32, types.float32)
descriptor().typing_context.resolve_function_type(operator.lt, wide, {})
assert not is_loaded()
def smaller(x, out):
    i = kd.grid(1)
    out[i] = 1 if x[i] < x[0] else 0
kernel = kd.kernel(smaller)
print("setp.lt" in kernel.ptx("float16[::1], float32[::1]", arch="sm_90"))
""")
    assert out == "True\n"


@kd.kernel
def one_or_the_other(a, b, out):
    value = a
    if out[0] > 0:
        value = b
    out[0] = value


@kd.kernel
def chosen(a, b, out):
    out[0] = a if out[0] > 0 else b


@kd.kernel
def chosen_last(a, b, out):
    out[0] = b if out[0] > 0 else a


@pytest.mark.parametrize("whole", [np.int8, np.int16, np.uint32])
@pytest.mark.parametrize("condition", [0, 1])
def test_an_integer_and_a_narrow_float_on_two_paths(whole, condition):
    """Right, or refused: which of both Numba meets first decides, by the version of Python too."""
    a, b = whole(101), kd.bfloat16(2.5)
    refused = []
    for kernel, holder, expected in (
        (one_or_the_other, "variable value", (101, 2.5)),
        (chosen, "conditional expression", (2.5, 101)),
        (chosen_last, "conditional expression", (101, 2.5)),
    ):
        out = np.array([condition], float)
        try:
            with kd.use("cpu"):
                kernel.forall(1)(a, b, out)
        except kd.KernelTypingError as error:
            refused.append((kernel, holder, error))
        else:
            assert out[0] == expected[condition]
    for kernel, holder, error in refused:
        name = np.dtype(whole).name
        assert f"the {holder} is bfloat16 on one path and {name} on another" in str(error)
        assert "Convert each to one type" in error.remedy
        assert error.where.lineno > kernel.function.__code__.co_firstlineno
