"""What a package says of its kernels is what an analysis of the same kernel finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

import kerneldsl as kd
from kerneldsl._version import __version__
from kerneldsl.analysis import analyze as analyze_module
from kerneldsl.analysis.analyze import analyze
from kerneldsl.frontend.effects.effects import array_effects
from kerneldsl.placement.registry import get_target
from kerneldsl.shipping import analyses
from kerneldsl.shipping.analyses import effects_of, name_of_effects
from kerneldsl.shipping.key import unit_digest
from kerneldsl.shipping.manifest import Manifest
from kerneldsl.shipping.packages import ShippedKernels
from kerneldsl.shipping.writer import PackageWriter

VECTORS, MATRICES = "float32[::1], float32[::1]", "float32[:, ::1], float32[:, ::1]"


@kd.kernel
def twice(x, out):
    i = kd.grid(1)
    if i < out.shape[0]:
        out[i] = x[i] * 2


@pytest.mark.parametrize(("signature", "is_unchanged"), [(VECTORS, True), (MATRICES, False)])
def test_a_kernel_that_is_rewritten_is_not_listed(signature: str, is_unchanged: bool) -> None:
    compiler = get_target("cpu").compiler
    _, found = twice.specialization(signature, forall=1, target="cpu")
    arch = compiler.shipped_architectures(found.arch)[-1]
    writer = PackageWriter("mypkg")
    assert writer.add(compiler, compiler.compile(replace(found, arch=arch))) is not None
    unit = twice._dispatcher.state().unit
    listed = writer.manifest().analyses["unchanged"]
    assert (found.unit is unit) is is_unchanged
    assert (unit_digest(unit, found.kinds) in listed) is is_unchanged
    assert unit_digest(found.unit) in writer.manifest().analyses["effects 0;1"]


@kd.kernel
def in_place(x, out):
    out += x[0]


def _shipping(monkeypatch: pytest.MonkeyPatch, unit, lists: dict[str, set[str]]) -> None:
    """Let the kernel's package have some lists of kernels."""
    manifest = Manifest(
        "tests", __version__, {}, (), {}, {k: frozenset(v) for k, v in lists.items()}
    )
    shipped = ShippedKernels("tests", "_kernels", lambda name: manifest.encode(), strict=False)
    monkeypatch.setattr(analyses, "shipped_kernels_of", lambda module: shipped)


def test_effects_that_a_package_lists_are_not_found_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unit = twice._dispatcher.state().unit
    expected = array_effects(unit)
    _shipping(monkeypatch, unit, {name_of_effects(expected): {unit_digest(unit)}})
    found = effects_of(unit)
    assert found == expected == (frozenset({0}), frozenset({1}))
    usual = analyze(unit)
    monkeypatch.setattr(analyze_module, "array_effects", None)
    monkeypatch.setattr(analyze_module, "augmented_values", None)
    assert analyze(unit, effects=found) == usual


@pytest.mark.parametrize(
    "name", ["effects 0;7", "effects 0", "effects ", "effects 0;1;1", "uniform"]
)
def test_lists_that_say_nothing_of_effects(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    unit = twice._dispatcher.state().unit
    _shipping(monkeypatch, unit, {name: {unit_digest(unit)}})
    assert effects_of(unit) is None
    _shipping(monkeypatch, unit, {"effects 0;1": {"0" * 64}})
    assert effects_of(unit) is None


def test_a_kernel_that_may_assign_an_array_in_place_is_not_listed() -> None:
    _, found = in_place.specialization("float32[::1], float32", forall=1, target="cpu")
    assert analyze(found.unit).augmented
    writer = PackageWriter("mypkg")
    writer._analyze(found)
    assert not [name for name in writer.manifest().analyses if name.startswith("effects")]
