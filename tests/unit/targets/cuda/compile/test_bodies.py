"""A body that syntax trees are lowered to serves all mappings, launches and architectures."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import pytest

import kerneldsl as kd
from kerneldsl.contract import CompileOptions, ElementMapping, Promises, Specialization
from kerneldsl.contract.abi import EXPLICIT, LaunchMode
from kerneldsl.ir.frontend.reader import NotReadError
from kerneldsl.language.signatures import parse_signature
from targets.cuda.compile import region_code
from targets.cuda.compile.bodies import _MAX_BODIES, _bodies
from targets.cuda.compile.compiler import compile_kernel
from tests.ptx.helpers import specialize

_SIGNATURE = "float32[::1], float32[::1]"


@pytest.fixture(autouse=True)
def _without_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(specialization: Specialization) -> None:
        raise NotReadError("nothing")

    monkeypatch.setattr(region_code, "lower_regions", refuse)


def _fresh() -> Specialization:
    def copy(x, out):
        i = kd.grid(1)
        if 0 < i < out.size:
            out[i] = x[i]

    return specialize(copy, _SIGNATURE, LaunchMode(1))


def test_a_body_without_a_pass_is_another_one() -> None:
    base = _fresh()
    compile_kernel(base, arch="sm_90")
    options = CompileOptions(disabled_passes=("unroll-strides",))
    other = compile_kernel(replace(base, options=options), arch="sm_90")
    assert other.timings["numba"] > 0


def test_other_forms_of_a_kernel_share_its_body() -> None:
    base = _fresh()
    first = compile_kernel(base, arch="sm_90")
    assert first.timings["numba"] > 0
    others = [
        (replace(base, mapping=ElementMapping((4, 1, 1), 4)), "sm_90"),
        (replace(base, promises=Promises(is_disjoint=True)), "sm_90"),
        (replace(base, mode=EXPLICIT), "sm_90"),
        (replace(base, options=CompileOptions(fastmath=True)), "sm_90"),
        (base, "sm_75"),
    ]
    for specialization, arch in others:
        shared = compile_kernel(specialization, arch=arch)
        assert shared.timings["numba"] == 0
        alone = replace(
            _fresh(),
            **{
                name: getattr(specialization, name)
                for name in ("mapping", "promises", "mode", "options")
            },
        )
        assert compile_kernel(alone, arch=arch).ptx == shared.ptx


def test_what_the_body_depends_on_makes_another_one() -> None:
    base = _fresh()
    compile_kernel(base, arch="sm_90")
    others = [
        replace(base, options=CompileOptions(debug=True)),
        replace(base, options=CompileOptions(wraparound=False)),
        replace(base, options=CompileOptions(lineinfo=True)),
        replace(base, kinds=parse_signature("float64[::1], float32[::1]")),
    ]
    for specialization in others:
        assert compile_kernel(specialization, arch="sm_90").timings["numba"] > 0
    assert len(_bodies[base.unit]) == _MAX_BODIES  # the first one has gone
    assert compile_kernel(base, arch="sm_90").timings["numba"] > 0


def test_bodies_go_with_their_kernel() -> None:
    base = _fresh()
    compile_kernel(base, arch="sm_90")
    unit = weakref.ref(base.unit)
    assert unit() in _bodies
    del base
    gc.collect()
    assert unit() is None
