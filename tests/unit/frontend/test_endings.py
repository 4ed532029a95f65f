"""Device functions that give a value on one path and none on another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit

import kerneldsl as kd


@kd.func
def if_without_else(x):
    if x > 1.0:
        return x


@kd.func
def loop_that_ends(x):
    for i in range(3):
        if i > x:
            return 2.0 * i


@kd.func
def loop_that_is_left(x):
    while True:
        x += 1.0
        if x > 8.0:
            break
        if x > 3.0:
            return x


@kd.func
def branch_of_a_branch(x):
    if x > 1.0:
        return x
    elif x > 0.5:
        x += 1.0
    else:
        return 0.0


@kd.func
def bare_return(x):
    if x > 1.0:
        return
    return x


@kd.func
def explicit_none(x):
    if x > 1.0:
        return None
    return x


@njit
def of_numba(x):
    if x > 1.0:
        return x


@kd.func
def by_way_of_another(x):
    return if_without_else(x)


@kd.func
def complete(x):
    while True:
        if x > 3.0:
            return x
        elif x > 2.0:
            return 3.0
        else:
            for i in range(2):
                if i > x:
                    break
            x += 1.0


@kd.func
def guarded(x):
    if x > 1.0:
        return x
    raise ValueError("too small")


def storing(function: Any) -> Any:
    @kd.kernel
    def store(out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = function(out[i])

    return store


@pytest.mark.parametrize(
    ("function", "returned", "text", "where"),
    [
        (if_without_else, 3, "if x > 1.0:", "ends after"),
        (loop_that_ends, 4, "for i in range(3):", "ends after"),
        (loop_that_is_left, 7, "while True:", "ends after"),
        (branch_of_a_branch, 3, "x += 1.0", "ends after"),
        (bare_return, 4, "return", "none here"),
        (explicit_none, 4, "return None", "none here"),
        (of_numba, 3, "if x > 1.0:", "ends after"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_missing_value_is_refused_at_its_line(
    function: Any, returned: int, text: str, where: str
):
    plain: Callable[..., Any] = getattr(function, "py_func", None) or function.__wrapped__
    line = plain.__code__.co_firstlineno + returned  # a decorator is the first line
    with pytest.raises(kd.UnsupportedConstructError) as caught:
        storing(function).forall(4)(np.arange(4.0))
    error = caught.value
    assert error.where is not None
    assert (error.where.function, error.where.line.strip()) == (plain.__qualname__, text)
    assert f"{plain.__name__} returns a value in line {line}, but none" in error.what
    assert where in error.what
    assert "store uses the result" in error.what
    assert "Return a value on every path" in str(error.remedy)


def test_the_result_of_a_result():
    with pytest.raises(kd.UnsupportedConstructError, match="by_way_of_another uses the result"):
        storing(by_way_of_another).forall(4)(np.arange(4.0))


def test_functions_that_always_return():
    out = np.arange(5.0)
    storing(complete).forall(5)(out)
    assert out.tolist() == [3.0, 3.0, 3.0, 3.0, 4.0]
    out = np.arange(2.0, 4.0)
    storing(guarded).forall(2)(out)
    assert out.tolist() == [2.0, 3.0]


def test_a_call_for_its_effects():
    @kd.func
    def put(out, i, value):
        if value < 2.0:
            return 0
        out[i] = -value

    @kd.kernel
    def store(out):
        i = kd.grid(1)
        if i < out.size:
            put(out, i, out[i])

    out = np.arange(4.0)
    store.forall(4)(out)
    assert out.tolist() == [0.0, 1.0, -2.0, -3.0]


def test_a_caller_that_asks_for_none():
    @kd.kernel
    def store(out):
        i = kd.grid(1)
        if i < out.size:
            found = if_without_else(out[i])
            if found is None:
                out[i] = -1.0
            else:
                out[i] = found + 1.0

    out = np.arange(4.0)
    store.forall(4)(out)
    assert out.tolist() == [-1.0, -1.0, 3.0, 4.0]
