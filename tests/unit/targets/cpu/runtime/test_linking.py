"""Object files are linked without LLVM as LLVM links them."""

from __future__ import annotations

import gc
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import Artifact, LaunchConfig
from targets.cpu.codegen.levels import compiled_for, features_by_linux
from targets.cpu.runtime.artifact import Compiled, CpuArtifact
from targets.cpu.runtime.linking import IS_SUPPORTED, CannotLinkError, link, sections_of
from targets.cpu.runtime.objects import runner_symbols
from tests.support.arrays import assert_same_bits

pytestmark = pytest.mark.skipif(not IS_SUPPORTED, reason="needs Linux on x86-64")

TABLE = tuple(math.sqrt(i) for i in range(40))


@kd.kernel
def functions(x, out):
    """Call functions of C, and use constants of several widths."""
    i = kd.grid(1)
    if i < out.size:
        out[i] = math.erf(x[i]) + math.fmod(x[i], 1.5) * math.lgamma(x[i] + 2) + x[i] ** 3


@kd.kernel
def blocks(x, out):
    shared = kd.shared.array(64, np.float64)
    thread = kd.threadIdx.x
    shared[thread] = x[kd.blockIdx.x * 64 + thread]
    kd.syncthreads()
    out[kd.blockIdx.x * 64 + thread] = shared[63 - thread] + TABLE[thread % 40]


@kd.kernel
def counts(x, out):
    i = kd.grid(1)
    if i < x.size:
        kd.atomic.add(out, int(x[i]) % out.size, 1.0)


LAUNCHES = ((functions, None), (blocks, 64), (counts, None))
SIZE = 640


def _artifact(kernel: kd.Kernel, block: int | None, arch: str | None) -> CpuArtifact:
    forall = None if block else 1
    found: Artifact = kernel.artifact(
        "float64[::1], float64[::1]", forall=forall, block=block, target="cpu", arch=arch
    )
    assert isinstance(found, CpuArtifact)
    return found


def _code(artifact: CpuArtifact) -> bytes:
    code = artifact.compiled.library.object_code()
    assert code is not None
    return bytes(code)


def _launch(artifact: CpuArtifact, block: int | None) -> np.ndarray:
    x, out = np.random.default_rng(1).random(SIZE) * 30, np.zeros(SIZE)
    address, memory = link(_code(artifact), artifact.entry_name, runner_symbols())
    compiled = Compiled(artifact.compiled.library, address, artifact.entry_name, _Loaded(memory))
    executable = kd.get_target("cpu").devices()[0].load(replace(artifact, compiled=compiled))
    values = [x.ctypes.data, SIZE, out.ctypes.data, SIZE]
    if block:
        config = LaunchConfig((SIZE // block, 1, 1), (block, 1, 1))
    else:
        config = LaunchConfig((3, 1, 1), (256, 1, 1), (SIZE,))
        values.append(SIZE)
    executable.launch(config, artifact.specialization.layout.pack(*values))
    return out


class _Loaded:
    def __init__(self, memory: object) -> None:
        self.memory, self.code_range = memory, (0, 0)


@pytest.mark.parametrize("arch", [None, "x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize(("kernel", "block"), LAUNCHES)
def test_it_gives_the_results_of_llvm(kernel: kd.Kernel, block: int | None, arch: str | None):
    x, expected = np.random.default_rng(1).random(SIZE) * 30, np.zeros(SIZE)
    with kd.use("cpu"):
        if block:
            kernel[SIZE // block, block](x, expected)
        else:
            kernel.forall(SIZE)(x, expected)
    found = _launch(_artifact(kernel, block, arch), block)
    if arch is None:
        assert_same_bits(found, expected, kernel.__name__)
    else:  # of another level, with other contractions
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_what_the_process_does_not_have_is_named() -> None:
    artifact = _artifact(functions, None, "x86-64-v3")
    code = _code(artifact)
    assert b"\0erf\0" in code or b"lgamma\0" in code
    with pytest.raises(CannotLinkError, match="the process has no 'lgamm_'"):
        link(code.replace(b"lgamma\0", b"lgamm_\0"), artifact.entry_name, {})


def test_symbols_that_are_given_are_used() -> None:
    artifact = _artifact(functions, None, "x86-64-v3")
    code = _code(artifact).replace(b"lgamma\0", b"lgamm_\0")
    address, memory = link(code, artifact.entry_name, {"lgamm_": 0x7000_0000_0000_0000})
    assert memory.address <= address


def test_unknown_relocations_are_left_to_llvm() -> None:
    artifact = _artifact(functions, None, "x86-64-v3")
    code = bytearray(_code(artifact))
    relocations = [each for each in sections_of(bytes(code)) if each.type == 4]
    for section in relocations:  # 8 bytes of the place, then the type
        code[section.offset + 8] = 6
    with pytest.raises(CannotLinkError, match="a relocation of type 6"):
        link(bytes(code), artifact.entry_name, {})


def test_no_damage_ends_the_process() -> None:
    artifact = _artifact(blocks, 64, "x86-64-v3")
    code = _code(artifact)
    random = np.random.default_rng(1)
    for cut in range(0, len(code), 61):
        with pytest.raises(CannotLinkError):
            link(code[:cut], artifact.entry_name, {})
    for place in random.integers(0, len(code), 300):
        changed = bytearray(code)
        changed[place] ^= 1 << int(random.integers(8))
        try:
            link(bytes(changed), artifact.entry_name, {})
        except CannotLinkError:
            continue


def test_memory_is_freed_with_its_owner() -> None:
    artifact = _artifact(blocks, 64, "x86-64-v3")
    _, memory = link(_code(artifact), artifact.entry_name, {})
    place = f"{memory.address:x}-"
    assert place in Path("/proc/self/maps").read_text()
    del memory
    gc.collect()
    assert place not in Path("/proc/self/maps").read_text()


def test_code_cannot_be_written() -> None:
    artifact = _artifact(blocks, 64, "x86-64-v3")
    address, memory = link(_code(artifact), artifact.entry_name, {})
    maps = Path("/proc/self/maps").read_text().splitlines()
    (line,) = (each for each in maps if each.startswith(f"{memory.address:x}-"))
    assert line.split()[1] == "r-xp"
    assert address >= memory.address


def test_linux_lists_the_features_that_llvm_finds(tmp_path: Path) -> None:
    found = features_by_linux()
    assert found
    assert found <= compiled_for().features
    of_another = tmp_path / "cpuinfo"
    of_another.write_text("processor : 0\nFeatures : fp asimd\n")
    assert features_by_linux(str(of_another)) == frozenset()
    assert features_by_linux(str(tmp_path / "none")) == frozenset()
