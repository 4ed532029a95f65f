"""The region IR: what it reads, what it refuses, and the code that is made of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.ir.frontend.read import read_function
from kerneldsl.ir.operations import Function, Operation, Region
from kerneldsl.ir.printer import print_function, print_region
from kerneldsl.ir.ranges import ranges_of
from kerneldsl.ir.rewriter import rewrite
from kerneldsl.ir.uniformity import uniformity_of
from kerneldsl.language.intrinsics.intrinsic import Scope
from kerneldsl.lowering.numba_internals.host_code import host_contexts
from kerneldsl.lowering.types import numba_types
from targets.cpu.regions.read import read_kernel
from tests.support.verifier import VerificationError, verify
from tests.unit.ir.gate_kernels import KERNELS, specialization

_F = "float32[::1]"


def _read(kernel: Any, signature: str) -> Function:
    asked = kernel._asked_for((signature,), None, None, None, "cpu", None)
    spec = kernel._dispatcher.specialize(*asked)[1]
    typing = host_contexts().typing_context
    return read_function(spec.unit, numba_types(spec.kinds), typing)


@kd.kernel
def accumulate(x, out):
    total = 0
    for k in range(x.size):
        total += x[k]
    out[0] = total


def test_a_variable_of_a_loop_has_the_type_that_holds_all_its_values() -> None:
    function = _read(accumulate, "float32[::1], float32[::1]")
    verify(function)
    text = [line.partition("  #")[0].strip() for line in print_function(function).splitlines()]
    assert "%3: float64 = cast %total" in text
    assert "%total.1: float64 = for %1, %0, %2, %3 (%k: int64, %total.2: float64) {" in text
    assert "%total.3: float64 = numba.iadd %total.2, %4" in text


@pytest.mark.parametrize("name", KERNELS)
def test_the_kernels_of_the_gate_are_read(name: str) -> None:
    function, region = read_kernel(specialization(name, "cpu"))
    assert "numba." in print_region(region)
    if name == "axpy":
        verify(function)


def test_a_value_that_is_read_before_it_is_defined_is_found() -> None:
    function = _read(accumulate, "float32[::1], float32[::1]")
    operations = function.body.operations
    operations.insert(0, operations.pop(-2))
    with pytest.raises(VerificationError, match="not defined"):
        verify(function)


def test_intervals_and_uniformity_of_a_halved_width() -> None:
    function, _ = read_kernel(specialization("axpy", "cpu"))
    del function
    spec = specialization("tree", "cpu")
    typing = host_contexts().typing_context
    tree = read_function(spec.unit, numba_types(spec.kinds), typing)
    (loop,) = (each for each in tree.body.walk() if each.name == "while")
    width = loop.regions[1].arguments[0]
    assert ranges_of(tree, {"threadIdx.x": (0, 255)})[width] == (1, 128)
    found = uniformity_of(tree, spec.kinds)
    assert found.scope(width) is Scope.GRID
    threads = [each.result for each in tree.body.walk() if each.name == "threadIdx.x"]
    assert {found.scope(value) for value in threads} == {Scope.THREAD}


def test_a_pattern_takes_the_place_of_an_operation() -> None:
    region = Region()
    one = Operation("old", [], ("int64",))
    region.operations = [one, Operation("yield", [one.result])]

    def pattern(operation: Operation) -> Any:
        made = Operation("new", [], ("int64",))
        return [made], [made.result]

    rewrite(region, {"old": pattern})
    assert [each.name for each in region.operations] == ["new", "yield"]
    assert region.yielded == region.operations[0].results


@kd.kernel
def totals(x, out):
    total = 0
    for k in range(x.size):
        total += x[k]
    kd.syncthreads()
    out[0] = total


def test_a_block_of_one_thread_has_no_loops_over_threads() -> None:
    out = np.zeros(1, np.int64)
    with kd.use("cpu"):
        totals[1, 1](np.arange(9), out)
    assert out[0] == 36


def test_infinity_is_a_constant() -> None:
    _, region = read_kernel(specialization("softmax", "cpu"))
    values = [each.attributes["value"] for each in region.walk() if each.name == "const"]
    assert -math.inf in values
