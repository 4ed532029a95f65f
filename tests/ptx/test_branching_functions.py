"""Functions whose code branches: the planner must know that items cannot combine their accesses."""

from __future__ import annotations

import math
from typing import Any

import pytest

import kerneldsl as kd
from kerneldsl.contract import ArrayPromises, ElementMapping, Promises
from kerneldsl.contract.abi import LaunchMode
from kerneldsl.language.signatures import parse_signature
from kerneldsl.planner.work import element_work
from tests.ptx.helpers import body_of, compile_ptx
from tests.support.counting import counted
from tests.support.extent import full_beyond

_TRIGONOMETRIC = ["sin", "cos", "tan", "asin", "acos", "atan"]
_HYPERBOLIC = ["sinh", "cosh", "tanh", "asinh", "acosh", "atanh"]
_EXPONENTIAL = ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt"]
_OTHER = ["erf", "erfc", "gamma", "lgamma", "floor", "ceil", "trunc", "fabs"]
_TWO = ["atan2", "hypot", "fmod", "copysign"]
_NAMES = [*_TRIGONOMETRIC, *_HYPERBOLIC, *_EXPONENTIAL, *_OTHER, *_TWO]
_QUICK = {"sin", "exp", "sqrt", "tanh", "erf", "hypot"}
_PROMISED = Promises((ArrayPromises(16, is_extent=True),) * 2, is_disjoint=True)
_PAIRS = ElementMapping((2, 1, 1), 2)


def _applying(name: str) -> Any:
    """Return a kernel that applies a function to each element."""
    function = getattr(math, name)
    if name in _TWO:

        def apply_two(x, out):
            i = kd.grid(1)
            if i < out.size:
                out[i] = function(x[i], x[i])

        return apply_two

    def apply(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = function(x[i])

    return apply


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", full_beyond(_NAMES, _QUICK))
def test_pairs_are_planned_where_the_code_combines_their_accesses(name: str, dtype: str) -> None:
    signature = f"{dtype}[::1], {dtype}[::1]"
    kernel = _applying(name)
    artifact = compile_ptx(
        kernel, signature, "sm_90", mode=LaunchMode(1), mapping=_PAIRS, promises=_PROMISED
    )
    is_combined = "st.global.v2" in body_of(artifact)
    work = element_work(counted(kernel, signature).body(), parse_signature(signature))
    assert (work.max_vector > 1) == is_combined
    assert work.is_serial != is_combined


def test_loops_of_unknown_length_keep_items_apart() -> None:
    def advance(x, out, rounds):
        i = kd.grid(1)
        if i < out.size:
            value = x[i]
            for _ in range(rounds):
                value = value * value + x[i]
            out[i] = value

    signature = "float32[::1], float32[::1], int64"
    work = element_work(counted(advance, signature).body(), parse_signature(signature))
    assert (work.max_vector, work.is_serial) == (1, True)
