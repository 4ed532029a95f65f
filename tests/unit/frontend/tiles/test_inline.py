"""Device functions that a block meets together are inlined."""

from __future__ import annotations

import ast

import pytest

import kerneldsl as kd
from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.frontend.tiles.inline import inline_block_functions


def load_of_an_argument(x, flags):
    if flags[0] > 0:
        kd.syncthreads()


@kd.func
def block_total(s, value):
    t = kd.threadIdx.x
    s[t] = value
    kd.syncthreads()
    total = 0
    for k in range(kd.blockDim.x):
        total += s[k]
    kd.syncthreads()
    return total


@kd.func
def first_of(s, n):
    for k in range(n):
        kd.syncthreads()
        if s[k] > 0:
            return k
    return -1


def calls_twice(x):
    s = kd.shared.array(64, kd.int64)
    a = block_total(s, x[kd.threadIdx.x]) + block_total(s, 1)
    x[kd.threadIdx.x] = a


def calls_where_it_may_not(x):
    s = kd.shared.array(64, kd.int64)
    x[0] = 1 if x[1] > 0 and block_total(s, 1) > 3 else 2


def calls_in_a_while(x):
    s = kd.shared.array(64, kd.int64)
    while block_total(s, 1) > 3:
        x[0] = 1


def returns_from_a_loop(x, n):
    s = kd.shared.array(64, kd.int64)
    x[kd.threadIdx.x] = first_of(s, n)


def test_inlining_replaces_calls_and_keeps_places():
    unit = make_unit(calls_twice)
    flat = inline_block_functions(unit)
    assert flat is not unit
    assert not any(flat.callee_of(n) for n in ast.walk(flat.tree))
    barriers = [
        flat.locate(n)
        for n in ast.walk(flat.tree)
        if (use := flat.use_of(n)) is not None and use.intrinsic.name == "syncthreads"
    ]
    assert len(barriers) == 4
    assert {b.function for b in barriers} == {"block_total"}
    assert {b.line.strip() for b in barriers} == {"kd.syncthreads()"}


def test_inlining_moves_a_test_into_its_loop():
    flat = inline_block_functions(make_unit(calls_in_a_while))
    (loop,) = (n for n in ast.walk(flat.tree) if isinstance(n, ast.While))
    assert ast.unparse(loop.test) == "True"


def test_inlining_refuses_what_is_only_sometimes_evaluated():
    with pytest.raises(UnsupportedConstructError, match="evaluated conditionally") as info:
        inline_block_functions(make_unit(calls_where_it_may_not))
    assert "block_total(s, 1)" in str(info.value)


def test_return_from_a_loop_becomes_a_flag():
    flat = inline_block_functions(make_unit(returns_from_a_loop))
    assert not any(isinstance(n, ast.Return) for n in ast.walk(flat.tree))
    assert "if not kd__first_of_done:" in flat.source()


def test_a_unit_without_block_functions_stays_itself():
    unit = make_unit(load_of_an_argument)
    assert inline_block_functions(unit) is unit
