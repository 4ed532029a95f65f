"""Whole kernels of products: assembled for each dtype and architecture."""

from __future__ import annotations

import re
from functools import cache

import pytest

import kerneldsl as kd
from kerneldsl.contract import ArrayPromises, Promises
from targets.cuda.architectures import parse_arch
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.compile.compiler import compile_kernel
from targets.cuda.compile.mma.instructions import find_step
from targets.cuda.compile.ptxas import assemble
from tests.ptx.helpers import specialize
from tests.support.extent import full_beyond

_DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "float8_e4m3fn")
_ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")
_CELLS = [(dtype, arch) for dtype in _DTYPES for arch in _ARCHS]
_QUICK = [
    ("float16", "sm_75"),
    ("float64", "sm_80"),
    ("bfloat16", "sm_80"),
    ("int8", "sm_90a"),
    ("float32", "sm_120a"),
]


@cache
def _compiled(dtype: str, arch: str) -> CudaArtifact:
    step = find_step(dtype, dtype)
    assert step is not None
    total = getattr(kd, step.accumulator)
    precision, depth = "tf32" if dtype == "float32" else "ieee", 2 * step.depth

    def product(a, b, c):
        m, n = kd.blockIdx.y * 64, kd.blockIdx.x * 64
        acc = kd.tile.zeros((64, 64), total)
        for k in kd.pipelined(range(0, a.shape[1], depth)):
            x, y = kd.tile.load(a, (m, k), (64, depth)), kd.tile.load(b, (n, k), (64, depth))
            acc = kd.mma(x, y.T, acc, precision=precision)
        kd.tile.store(c, (m, n), acc)

    signature = f"{dtype}[:,::1], {dtype}[:,::1], {step.accumulator}[:,::1]"
    promises = Promises((ArrayPromises(16),) * 3, is_disjoint=True)
    spec = specialize(product, signature, block=(128, 1, 1), promises=promises)
    return compile_kernel(spec, arch=arch)


@pytest.mark.parametrize(
    ("dtype", "arch"),
    full_beyond([pytest.param(*cell) for cell in _CELLS], [pytest.param(*c) for c in _QUICK]),
)
def test_a_kernel_assembles_without_spills(dtype: str, arch: str) -> None:
    artifact, step = _compiled(dtype, arch), find_step(dtype, dtype)
    assert step is not None
    form = step.form(parse_arch(arch), artifact.ptx_version)
    assert ("mma.sync" in artifact.ptx) == (form is not None)
    assembled = assemble(artifact.ptx, arch)
    (resources,) = assembled.resources.values()
    assert resources.spill_bytes == resources.local_bytes == 0
    assert "(C75" not in assembled.log


def test_copies_start_after_the_first_fragments_are_loaded() -> None:
    # An assembler moves no load from shared memory across a copy to it.
    lines = [line.strip() for line in _compiled("bfloat16", "sm_90a").ptx.split("\n")]
    start = next(n for n, line in enumerate(lines) if re.match(r"cp\.async\.wait_group\s+2", line))
    end = next(n for n in range(start, len(lines)) if "bra" in lines[n].split()[:2])
    names = [line.split(".")[0] for line in lines[start:end] if line]
    assert [name for name in names if name in ("cp", "ldmatrix", "mma", "bar")] == [
        *("cp", "bar"),
        *["ldmatrix"] * 4,
    ]


def test_copies_of_whole_tiles_have_no_number_of_bytes() -> None:
    copies = re.findall(r"cp\.async\.cg\.shared\.global [^;]+", _compiled("bfloat16", "sm_90a").ptx)
    whole = [each for each in copies if each.endswith(" 16")]
    # Of both factors: those of three iterations are before the loop, those of one are in it.
    assert len(whole) == 4 * 4
    assert len(copies) == 2 * len(whole)


def test_a_launch_adds_shared_memory() -> None:
    def product(a, b, c):
        acc = kd.tile.zeros((64, 64), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64), stages=6):
            x, y = kd.tile.load(a, (0, k), (64, 64)), kd.tile.load(b, (0, k), (64, 64))
            acc = kd.mma(x, y.T, acc)
        kd.tile.store(c, (0, 0), acc)

    signature = "float16[:,::1], float16[:,::1], float32[:,::1]"
    artifact = compile_kernel(specialize(product, signature, block=(128, 1, 1)), arch="sm_80")
    expected = 6 * 2 * 64 * 64 * 2
    assert expected <= artifact.matrix_shared_bytes <= expected + 1024
    assert artifact.static_shared_bytes == 0
    assert artifact.resources().static_shared_bytes == artifact.matrix_shared_bytes
