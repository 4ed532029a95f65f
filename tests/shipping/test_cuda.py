"""PTX and machine code that packages ship."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

import kerneldsl as kd
from kerneldsl.cache.reasons import UncacheableError
from kerneldsl.contract import UnusableCodeError
from kerneldsl.frontend.unit import _AT_ONCE, DeferredUnit, FunctionUnit
from kerneldsl.placement.registry import get_target
from targets.cuda.compile.cubin_file import read_cubin

COMPILER = get_target("cuda").compiler


@kd.kernel
def waves(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = math.sin(x[i]) ** 3


def compiled(arch: str = "sm_80"):
    _, found = waves.launched(
        "float64[::1], float64[::1]", extent=(1 << 20,), arch=arch, target="cuda"
    )
    return COMPILER.compile(found[0])


@pytest.fixture(scope="module")
def shipped():
    return COMPILER.ship(compiled())


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_ptx_and_machine_code(arch: str) -> None:
    made = compiled(arch)
    sections = COMPILER.ship(made)
    assert set(sections) == {"metadata", "ptx", "cubin"}
    assert f".target {arch}" in sections["ptx"].decode()
    cubin = read_cubin(sections["cubin"], "cubin")
    assert cubin.number == int(arch[3:])
    assert made.entry_name in cubin.entries
    assert b"/tmp" not in sections["cubin"]
    assert sections == COMPILER.ship(compiled(arch))
    restored = COMPILER.restore(made.specialization, sections)
    assert restored.image == sections["cubin"]
    assert restored.code("cubin") == sections["cubin"]
    assert restored.resources().registers == made.resources().registers
    # A driver that does not know the machine code assembles the PTX.
    assert restored.without_machine_code()
    assert restored.image == made.ptx
    assert not restored.without_machine_code()


def test_loading_it_makes_no_normal_form(shipped) -> None:
    specialization = compiled().specialization
    unit = specialization.unit
    known = {name: getattr(unit, name) for name in _AT_ONCE}
    deferred = DeferredUnit(lambda: unit, **known)
    restored = COMPILER.restore(replace(specialization, unit=deferred), shipped)
    assert restored.image == shipped["cubin"]
    assert restored.layout.parameters
    assert type(deferred) is DeferredUnit
    assert restored.passes == compiled().passes
    assert type(deferred) is FunctionUnit


def test_architectures_are_chosen_from_the_newest(shipped) -> None:
    assert COMPILER.shipped_architectures("sm_86")[:2] == ("sm_86", "sm_80")
    assert COMPILER.shipped_architectures("sm_90")[0] == "sm_90"
    assert "sm_90a" not in COMPILER.shipped_architectures("sm_100")
    specialization = compiled().specialization
    # Machine code serves the devices of a generation, and PTX every newer device.
    same = COMPILER.restore(replace(specialization, arch="sm_86"), shipped)
    assert (same.arch, same.image) == ("sm_80", shipped["cubin"])
    newer = COMPILER.restore(replace(specialization, arch="sm_90"), shipped)
    assert (newer.arch, newer.image) == ("sm_80", shipped["ptx"].decode())
    with pytest.raises(UnusableCodeError, match="is not for sm_75"):
        COMPILER.restore(replace(specialization, arch="sm_75"), shipped)


@pytest.mark.parametrize(
    ("section", "change", "said"),
    [
        ("ptx", lambda data: data.replace(b".entry ", b".func "), "no entry"),
        ("cubin", lambda data: data[:2000], "not a whole cubin"),
        ("cubin", lambda data: b"\x7fELF" + bytes(100), "not a whole cubin"),
        ("metadata", lambda data: b"{}", "cannot be read"),
        ("metadata", lambda data: data.replace(b"int64", b"int32"), "laid out otherwise"),
    ],
)
def test_bad_code_is_not_used(shipped, section: str, change, said: str) -> None:
    with pytest.raises(UnusableCodeError, match=said):
        COMPILER.restore(compiled().specialization, {**shipped, section: change(shipped[section])})


def test_machine_code_for_another_architecture_is_not_used(shipped) -> None:
    other = COMPILER.ship(compiled("sm_90"))
    with pytest.raises(UnusableCodeError, match="the cubin is not of"):
        COMPILER.restore(compiled().specialization, {**shipped, "cubin": other["cubin"]})


@pytest.mark.parametrize(("text", "is_shipped"), [("", True), ('#include "factor.h"\n', False)])
def test_linked_cuda_code_is_shipped_if_it_includes_nothing(
    tmp_path: Path, text: str, is_shipped: bool
) -> None:
    (tmp_path / "factor.h").write_text("#define FACTOR 3.0f\n")
    source = 'extern "C" __device__ float thrice(float a) { return 3.0f * a; }\n'
    (tmp_path / "thrice.cu").write_text(text + source)

    @kd.func(link=tmp_path / "thrice.cu", signature="float32(float32)")
    def thrice(a):
        return a * 3

    @kd.kernel
    def all_thrice(x):
        i = kd.grid(1)
        if i < x.size:
            x[i] = thrice(x[i])

    made = all_thrice.artifact("float32[::1]", arch="sm_90", target="cuda")
    if is_shipped:
        assert COMPILER.ship(made)["cubin"]
        return
    # The key of shipped code does not have the contents of headers.
    with pytest.raises(UncacheableError, match=r"thrice\.cu, which it calls, includes files"):
        COMPILER.ship(made)
