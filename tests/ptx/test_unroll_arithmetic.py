"""Loops that only compute, which LLVM unrolls by four."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from tests.ptx.helpers import body_of, compile_ptx
from tests.ptx.pass_kernels import artifact_for_pass

_NAME = "unroll-arithmetic"
_INTEGERS = "int64[::1], int64[::1]"
u32 = np.uint32


@kd.func
def stirred(value):
    value = u32(value * u32(5) + u32(1))
    value = u32(value ^ u32(value >> u32(9)))
    return u32(value * u32(9) + u32(7))


@kd.func
def looked_up(x, value):
    return x[value & 31]


def with_functions(x, out):
    t = kd.threadIdx.x
    value, count = u32(x[t]), 0
    for _ in range(out.size):
        value = stirred(stirred(value))
        if value < u32(1000):
            count += 1
    out[t] = count


@kd.func
def uniform(value):
    return np.float32(value >> u32(8)) * np.float32(2.0**-24)


def with_constants(x, out):
    t = kd.threadIdx.x
    value, count = u32(x[t]), 0
    for _ in range(out.size):
        value = stirred(value)
        one = uniform(value)
        value = stirred(value)
        other = uniform(value)
        if one * one + other * other < np.float32(1.0):
            count += 1
    out[t] = count


def short(x, out):
    t = kd.threadIdx.x
    value = x[t]
    for _ in range(out.size):
        value = (value ^ (value << 13)) * 5 + 1
    out[t] = value


def of_known_length(x, out):
    t = kd.threadIdx.x
    value = x[t]
    for k in range(7):
        value = (value ^ (value << 13)) * 5 + (value ^ (value >> k)) * 9
        value = (value ^ (value << 13)) * 5 + (value ^ (value >> k)) * 9
    out[t] = value


def with_loads(x, out):
    t = kd.threadIdx.x
    value = x[t]
    for k in range(out.size):
        value = (value ^ (value << 13)) * 5 + (value ^ (value >> 3)) * 9
        value = (value ^ (value << 13)) * 5 + looked_up(x, k)
    out[t] = value


def rooted(x, out):
    t = kd.threadIdx.x
    nearest, b = x[t], x[t + 1]
    for k in range(out.size):
        inside = (b * x[k] + nearest) * b - (x[k] * x[k + 1] + b * b - x[k + 2] * x[k + 2])
        if inside > 0.0:
            at = b - math.sqrt(inside)
            if 0.0 < at < nearest:
                nearest = at
    out[t] = nearest


def rooted_and_stored(x, out):
    t = kd.threadIdx.x
    nearest, b = x[t], x[t + 1]
    for k in range(out.size):
        inside = (b * x[k] + nearest) * b - (x[k] * x[k + 1] + b * b - x[k + 2] * x[k + 2])
        if inside > 0.0:
            at = b - math.sqrt(inside)
            if 0.0 < at < nearest:
                nearest = at
        out[k] = nearest


def with_divisions(x, out):
    t = kd.threadIdx.x
    value = x[t]
    for k in range(out.size):
        value = (value ^ (value << 13)) * 5 + (value ^ (value >> 3)) * 9
        value = (value ^ (value << 13)) * 5 + value // (k + 3)
    out[t] = value


def with_loops(x, out):
    t = kd.threadIdx.x
    value = x[t]
    for _ in range(out.size):
        value = (value ^ (value << 13)) * 5 + (value ^ (value >> 3)) * 9
        value = (value ^ (value << 13)) * 5 + (value ^ (value >> 3)) * 9
        while value > 100:
            value >>= 1
    out[t] = value


def left_early(x, out):
    t = kd.threadIdx.x
    value = x[t]
    for _ in range(out.size):
        value = (value ^ (value << 13)) * 5 + (value ^ (value >> 3)) * 9
        value = (value ^ (value << 13)) * 5 + (value ^ (value >> 3)) * 9
        if value > 100:
            break
    out[t] = value


def _remarks(kernel: Callable[..., Any]) -> list[str]:
    passes = compile_ptx(kernel, _INTEGERS).passes
    return [each.text for each in passes if each.name == _NAME]


@pytest.mark.parametrize("kernel", [with_functions, with_constants])
def test_functions_on_numbers_are_computed_too(
    kernel: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    assert _remarks(kernel) == ["1 loop unrolled by four, as it only computes"]
    assert capfd.readouterr().err == ""  # LLVM warns of loops that it cannot unroll


@pytest.mark.parametrize(
    "kernel",
    [short, of_known_length, with_loads, with_divisions, with_loops, left_early],
    ids=lambda each: each.__name__,
)
def test_other_loops_are_left_to_llvm(kernel: Callable[..., Any]) -> None:
    assert not _remarks(kernel)


@pytest.mark.parametrize(("kernel", "count"), [(rooted, 1), (rooted_and_stored, 0)])
def test_a_loop_with_a_guarded_root_may_load(kernel: Callable[..., Any], count: int) -> None:
    """Golden: the loop takes four roots, and one over the rest takes one."""
    artifact = compile_ptx(kernel, "float64[::1], float64[::1]")
    texts = [each.text for each in artifact.passes if each.name == _NAME]
    remark = "1 loop unrolled by four, as it tests before it takes a square root"
    assert texts == [remark] * count
    if count:
        assert body_of(artifact).count("sqrt.rn.f64") == 5


def test_a_turn_of_the_loop_has_four_of_the_source() -> None:
    """Golden: eight products in the loop, of two in a turn."""
    with_pass, without = (
        re.findall(r"m(?:ul|ad)\.lo\.s64", _loop(body_of(artifact_for_pass(_NAME, *disabled))))
        for disabled in ((), (_NAME,))
    )
    assert (len(with_pass), len(without)) == (8, 4)


def _loop(body: str) -> str:
    """Return the longest part between a label and a branch to it."""
    found = re.findall(r"^(\$\w+):\n(.*?bra(?:\.uni)? *\t?\1;)", body, re.DOTALL | re.MULTILINE)
    return max((text for _, text in found), key=len)
