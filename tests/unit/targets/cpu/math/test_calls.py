"""Functions that a module calls by both of their names, and several times in one expression."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import kerneldsl as kd
from targets.cpu.math.vector.define import replace_math
from tests.support.arrays import assert_within_ulp, poisoned
from tests.support.extent import full_beyond
from tests.unit.targets.cpu.math.functions import FUNCTIONS, Function

#: Functions of which LLVM has an intrinsic beside C's function.
_WITH_INTRINSICS = (
    *("exp", "exp2", "log", "log2", "log10", "pow", "sin", "cos", "tan"),
    *("asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh"),
)


@pytest.mark.parametrize(
    ("kind", "suffix", "letter"), [("float", "f32", "f"), ("double", "f64", "")]
)
@pytest.mark.parametrize("name", _WITH_INTRINSICS)
def test_both_names_of_a_function_are_defined(
    name: str, kind: str, suffix: str, letter: str
) -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    count = FUNCTIONS[name].arity
    given, passed = ", ".join([kind] * count), ", ".join([f"{kind} %x"] * count)
    names = (f"llvm.{name}.{suffix}", f"{name}{letter}")
    module = llvm.parse_assembly(
        f"""
        declare {kind} @{names[0]}({given})
        declare {kind} @{names[1]}({given})

        define {kind} @both({kind} %x) {{
          %a = call {kind} @{names[0]}({passed})
          %b = call {kind} @{names[1]}({passed})
          %sum = fadd {kind} %a, %b
          ret {kind} %sum
        }}
        """
    )
    replace_math(module, machine)
    module.verify()
    called = set(re.findall(r'call \w+ @"?([\w.]+)', str(module.get_function("both"))))
    assert len(called) == 2
    for each in called:
        assert not module.get_function(each).is_declaration, each


def _samples(function: Function, count: int) -> kd.Kernel:
    """Return a kernel that adds up a function of so many numbers, called by both names."""
    by_python: Callable[..., Any] = function.spelled
    by_numpy = function.exact
    has_pair = function.arity == 2

    @kd.func
    def both(x):
        if has_pair:
            return by_python(x, x + x) + by_numpy(x, x + x)
        return by_python(x) + by_numpy(x)

    @kd.kernel
    def samples(x, out):
        i = kd.grid(1)
        total = both(x[i, 0])
        for k in range(1, count):
            total += both(x[i, k])
        out[i] = total

    return samples


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", full_beyond(range(2, 9), (3, 8)))
@pytest.mark.parametrize(
    "name", full_beyond(["log2", "exp", "sin", "tanh", "atan2"], ["log2", "sin", "atan2"])
)
def test_several_samples_in_one_expression(name: str, count: int, dtype: str) -> None:
    """Calls of a device function in a row, which LLVM may join into one vector of any width."""
    function = FUNCTIONS[name]
    x = np.random.default_rng().uniform(0.5, 3, (50, count)).astype(dtype)
    out = poisoned(50, dtype)
    with kd.use("cpu"):
        _samples(function, count).forall(50)(x, out)
    wide = x.astype(np.longdouble)
    assert function.exact is not None
    values = function.exact(wide, wide + wide) if function.arity == 2 else function.exact(wide)
    bound = 8 * count * np.finfo(dtype).eps * np.abs(values).sum(axis=1)
    assert np.all(np.abs(out - 2 * values.sum(axis=1)) <= bound)


def test_both_spellings_in_one_kernel() -> None:
    @kd.kernel
    def spelled(x, out):
        i = kd.grid(1)
        out[i] = (math.log2(x[i]) + np.log2(x[i])) / 2

    x, out = np.linspace(1, 9, 99), poisoned(99, np.float64)
    with kd.use("cpu"):
        spelled.forall(99)(x, out)
    assert_within_ulp(out, np.log2(x.astype(np.longdouble)), 2, "log2")
