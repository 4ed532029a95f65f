"""PTX that a kernel writes out itself, and PTX's own words: operands, effects and errors."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import CompileError, KernelTypingError, UnsupportedConstructError
from kerneldsl.language.intrinsics.table import INTRINSICS
from targets.cpu.intrinsics.table import LOWERINGS, Refused
from targets.cuda.compile.artifact import naming_inline_text
from tests.ptx.helpers import ARCH_PARAMETERS, ASSEMBLED_ARCHS, assemble_together, lower, write
from tests.support.python_kernels import unit_of


def _copy(dtype, letter):
    text = f"mov.{letter} $0, $1;"

    def copy(x, y):
        y[0] = kd.ptx(text, x[0], out=dtype)

    return copy


_MOVES = {
    **{"int8": "b16", "uint8": "b16", "int16": "b16", "uint16": "b16", "float16": "b16"},
    **{"int32": "b32", "uint32": "b32", "float32": "b32"},
    **{"int64": "b64", "uint64": "b64", "float64": "b64"},
}


def two_results(x, y):
    i = kd.grid(1)
    low, high = kd.ptx("mov.b64 {$0, $1}, $2;", x[i], out=(kd.uint32, np.uint32), pure=True)
    y[i] = low ^ high
    kd.ptx("// a comment, and a dollar $$\n\tmembar.cta;")


def truth(x, y):
    y[0] = kd.ptx(
        "{ .reg .pred p; setp.ne.b32 p, $1, 0; selp.s32 $0, 5, 7, p; }", x[0] > 3, out=kd.int32
    )


def every_word(x, y, f):
    i = kd.grid(1)
    y[i] = kd.nv.prmt(x[0], x[1], x[2]) + kd.nv.lop3(x[0], x[1], x[2], 0x96)
    y[i] += kd.nv.bfe_u32(x[0], x[1], x[2]) + kd.nv.bfe_s32(x[0], x[1], x[2])
    y[i] += kd.nv.bfe_u64(x[0], x[1], x[2]) + kd.nv.bfe_s64(x[0], x[1], x[2])
    y[i] += kd.nv.bfi_b32(x[0], x[1], x[2], x[3]) + kd.nv.bfi_b64(x[0], x[1], x[2], x[3])
    y[i] += kd.nv.bfind_u32(x[0]) + kd.nv.bfind_s32(x[1])
    y[i] += kd.nv.bfind_u64(x[2]) + kd.nv.bfind_s64(x[3])
    y[i] += kd.nv.clock64() + kd.nv.globaltimer() + kd.nv.smid()
    f[i] = kd.nv.ex2_approx_f32(f[i]) + kd.nv.lg2_approx_f32(f[i]) + kd.nv.rcp_approx_f32(f[i])


def hyperbolic(f):
    f[0] = kd.nv.tanh_approx_f32(f[0])


KERNELS = [
    *((_copy(getattr(kd, d), letter), f"{d}[::1], {d}[::1]") for d, letter in _MOVES.items()),
    (two_results, "uint64[::1], uint32[::1]"),
    (truth, "float64[::1], int32[::1]"),
    (every_word, "int64[::1], int64[::1], float32[::1]"),
]


@pytest.mark.parametrize("arch", ARCH_PARAMETERS)
def test_every_operand_and_every_word_assembles(arch: str) -> None:
    kernels = [*KERNELS, *([] if arch in ("sm_60", "sm_70") else [(hyperbolic, "float32[::1]")])]
    written = [write(lower(function, signature), arch) for function, signature in kernels]
    assert "mov.b16" in written[0].ptx
    if arch in ASSEMBLED_ARCHS:
        assert assemble_together(written, arch) == len(kernels)


def test_every_word_is_here() -> None:
    uses = (unit_of(function).uses.values() for function in (every_word, hyperbolic))
    used = {use.intrinsic.name for each in uses for use in each} - {"grid"}
    assert used == {name for name in INTRINSICS if name.startswith("nv.")}


def test_a_word_that_an_architecture_has_not_is_named() -> None:
    for arch in ("sm_60", "sm_70"):
        with pytest.raises(CompileError) as raised:
            write(lower(hyperbolic, "float32[::1]"), arch)
        message = str(raised.value)
        assert f"kd.nv.tanh_approx_f32 is compiled for {arch}" in message
        assert "needs compute capability 7.5" in message
        assert "Write math.tanh(x)" in message
        assert "in hyperbolic" in message


def test_what_is_not_pure_is_kept_and_keeps_its_place() -> None:
    def kept(x):
        kd.ptx("mov.u32 $0, %clock;", out=kd.uint32)
        x[0] = 1
        kd.ptx("membar.gl;")
        x[0] = 2
        kd.ptx("add.s32 $0, $1, 1;", x[1], out=kd.int32, pure=True)

    text = write(lower(kept, "int32[::1]"), "sm_90").ptx
    parts = re.findall(r"%clock|st\.global|membar|add\.s32", text)
    assert parts == ["%clock", "st.global", "membar", "st.global"]


def _unknown_instruction(x):
    i = kd.grid(1)
    x[i] = kd.ptx("add.s32 $0, $1, 1;", x[i], out=kd.int32)
    x[i] = kd.ptx("frobnicate.s32 $0, $1;", x[i], out=kd.int32)


def test_an_assemblers_complaint_names_kernel_line_and_text() -> None:
    kernel = kd.kernel(_unknown_instruction)
    with pytest.raises(CompileError) as raised:
        kernel.resources("int32[::1]", arch="sm_90")
    message = str(raised.value)
    assert "_unknown_instruction: the PTX of 'frobnicate.s32 $0, $1;' is refused for" in message
    assert "Not a name of any known instruction: 'frobnicate'" in message
    assert "in _unknown_instruction" in message
    assert 'x[i] = kd.ptx("frobnicate.s32' in message
    assert isinstance(raised.value.__cause__, CompileError)


def test_the_drivers_complaint_does_too() -> None:
    artifact = write(lower(_unknown_instruction, "int32[::1]"), "sm_90")
    lines = artifact.ptx.splitlines()
    (number,) = (n for n, line in enumerate(lines, 1) if "frobnicate" in line)
    log = f"ptxas application ptx input, line {number}; error   : Not a name of an instruction"
    with (
        pytest.raises(CompileError, match=r"'frobnicate\.s32 \$0, \$1;' is refused for sm_90"),
        naming_inline_text(artifact.specialization, artifact.ptx, "sm_90"),
    ):
        raise CompileError("The driver could not assemble it", chain=(log,))
    elsewhere = log.replace(f"line {number}", "line 1")
    with (
        pytest.raises(CompileError, match="could not assemble it") as raised,
        naming_inline_text(artifact.specialization, artifact.ptx, "sm_90"),
    ):
        raise CompileError("The driver could not assemble it", chain=(elsewhere,))
    assert raised.value.__cause__ is None


def _beyond(x):
    x[0] = kd.ptx("add.s32 $0, $1, $2;", x[0], out=kd.int32)


def _no_result(x):
    x[0] = kd.ptx("add.s32 $1, $1, 1;", x[0], out=kd.int32)


def _modifier(x):
    kd.ptx("mov.b32 ${0:x}, 1;")


def _computed(x):
    kd.ptx(x[0])


def _no_text(x):
    kd.ptx()


def _other_parameter(x):
    kd.ptx("membar.gl;", volatile=True)


def _no_dtype(x):
    kd.ptx("mov.b32 $0, 1;", out="word")


def _table(x):
    x[0] = kd.nv.lop3(x[0], x[0], x[0], 256)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_beyond, "names $2. There are 1 result and 1 value, $0 to $1, results first"),
        (_no_result, "does not name $0, a result"),
        (_modifier, "'${0:x}' in 'mov.b32 ${0:x}, 1;' is not an operand"),
        (_computed, "text is x, which is not a constant"),
        (_no_text, "kd.ptx was given no text"),
        (_other_parameter, "kd.ptx has no parameter 'volatile'"),
        (_no_dtype, "'word' is not a dtype that it supports"),
        (_table, "lut is 256. It must be the function's table of eight bits, 0 to 255"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_llvm_would_end_the_process_over_is_refused(function, message: str) -> None:
    with pytest.raises(UnsupportedConstructError) as raised:
        unit_of(function)
    assert message in str(raised.value)


def _of_an_array(x):
    kd.ptx("prefetch.global.L2 [$0];", x)


def _complex_number(x):
    x[0] = kd.ptx("mov.b64 $0, $1;", x[0], out=kd.complex64)


@pytest.mark.parametrize(
    ("function", "signature", "message"),
    [
        (_of_an_array, "int32[::1]", "$0 must be a real number of 8 to 64 bits, and is array"),
        (_complex_number, "int64[::1]", "$0 must be an integer or a float, and is complex64"),
    ],
)
def test_operands_of_other_types(function, signature: str, message: str) -> None:
    with pytest.raises(KernelTypingError) as raised:
        lower(function, signature)
    assert message in str(raised.value)


def _clock(x):
    x[0] = kd.nv.clock64()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (truth, "kd.ptx is not available on the CPU. Instructions of PTX are a GPU's. Write the"),
        (_clock, "kd.nv.clock64 is not available on the CPU. The register is one of a GPU's"),
    ],
)
def test_what_a_cpu_has_not_names_the_word_above(function, message: str) -> None:
    signature = ", ".join(["int64[::1]"] * function.__code__.co_argcount)
    with pytest.raises(UnsupportedConstructError) as raised:
        kd.kernel(function).cpu_source(signature, target="cpu")
    assert message in str(raised.value)
    assert f"in {function.__name__}" in str(raised.value)


def test_every_word_that_is_refused_says_what_to_write() -> None:
    refused = [name for name, lowering in LOWERINGS.items() if isinstance(lowering, Refused)]
    assert refused
    assert all(INTRINSICS[name].instead for name in refused)
