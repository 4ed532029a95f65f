"""Uniformity, barrier intervals and inlining, on kernels written for the purpose."""

from __future__ import annotations

import ast

import pytest

import kerneldsl as kd
from kerneldsl.analysis.analyze import analyze
from kerneldsl.analysis.inline import inline_block_functions
from kerneldsl.analysis.uniformity import analyze_uniformity
from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.language.intrinsics.intrinsic import Scope


def thread_condition(x):
    t = kd.threadIdx.x
    limit = t + 1
    if limit < 10:
        kd.syncthreads()


def uniform_condition(x, n):
    if n > 3 and kd.blockIdx.x == 0 and x.shape[0] > 1:
        kd.syncthreads()


def loop_with_varying_break(x, n):
    for k in range(n):
        if x[kd.threadIdx.x] > k:
            break
        kd.syncthreads()


def loop_with_varying_continue(x, n):
    for k in range(n):
        if kd.threadIdx.x > k:
            continue
        kd.syncthreads()


def barrier_after_varying_continue_of_inner_loop(x, n):
    for _ in range(n):
        for k in range(n):
            if kd.threadIdx.x > k:
                continue
            x[kd.threadIdx.x] = k
        kd.syncthreads()


def early_return(x):
    i = kd.grid(1)
    if i >= x.size:
        return
    kd.syncthreads()


def without_a_barrier(x):
    x[kd.threadIdx.x] = 1


def variable_reused(x, n):
    i = kd.threadIdx.x
    x[i] = 0
    i = 0
    while i < n:
        kd.syncthreads()
        i += 1


def count_of_a_varying_loop(x):
    k = 0
    while k < kd.threadIdx.x:
        k += 1
    if k > 2:
        kd.syncthreads()


def promised(x):
    if kd.uniform(x[kd.threadIdx.x]) > 0:
        kd.syncthreads()


def vote_is_uniform(x):
    while kd.syncthreads_or(x[kd.threadIdx.x] > 0):
        x[kd.threadIdx.x] = x[kd.threadIdx.x] - 1


def load_of_an_argument(x, flags):
    if flags[0] > 0:
        kd.syncthreads()


def load_and_store_of_two_arguments(x, flags):
    x[kd.threadIdx.x] = 1
    if flags[0] > 0:
        kd.syncthreads()


def shared_flag(x):
    s = kd.shared.array(1, kd.int32)
    if kd.threadIdx.x == 0:
        s[0] = x[0]
    kd.syncthreads()
    if s[0] > 0:
        kd.syncthreads()


def shared_flag_written_in_the_interval(x):
    s = kd.shared.array(1, kd.int32)
    s[0] = 1
    kd.syncthreads()
    while s[0] > 0:
        kd.syncthreads()
        if kd.threadIdx.x == 0:
            s[0] = x[0]


def shared_flag_of_a_loop(x):
    s = kd.shared.array(1, kd.int32)
    s[0] = 1
    kd.syncthreads()
    while s[0] > 0:
        kd.syncthreads()
        if kd.threadIdx.x == 0:
            s[0] = x[0]
        kd.syncthreads()


def atomic_result(x):
    if kd.atomic.add(x, 0, 1) == 0:
        kd.syncthreads()


@pytest.mark.parametrize(
    ("function", "verdict"),
    [
        (thread_condition, True),
        (uniform_condition, None),
        (loop_with_varying_break, False),
        (loop_with_varying_continue, True),
        (barrier_after_varying_continue_of_inner_loop, None),
        (early_return, None),
        (variable_reused, None),
        (count_of_a_varying_loop, True),
        (promised, None),
        (vote_is_uniform, None),
        (load_of_an_argument, None),
        (load_and_store_of_two_arguments, None),
        (shared_flag, None),
        (shared_flag_written_in_the_interval, False),
        (shared_flag_of_a_loop, None),
        (atomic_result, False),
    ],
)
def test_verdict(function, verdict):
    """``None`` is no problem; True is provable divergence, False a barrier that is not proved."""
    problems = analyze(make_unit(function)).barrier_problems
    assert [p.is_provable for p in problems[:1]] == ([] if verdict is None else [verdict])


def test_overlap_of_arguments_is_a_question_of_its_own():
    traits = analyze(make_unit(load_and_store_of_two_arguments))
    assert traits.barrier_problems == ()
    (problem,) = traits.barrier_problems_if_overlapping
    assert "flags[0]" in problem.chain[1]


def test_chain_leads_from_the_condition_to_the_thread():
    (problem,) = analyze(make_unit(thread_condition)).barrier_problems
    assert problem.what == "the condition `limit < 10` varies"
    text = "\n".join(problem.chain)
    assert text.index("`limit` is assigned `t + 1`") < text.index("`kd.threadIdx.x`")
    assert problem.where.line.strip() == "kd.syncthreads()"


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
    assert analyze_uniformity(flat).problems == []


def test_inlining_moves_a_test_into_its_loop():
    flat = inline_block_functions(make_unit(calls_in_a_while))
    (loop,) = (n for n in ast.walk(flat.tree) if isinstance(n, ast.While))
    assert ast.unparse(loop.test) == "True"
    assert analyze_uniformity(flat).problems == []


def test_inlining_refuses_what_is_only_sometimes_evaluated():
    with pytest.raises(UnsupportedConstructError, match="evaluated conditionally") as info:
        inline_block_functions(make_unit(calls_where_it_may_not))
    assert "block_total(s, 1)" in str(info.value)


def test_return_from_a_loop_becomes_a_flag():
    flat = inline_block_functions(make_unit(returns_from_a_loop))
    assert not any(isinstance(n, ast.Return) for n in ast.walk(flat.tree))
    assert "if not kd__first_of_done:" in flat.source()


def test_a_unit_without_block_functions_stays_itself():
    unit = make_unit(uniform_condition)
    assert inline_block_functions(unit) is unit


def warp_barrier_under_thread_condition(x):
    if kd.blockIdx.x == 0:
        x[0] = 1
        if kd.threadIdx.x < 3:
            kd.syncwarp()


@pytest.mark.parametrize(
    ("scope", "uniform", "problems"),
    [(Scope.WARP, True, 1), (Scope.BLOCK, True, 0), (Scope.GRID, False, 0)],
)
def test_a_scope_says_whose_threads_are_compared(scope, uniform, problems):
    unit = make_unit(warp_barrier_under_thread_condition)
    found = analyze_uniformity(unit, scope=scope)
    outer = unit.tree.body[0]
    assert found.is_uniform(outer.test) is uniform
    assert len(found.problems) == problems
    assert not found.is_uniform(outer.body[1].test)


def shuffles(x, n):
    t = kd.threadIdx.x
    x[0] = kd.shfl_sync(0xFFFFFFFF, n, 3)
    x[1] = kd.shfl_sync(0xFFFFFFFF, t, 3)
    x[2] = kd.shfl_sync(0xFFFFFFFF, n, t)


def test_a_shuffle_varies_as_its_arguments_do():
    unit = make_unit(shuffles)
    found = analyze_uniformity(unit)
    calls = [node.value for node in unit.tree.body if isinstance(node.targets[0], ast.Subscript)]
    assert [found.is_uniform(call) for call in calls] == [True, False, False]


def test_a_warp_exchange_makes_a_block_kernel():
    traits = analyze(make_unit(shuffles))
    assert traits.uses_block
    assert traits.has_barrier
    assert not traits.barrier_problems


def warp_votes(x):
    t = kd.threadIdx.x
    x[0] = kd.ballot_sync(0xFFFFFFFF, t < 3)
    x[1] = kd.all_sync(0xFFFFFFFF, t)
    x[2] = kd.any_sync(0xFFFFFFFF, t)
    x[3] = kd.popc(t)
    x[4] = kd.popc(x.size)


@pytest.mark.parametrize(
    ("scope", "uniform"),
    [(Scope.WARP, [True, True, True, False, True]), (Scope.BLOCK, [False] * 4 + [True])],
)
def test_votes_of_a_warp_are_uniform_in_the_warp(scope, uniform):
    unit = make_unit(warp_votes)
    found = analyze_uniformity(unit, scope=scope)
    calls = [node.value for node in unit.tree.body if isinstance(node.targets[0], ast.Subscript)]
    assert [found.is_uniform(call) for call in calls] == uniform


def test_a_barrier_behind_a_vote_of_a_warp_is_not_proved_uniform():
    def waits(x):
        if kd.any_sync(0xFFFFFFFF, x[kd.threadIdx.x]):
            kd.syncthreads()

    (problem,) = analyze(make_unit(waits)).barrier_problems
    assert not problem.is_provable
    assert "gives each warp a value of its own" in "\n".join(problem.chain)


@pytest.mark.parametrize(
    ("kernel", "is_uniform"),
    [(uniform_condition, True), (thread_condition, False), (without_a_barrier, False)],
)
def test_traits_tell_uniform_barriers(kernel, is_uniform):
    assert analyze(make_unit(kernel)).has_uniform_barriers is is_uniform
