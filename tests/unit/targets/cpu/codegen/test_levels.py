"""Code for levels of processors, whatever this machine is."""

from __future__ import annotations

import math
import struct
import subprocess
import sys
from pathlib import Path

import capstone
import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.placement.registry import get_target
from targets.cpu.codegen import levels
from targets.cpu.codegen.levels import LEVELS, supported_levels
from targets.cpu.runtime.linking import undefined_symbols
from targets.cpu.runtime.objects import load_object

SIGNATURE = "float32, float32[::1], float32[::1]"
#: ``e_machine`` of an ELF header.
_PROGBITS, _EXECUTABLE = 1, 4
MACHINES = {"x86_64": 62, "aarch64": 183}


@kd.kernel
def axpy(a, x, y):
    i = kd.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


@kd.kernel
def waves(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = math.sin(x[i])


@kd.kernel
def halves(x, y):
    i = kd.grid(1)
    if i < y.size:
        y[i] = x[i] + np.float16(1)


@kd.kernel
def products(a, b, out, *, precision):
    for m, n in kd.tiles(out.shape, (8, 8)):
        x, y = kd.tile.load(a, (m, 0), (8, 8)), kd.tile.load(b, (0, n), (8, 8))
        kd.tile.store(out, (m, n), kd.mma(x, y, precision=precision))


def compiled(level: str, kernel=axpy, signature=SIGNATURE):
    return kernel.artifact(signature, forall=1, arch=level, target="cpu")


@pytest.mark.parametrize("level", LEVELS)
def test_object_code_is_for_the_level(level: str) -> None:
    made = compiled(level)
    assembly = made.text("asm")
    # The widest registers that its processors have; with 512 bits LLVM prefers 256.
    expected = {"aarch64": "v", "x86-64-v2": "%xmm", "x86-64-v3": "%ymm", "x86-64-v4": "%ymm"}
    assert expected[level] in assembly
    assert ("%ymm" in assembly) == (level in ("x86-64-v3", "x86-64-v4"))
    sections = get_target("cpu").compiler.ship(made)
    assert sections is not None
    code = sections["object"]
    assert int.from_bytes(code[18:20], "little") == MACHINES[LEVELS[level].machine]
    assert set(undefined_symbols(code)) <= {"clock_gettime", "_setjmp", "_GLOBAL_OFFSET_TABLE_"}
    assert made.entry_name.encode() in code
    assert b"numba" not in code.lower()
    for place in (str(Path(__file__).parent), sys.prefix, "site-packages"):
        assert place.encode() not in code


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("precision", ["ieee", "reference"])
def test_the_reference_alone_calls_a_function_for_each_product(level: str, precision: str) -> None:
    signature = ", ".join(["float32[:,::1]"] * 3)
    made = products.member(precision=precision).artifact(
        signature, block=32, arch=level, target="cpu"
    )
    lacks_instruction, is_reference = level == "x86-64-v2", precision == "reference"
    assert ("llvm.fma" in made.text("llvm")) == (is_reference or not lacks_instruction)
    assert ("fmaf" in made.text("asm")) == (is_reference and lacks_instruction)


@pytest.mark.parametrize("level", supported_levels())
def test_code_of_the_levels_here_runs(level: str) -> None:
    made = compiled(level)
    compiler = get_target("cpu").compiler
    _, native = axpy.specialization(SIGNATURE, forall=1, target="cpu")
    restored = compiler.restore(native, compiler.ship(made))
    device = get_target("cpu").devices()[0]
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    parameters = native.layout.pack(2.0, x.ctypes.data, 100, y.ctypes.data, 100, 100)
    executable = device.load(restored)
    executable.launch(compiler.forall_config(executable, (100,), None), parameters)
    assert np.array_equal(y, 2 * x + 1)
    assert restored.forms_at_hand() == ()
    assert restored.text("source").startswith("kernel ")


def test_float16_needs_no_runtime_library() -> None:
    pytest.importorskip("ml_dtypes")
    for level in LEVELS:
        made = compiled(level, halves, "float16[::1], float16[::1]")
        assert get_target("cpu").compiler.ship(made) is not None, level


def instructions(code: bytes) -> list[str]:
    """Disassemble an object file for aarch64, where every word of code is an instruction."""
    found: list[str] = []
    for kind, flags, at, nbytes in sections_of(code):
        if kind == _PROGBITS and flags & _EXECUTABLE:
            decoded = list(capstone.Cs(capstone.CS_ARCH_ARM64, 0).disasm(code[at : at + nbytes], 0))
            assert 4 * len(decoded) == nbytes
            found += [f"{each.mnemonic} {each.op_str}" for each in decoded]
    return found


def sections_of(code: bytes) -> list[tuple[int, int, int, int]]:
    """Kind, flags, place and size of each section of an ELF file of 64 bits."""
    (at,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    rows = (struct.unpack_from("<IIQQQQ", code, at + size * n) for n in range(count))
    return [(kind, flags, place, nbytes) for _, kind, flags, _, place, nbytes in rows]


def test_code_for_aarch64_is_disassembled() -> None:
    ship = get_target("cpu").compiler.ship
    for kernel, signature, expected in (
        (axpy, SIGNATURE, "fmla v"),
        (axpy, "float64, float64[::1], float64[::1]", ".2d"),
        (waves, "float32[::1], float32[::1]", ".4s"),
        (halves, "float16[::1], float16[::1]", "fcvt"),
    ):
        code = instructions(ship(compiled("aarch64", kernel, signature))["object"])
        assert any(each.startswith("ret") for each in code)
        assert any(expected in each for each in code), (kernel, signature)


_TWICE = """
import hashlib, sys
sys.path.insert(0, {root!r})
from tests.unit.targets.cpu.codegen.test_levels import axpy, compiled, halves
from kerneldsl.placement.registry import get_target
if {other}:
    compiled("aarch64", halves, "float16[::1], float16[::1]")
    compiled("x86-64-v2", axpy, "float64, float64[::1], float64[::1]")
for level in ("x86-64-v2", "x86-64-v3", "aarch64"):
    sections = get_target("cpu").compiler.ship(compiled(level))
    print({{name: hashlib.sha256(data).hexdigest() for name, data in sections.items()}})
"""


def test_code_is_the_same_whatever_was_compiled_before(tmp_path) -> None:
    root = str(Path(__file__).parents[5])
    said = [
        subprocess.run(
            [sys.executable, "-c", _TWICE.format(root=root, other=other)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for other in (False, True)
    ]
    assert said[0] == said[1]
    assert said[0].count("object") == 3


def test_the_level_of_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    every = LEVELS["x86-64-v4"].features
    cases = {
        every: ("x86-64-v4", "x86-64-v3", "x86-64-v2"),
        every - {"avx512vl"}: ("x86-64-v3", "x86-64-v2"),
        every - {"fma"}: ("x86-64-v2",),
        every - {"popcnt"}: (),
    }
    monkeypatch.setattr(levels.platform, "machine", lambda: "x86_64")
    for features, expected in cases.items():
        monkeypatch.setattr(levels, "features_of_levels", lambda f=features: f)
        assert supported_levels() == expected
    monkeypatch.setattr(levels.platform, "machine", lambda: "aarch64")
    assert supported_levels() == ("aarch64",)
    monkeypatch.setattr(levels.platform, "machine", lambda: "riscv64")
    assert supported_levels() == ()


def test_code_of_a_level_is_not_loaded_by_name_of_another_kernel() -> None:
    code = get_target("cpu").compiler.ship(compiled("x86-64-v2"))["object"]
    with pytest.raises(Exception, match="defines no function"):
        load_object(code, "malloc")
