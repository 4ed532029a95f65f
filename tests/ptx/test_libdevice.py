"""Every libdevice function becomes PTX for every architecture, and its table is libdevice's."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import CompileError, KernelTypingError, UnsupportedConstructError
from kerneldsl.language.intrinsics.libdevice import FUNCTIONS
from targets.cpu.math.libdevice.table import MEANINGS
from targets.cuda.compile import libdevice
from targets.cuda.compile.libdevice import find_libdevice
from targets.cuda.compile.numba_device import initialize_nvptx
from tests.conformance.kernels.libdevice import COVERED
from tests.ptx.helpers import ARCHS, ASSEMBLED_ARCHS, QUICK_ARCHS, assemble_together, lower, write
from tests.support.extent import full_beyond, sample

#: What reads through a pointer, and what is for libdevice's own use.
_LEFT_OUT = {"nan", "nanf", "norm", "normf", "rnorm", "rnormf", "rcp64h"}
_LLVM = {
    **{"float32": "float", "float64": "double", "int16": "i16"},
    **{"int32": "i32", "uint32": "i32", "int64": "i64", "uint64": "i64"},
}


def test_the_declarations_are_those_of_libdevice() -> None:
    initialize_nvptx()
    module = llvm.parse_bitcode(find_libdevice().read_bytes())
    found = {
        function.name.removeprefix("__nv_"): str(function.global_value_type)
        for function in module.functions
        if function.name.startswith("__nv_") and not function.is_declaration
    }
    declared = {}
    for name, row in FUNCTIONS.items():
        short = name.removeprefix("libdevice.")
        results = [_LLVM[dtype] for dtype in row.result_dtypes]
        is_written = len(results) if "sincos" in short else len(results) - 1
        result = "void" if is_written == len(results) else results[0]
        arguments = [*(_LLVM[dtype] for dtype in row.argument_dtypes), *["ptr"] * is_written]
        declared[short] = f"{result} ({', '.join(arguments)})"
    ieee = {name for name in found if "_ieee_" in name}
    assert declared == {n: t for n, t in found.items() if n not in _LEFT_OUT | ieee}


def test_every_function_with_a_meaning_on_the_cpu_is_in_a_case() -> None:
    assert {f"libdevice.{name}" for name in COVERED} == MEANINGS.keys()
    refused = FUNCTIONS.keys() - MEANINGS.keys()
    assert {name[-3:] for name in refused} == {"_rz", "_rd", "_ru"}
    assert all(FUNCTIONS[name].instead for name in refused)


@pytest.mark.parametrize("name", ["sinf", "pow", "erfcinv", "fma_rd", "remquo"])
def test_functions_are_cut_out_of_text_as_out_of_bitcode(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    initialize_nvptx()
    path, layout = find_libdevice(), "e-i64:64-v16:16-v32:32-n16:32:64"
    texts = []
    for known in ({}, {(path, frozenset(), True): b""}):
        monkeypatch.setattr(libdevice, "_cuttings", known)
        module = str(libdevice.cut_out(path, [f"__nv_{name}"], layout))
        # LLVM numbers the types that a process has read.
        texts.append(re.sub(r"(%struct\.[a-z_]\w*)[.\d]*", r"\1", module[module.index("target") :]))
    assert f"@__nv_{name}(" in texts[0]
    assert texts[0] == texts[1]


def _kernels():
    """Yield kernels of eight functions each, with their signatures."""
    groups = {}
    for row in FUNCTIONS.values():
        groups.setdefault((row.argument_dtypes, row.result_dtypes), []).append(row)
    for (arguments, results), rows in groups.items():
        kinds = ", ".join(f"{dtype}[::1]" for dtype in (*arguments, *results))
        for start in range(0, len(rows), 4):
            four = [*rows[start : start + 4], *rows[start : start + 1] * 3][:4]
            yield _kernel(four, len(arguments), len(results)), kinds


def _kernel(functions, arity, results):
    a, b, c, d = functions

    def unary(x, o):
        o[0], o[1], o[2], o[3] = a(x[0]), b(x[1]), c(x[2]), d(x[3])

    def binary(x, y, o):
        o[0], o[1] = a(x[0], y[0]), b(x[1], y[1])
        o[2], o[3] = c(x[2], y[2]), d(x[3], y[3])

    def ternary(x, y, z, o):
        o[0], o[1] = a(x[0], y[0], z[0]), b(x[1], y[1], z[1])
        o[2], o[3] = c(x[2], y[2], z[2]), d(x[3], y[3], z[3])

    def of_four(x, y, z, w, o):
        o[0], o[1] = a(x[0], y[0], z[0], w[0]), b(x[1], y[1], z[1], w[1])
        o[2], o[3] = c(x[2], y[2], z[2], w[2]), d(x[3], y[3], z[3], w[3])

    def unary_to_two(x, o, p):
        o[0], p[0] = a(x[0])
        o[1], p[1] = b(x[1])
        o[2], p[2] = c(x[2])
        o[3], p[3] = d(x[3])

    def binary_to_two(x, y, o, p):
        o[0], p[0] = a(x[0], y[0])
        o[1], p[1] = b(x[1], y[1])
        o[2], p[2] = c(x[2], y[2])
        o[3], p[3] = d(x[3], y[3])

    if results == 2:
        return unary_to_two if arity == 1 else binary_to_two
    return (unary, binary, ternary, of_four)[arity - 1]


_KERNELS = list(_kernels())


@pytest.mark.parametrize("arch", full_beyond(ARCHS, QUICK_ARCHS[1:2]))
def test_every_function_on_every_architecture(arch: str) -> None:
    kernels = sample(_KERNELS, len(_KERNELS) // 6)
    written = [write(lower(function, signature), arch) for function, signature in kernels]
    assert not any("__nv_" in artifact.ptx for artifact in written)
    if arch in ASSEMBLED_ARCHS:
        assert assemble_together(written, arch) == len(kernels)


@kd.kernel
def rounded(x, o):
    i = kd.grid(1)
    o[i] = kd.libdevice.fadd_rz(x[i], x[i]) + kd.libdevice.fmul_ru(x[i], x[i])


def test_a_direction_of_rounding_is_an_instruction_and_none_of_a_cpu() -> None:
    text = rounded.ptx("float32[::1], float32[::1]", arch="sm_90")
    assert "add.rz.f32" in text
    assert "mul.rp.f32" in text
    with pytest.raises(UnsupportedConstructError) as raised:
        rounded.cpu_source("float32[::1], float32[::1]", target="cpu")
    message = str(raised.value)
    assert "kd.libdevice.fadd_rz is not available on the CPU" in message
    assert "Write x + y, or launch the kernel on a GPU" in message
    assert "in rounded" in message


@kd.kernel
def exact(x, o):
    i = kd.grid(1)
    o[i] = kd.libdevice.fadd_rn(x[i] * x[i], x[i])
    o[i + 1] = kd.libdevice.fmul_rn(x[i], x[i]) + x[i]


def test_what_rounds_to_nearest_is_never_contracted() -> None:
    assert "fma" not in exact.ptx("float32[::1], float32[::1]", arch="sm_90")
    x = np.array([1 + 2.0**-12, 0], np.float32)
    o = np.zeros(2, np.float32)
    with kd.use("cpu"):
        exact[1, 1](x, o)
    wanted = np.float32(x[0] * x[0]) + x[0]
    assert (o == wanted).all()


def test_numba_cudas_names_are_the_same_functions() -> None:
    from numba import cuda
    from numba.cuda import libdevice
    from numba.cuda.libdevice import rcbrtf

    def root(x):
        x[0] = cuda.libdevice.rcbrtf(x[0])
        x[1] = libdevice.rcbrtf(x[1])
        x[2] = rcbrtf(x[2])
        x[3] = kd.libdevice.rcbrtf(x[3])

    text = write(lower(root, "float32[::1]"), "sm_90").ptx
    assert text.count("ex2.approx") == 4


def _complex(x):
    x[0] = kd.libdevice.sinpi(x[0])


def _float_for_an_integer(x):
    x[0] = kd.libdevice.ldexp(x[0], 1.5)


@pytest.mark.parametrize(
    ("function", "signature", "message"),
    [
        (_complex, "complex64[::1]", "x must be a real number, and is complex64"),
        (_float_for_an_integer, "float64[::1]", "y must be an integer, and is float64"),
    ],
)
def test_wrong_arguments(function, signature: str, message: str) -> None:
    with pytest.raises(KernelTypingError) as raised:
        lower(function, signature)
    assert message in str(raised.value)


@pytest.mark.parametrize("fastmath", [False, True])
def test_roots_in_functions_are_rounded_correctly(fastmath: bool) -> None:
    def lengths(x):
        x[0] = kd.libdevice.hypotf(x[1], x[2]) + kd.libdevice.norm3df(x[1], x[2], x[3])

    text = write(lower(lengths, "float32[::1]", fastmath=fastmath), "sm_90").ptx
    roots = re.findall(r"sqrt\.(\w+)", text)
    assert set(roots) == ({"approx"} if fastmath else {"rn"})
    assert "__nvvm_reflect" not in text


def test_names_that_there_are_not() -> None:
    with pytest.raises(AttributeError, match="closest name is 'sinpif'"):
        kd.libdevice.__nv_sinpif
    assert "rhypotf" in dir(kd.libdevice)


def test_a_libdevice_that_lacks_a_function_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from targets.cuda.compile import libdevice as module

    cut_out = module.cut_out
    monkeypatch.setattr(
        module, "cut_out", lambda path, names, layout, **_: cut_out(path, [], layout)
    )

    def root(x):
        x[0] = kd.libdevice.rcbrtf(x[0])

    with pytest.raises(CompileError, match="rcbrtf is not in") as raised:
        write(lower(root, "float32[::1]"), "sm_90")
    assert "pip install" in str(raised.value)
