"""Variables in the region IR: their types, and where they are assigned."""

from __future__ import annotations

from typing import Any

import pytest
from numba import errors

import kerneldsl as kd
from kerneldsl.ir.printer import print_function
from tests.support.read_kernels import read_typed
from tests.support.verifier import verify

_F = "float32[::1]"


@kd.kernel
def temporaries(x, out):
    i = kd.grid(1)
    for k in range(3):
        t = x[k]
        out[i] += t
    for k in range(3):
        t = (k, x)
        out[i] += t[0]


@kd.kernel
def unassigned(x, out):
    if out.size > 3:
        v = 1
    else:
        v = (1, 2)
    out[0] = v


@kd.kernel
def earlier(x, out):
    for k in range(x.size):
        if k > 0:
            out[k] = before  # noqa: F821
            before += x[k]  # noqa: F821, F841


def test_a_variable_is_assigned_before_it_is_read() -> None:
    with pytest.raises(errors.TypingError, match="variable before is not defined"):
        read_typed(earlier, f"{_F}, {_F}")


@kd.kernel
def earlier_in_a_branch(x, out):
    i = kd.grid(1)
    if i < out.size:
        total = 0
        for _ in range(x.size):
            total += before  # noqa: F821
            before = before + 1  # noqa: F821, F841
        out[i] = total


@kd.kernel
def times_in_a_branch(x, out):
    i = kd.grid(1)
    if i < out.size:
        for k in range(x.size):
            for _ in range(times):  # noqa: F821
                out[i] += 1
            times = k  # noqa: F841


@pytest.mark.parametrize("kernel", [earlier_in_a_branch, times_in_a_branch])
def test_a_branch_around_such_a_loop_is_not_left_out(kernel: Any) -> None:
    with pytest.raises(errors.TypingError, match=r"variable (before|times) is not defined"):
        read_typed(kernel, f"{_F}, {_F}")


def test_a_temporary_variable_may_have_several_types() -> None:
    read_typed(temporaries, f"{_F}, {_F}")


def test_a_variable_of_two_types_is_an_error_where_it_is_read() -> None:
    with pytest.raises(errors.TypingError, match="on one path"):
        read_typed(unassigned, f"{_F}, {_F}")


def test_code_that_never_runs_has_no_types() -> None:
    width = 4

    @kd.kernel
    def pruned(x, out):
        if x.ndim == 2 and width == 4:
            out[0] = x[0, 0]
        elif width == 4:
            out[0] = x[0]
        else:
            out[0] = x.nothing

    assert "array.load" in print_function(read_typed(pruned, f"{_F}, {_F}"))


@kd.kernel
def left_at_once(x, m, out):
    i = kd.grid(1)
    while m > 3:
        for _j in range(-1, i):
            break
        m -= 1
    out[i] = m


@kd.kernel
def never_assigned(x, m, out):
    t = kd.threadIdx.x
    for k in range(m):
        continue
        value = k * 2
    for _k in range(t):
        if m > 5:
            break
        value = t
        x[t] = value
    out[t] = m


@pytest.mark.parametrize("kernel", [left_at_once, never_assigned])
def test_variables_without_a_type_in_their_loop_have_one_at_the_end(kernel: Any) -> None:
    function = read_typed(kernel, f"{_F}, int64, {_F}")
    verify(function)
    assert "None" not in print_function(function)
