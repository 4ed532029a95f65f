"""Specializations as keys of compiled code."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import CompileOptions, ElementMapping, Promises, Specialization
from kerneldsl.contract.abi import LaunchMode
from kerneldsl.contract.device_code import CodeModule
from kerneldsl.frontend.linked_code import CodeForm

OTHERS = {
    "kinds": (),
    "options": CompileOptions(debug=True),
    "mode": LaunchMode(1),
    "block_dim": (32, 1, 1),
    "arch": "sm_75",
    "ptx_version": "8.0",
    "mapping": ElementMapping(items=(2, 1, 1)),
    "promises": Promises((), is_disjoint=True),
    "code": CodeModule(CodeForm.PTX, "<kernel>", b"").declare("kernel"),
}


@kd.kernel
def kernel(x):
    x[kd.grid(1)] = 1.0


def _specialization() -> Specialization:
    return kernel.specialization("float32[::1]", target="null")[1]


def test_what_is_asked_for_again_is_equal() -> None:
    first, second = _specialization(), _specialization()
    assert first is not second
    assert first == second
    assert hash(first) == hash(second)


@pytest.mark.parametrize("field", [field.name for field in fields(Specialization)])
def test_each_field_tells_specializations_apart(field: str) -> None:
    first = _specialization()
    other = OTHERS.get(field)
    if field in ("unit", "traits"):  # which are compared by identity
        other = replace(getattr(first, field))
    assert replace(first, **{field: other}) != first


def test_code_is_compiled_once_for_a_specialization() -> None:
    first = kernel.artifact("float32[::1]", target="null")
    assert kernel.artifact(np.zeros(3, np.float32), target="null") is first


@kd.kernel
def with_tuple(pair, out):
    kd.syncthreads()
    out[kd.threadIdx.x] = pair[0]


def test_kinds_with_tuples_have_their_own_traits_once() -> None:
    first = with_tuple.artifact("(int64, int64), int64[::1]", target="null")
    assert with_tuple.artifact("(int64, int64), int64[::1]", target="null") is first
