"""Lowering without reference counts: what Numba's gives, with slots that nobody fills first."""

from __future__ import annotations

import re

import pytest
from numba import njit, types
from numba.core.compiler import compile_extra

from kerneldsl.lowering.numba_internals.compiling import (
    FunctionCompiler,
    global_compiler_lock,
    kernel_flags,
)
from kerneldsl.lowering.numba_internals.host_code import HostLibrary, host_contexts


def later_values(n: int) -> int:
    total = 0
    for i in range(n):
        if i % 3 == 1:
            last = i
        if i % 2:
            total = total * 7 + last
        if i > 5:
            other = last
            total += other
    return total


def nested(n: int) -> int:
    total = 0
    for i in range(n):
        for k in range(i, 2 * i):
            if k % 5 == 2:
                continue
            pair = (k, k + 1) if k % 3 else (total, 0)
            first, second = pair
            total += first - 2 * second
            if total > 1000:
                break
    return total


@pytest.mark.parametrize("function", [later_values, nested])
def test_results_are_numbas(function: object) -> None:
    ours = njit(pipeline_class=FunctionCompiler, _nrt=False)(function)
    theirs = njit(function)
    assert [ours(n) for n in range(20)] == [theirs(n) for n in range(20)]


def test_what_is_assigned_before_all_uses_has_no_slot() -> None:
    def scaled(n: int) -> int:
        factor = n * 3
        total = 0
        for i in range(n):
            inner = i * factor
            if inner > 7:
                total += inner
        return total

    texts: list[str] = []

    def write(module: object) -> str:
        texts.append(str(module))
        return texts[-1]

    library = HostLibrary("scaled", write)
    with global_compiler_lock:
        contexts = host_contexts()
        compile_extra(
            *(contexts.typing_context, contexts.target_context, scaled, (types.int64,), None),
            *(kernel_flags(), {}),
            library=library,
            pipeline_class=FunctionCompiler,
        )
    slots = set(re.findall(r'%"?(factor|inner|total|n)\b[^ ]* = alloca', texts[0]))
    assert slots == {"total"}


def test_what_counts_references_is_numbas() -> None:
    ours = njit(pipeline_class=FunctionCompiler)(nested)
    assert [ours(n) for n in range(20)] == [nested(n) for n in range(20)]
