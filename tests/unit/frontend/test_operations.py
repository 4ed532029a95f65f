"""A function that an intrinsic is given: what it may be, and how a refusal tells."""

from __future__ import annotations

import math
from typing import Any

import pytest

import kerneldsl as kd
from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.normalize import make_unit

SCALE = 3


@kd.func
def scaled(a, b):
    return a + SCALE * b


@kd.func
def of_three(a, b, c):
    return a + b + c


@kd.func
def with_the_rest(a, *b):
    return a + b[0]


@kd.func
def of_the_thread(a, b):
    return a + b * kd.threadIdx.x


@kd.func
def with_barrier(a, b):
    kd.syncthreads()
    return a + b


def by_name(x):
    x[0] = kd.block.reduce(x[0], scaled)


def by_keyword(x):
    x[0] = kd.block.inclusive_scan(op=scaled, x=x[0])


def by_lambda(x):
    x[0] = kd.warp.reduce(x[0], lambda a, b: a * b)


def by_local_name(x):
    longer = lambda a, b: a if a > b else b
    x[0] = kd.warp.reduce(x[0], longer)


@pytest.mark.parametrize("kernel", [by_name, by_keyword, by_lambda, by_local_name])
def test_the_function_is_a_name_of_a_callee(kernel) -> None:
    unit = make_unit(kernel)
    (callee,) = unit.callees
    assert f", {callee})" in unit.source()
    assert unit.callees[callee].parameters == ("a", "b")


def test_a_named_function_is_watched() -> None:
    assert "scaled" in {captured.path for captured in make_unit(by_name).captured}


def test_without_a_function_there_is_none() -> None:
    def kernel(x):
        x[0] = kd.block.inclusive_scan(x[0]) + kd.block.inclusive_scan(x[0], None)

    unit = make_unit(kernel)
    assert not unit.callees
    assert unit.source().count(", None)") == 2


def _of_three(x):
    x[0] = kd.block.reduce(x[0], of_three)


def _of_the_thread(x):
    x[0] = kd.block.reduce(x[0], of_the_thread)


def _with_barrier(x):
    x[0] = kd.block.reduce(x[0], with_barrier)


def _of_a_library(x):
    x[0] = kd.block.reduce(x[0], math.hypot)


def _a_number(x):
    x[0] = kd.block.reduce(x[0], x[1])


def _lambda_of_one(x):
    x[0] = kd.block.reduce(x[0], lambda a: a)


def _lambda_with_the_rest(x):
    x[0] = kd.block.reduce(x[0], lambda a, *b: a)


def _with_the_rest(x):
    x[0] = kd.block.reduce(x[0], with_the_rest)


def _of_a_variable(x):
    n = x[1]
    x[0] = kd.block.reduce(x[0], lambda a, b: a + n * b)


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (_of_three, "op is of_three, which takes a, b, c"),
        (_of_the_thread, "op is of_the_thread, which uses kd.threadIdx.x"),
        (_with_barrier, "op is with_barrier, which uses kd.syncthreads"),
        (_of_a_library, "op is math.hypot, which is not a function that a kernel can call"),
        (_a_number, "op is x[1], which is not a function that a kernel can call"),
        (_lambda_of_one, "op is lambda a: a, which takes a"),
        (_lambda_with_the_rest, "op is lambda a, *b: a, which takes a, *b"),
        (_with_the_rest, "op is with_the_rest, which takes a, *b"),
        (_of_a_variable, "which reads n, a variable of the function around it"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_no_operation_is_refused(kernel, text: str) -> None:
    with pytest.raises(UnsupportedConstructError) as raised:
        make_unit(kernel)
    assert text in str(raised.value)
    assert "kd.block.reduce" in str(raised.value)


LANE = 32


def beyond_a_warp(x):
    x[0] = kd.warp.broadcast(x[kd.threadIdx.x], 32)


def captured_beyond_a_warp(x):
    x[0] = kd.warp.broadcast(x[kd.threadIdx.x], source=LANE)


def below_a_block(x):
    x[0] = kd.block.broadcast(x[kd.threadIdx.x], -1)


@pytest.mark.parametrize("kernel", [beyond_a_warp, captured_beyond_a_warp, below_a_block])
def test_a_constant_source_is_a_thread(kernel: Any) -> None:
    with pytest.raises(kd.UnsupportedConstructError, match=r"broadcast: source is (32|-1)"):
        make_unit(kernel)
