"""The tables of architectures and PTX versions, and that a mismatch is an error of ours."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kerneldsl.errors import ArgumentValueError
from targets.cuda.architectures import (
    ARCHITECTURES,
    PTX_RELEASES,
    choose_ptx_version,
    parse_arch,
    parse_ptx_version,
    ptx_version_for_driver,
)
from tests.ptx.helpers import compile_ptx


def _store(x):
    x[0] = 1


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_architecture_is_written_with_its_oldest_version(arch: str) -> None:
    oldest = max(ARCHITECTURES[arch].minimum_ptx, (6, 0))
    version = f"{oldest[0]}.{oldest[1]}"
    ptx = compile_ptx(_store, "int32[::1]", arch, ptx_version=version).ptx
    assert f".version {version}\n" in ptx
    assert f".target {arch}\n" in ptx


@pytest.mark.parametrize("release", PTX_RELEASES, ids=lambda r: f"{r.ptx[0]}.{r.ptx[1]}")
def test_every_ptx_version_is_written(release) -> None:
    version = f"{release.ptx[0]}.{release.ptx[1]}"
    artifact = compile_ptx(_store, "int32[::1]", "sm_60", ptx_version=version)
    assert f".version {version}\n" in artifact.ptx
    assert artifact.ptx_version == release.ptx


@pytest.mark.parametrize(
    ("arch", "version"),
    [
        ("sm_90", "7.0"),
        ("sm_90a", "7.8"),
        ("sm_100", "8.5"),
        ("sm_120", "8.6"),
        ("sm_75", "6.2"),
        ("sm_80", "6.5"),
        ("sm_100f", "8.6"),
    ],
)
def test_a_version_that_does_not_know_the_architecture_is_refused(arch: str, version: str) -> None:
    with pytest.raises(ArgumentValueError, match=f"does not support {arch}"):
        compile_ptx(_store, "int32[::1]", arch, ptx_version=version)


@pytest.mark.parametrize("name", ["sm_91", "sm_20", "sm_75a", "sm_90f", "hopper", "", "sm_9"])
def test_an_unknown_architecture_is_refused(name: str) -> None:
    with pytest.raises(ArgumentValueError, match="is unknown") as raised:
        parse_arch(name)
    assert raised.value.value == name
    assert "sm_90a" in str(raised.value)


@pytest.mark.parametrize("version", ["5.0", "7.9", "10.0", "x", "7", (7,), 6.6])
def test_an_unwritable_version_is_refused(version) -> None:
    with pytest.raises(ArgumentValueError, match="unsupported ptx_version"):
        parse_ptx_version(version)


def test_the_default_version_is_old_but_knows_the_architecture() -> None:
    for arch in ARCHITECTURES.values():
        assert choose_ptx_version(arch) == max(arch.minimum_ptx, (7, 0))


@pytest.mark.parametrize(
    ("driver", "version"),
    [(9000, (6, 0)), (11080, (7, 8)), (12040, (8, 4)), (12060, (8, 5)), (13020, (9, 0))],
)
def test_the_newest_version_of_a_driver(driver: int, version: tuple[int, int]) -> None:
    assert ptx_version_for_driver(driver) == version


def test_a_driver_that_is_too_old_is_refused() -> None:
    with pytest.raises(ArgumentValueError, match=r"supports CUDA 8\.0"):
        ptx_version_for_driver(8000)


def test_the_table_of_minimums_is_that_of_llvm() -> None:
    """LLVM's own choice for an architecture is its minimum; asked in a child that may die."""
    program = (
        "import llvmlite.binding as llvm, sys\n"
        "llvm.initialize_all_targets(); llvm.initialize_all_asmprinters()\n"
        "target = llvm.Target.from_triple('nvptx64-nvidia-cuda')\n"
        "for arch in sys.argv[1:]:\n"
        "    machine = target.create_target_machine(cpu=arch)\n"
        "    module = llvm.parse_assembly('target triple = \"nvptx64-nvidia-cuda\"')\n"
        "    text = machine.emit_assembly(module)\n"
        "    print(arch, text.split('.version ')[1].split()[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *ARCHITECTURES], capture_output=True, text=True, check=True
    )
    found = dict(line.split() for line in done.stdout.splitlines())
    assert done.stderr == ""
    assert found == {a.name: "{}.{}".format(*a.minimum_ptx) for a in ARCHITECTURES.values()}
