"""Uniformity and barrier intervals, on kernels written for the purpose."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace

import pytest

import kerneldsl as kd
from kerneldsl.analysis.analyze import analyze
from kerneldsl.contract.findings import NO_BARRIERS, notes_of, read_notes
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.ir.barriers import analyze_barriers, barrier_problems
from kerneldsl.ir.uniformity import uniformity_of
from kerneldsl.language.intrinsics.intrinsic import Scope
from tests.support.read_kernels import barriers_of, read_kernel_for


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


def early_return_and_a_load(x):
    if kd.threadIdx.x > 9:
        return
    x[kd.threadIdx.x] = 1
    if x[0] > 0:
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


def variable_read_in_a_varying_branch(x):
    t, b = kd.threadIdx.x, 0
    k = 0
    while k < 3:
        if x[t] > b:
            b += 2
        elif k < t:
            b += 1
        kd.syncthreads()
        k = k * 2 + 1
    x[t] = b


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


def calls_in_a_while(x, n):
    s = kd.shared.array(64, kd.int64)
    while block_total(s, 1) > 3:
        x[0] = 1
        kd.syncthreads()


def calls_where_it_is_only_sometimes_evaluated(x, n):
    s = kd.shared.array(64, kd.int64)
    x[0] = 1 if kd.threadIdx.x > 0 and block_total(s, 1) > 3 else 2


def calls_where_all_evaluate_it(x, n):
    s = kd.shared.array(64, kd.int64)
    x[kd.threadIdx.x] = 1 if n > 0 and block_total(s, 1) > 3 else 2


@pytest.mark.parametrize(
    ("function", "verdict"),
    [
        (thread_condition, True),
        (uniform_condition, None),
        (loop_with_varying_break, False),
        (loop_with_varying_continue, True),
        (barrier_after_varying_continue_of_inner_loop, None),
        (early_return, None),
        (early_return_and_a_load, False),
        (variable_reused, None),
        (variable_read_in_a_varying_branch, None),
        (count_of_a_varying_loop, True),
        (promised, None),
        (vote_is_uniform, None),
        (load_of_an_argument, None),
        (load_and_store_of_two_arguments, None),
        (shared_flag, None),
        (shared_flag_written_in_the_interval, False),
        (shared_flag_of_a_loop, None),
        (atomic_result, False),
        (calls_in_a_while, None),
        (calls_where_it_is_only_sometimes_evaluated, True),
        (calls_where_all_evaluate_it, None),
    ],
)
def test_verdict(function, verdict):
    """``None`` is no problem; True is provable divergence, False a barrier that is not proved."""
    problems = barriers_of(function, _signature(function)).problems
    assert [p.is_provable for p in problems[:1]] == ([] if verdict is None else [verdict])


def test_overlap_of_arguments_is_a_question_of_its_own():
    facts = barriers_of(load_and_store_of_two_arguments, "int64[::1], int64[::1]")
    assert facts.problems == ()
    assert facts.overlap_matters
    (problem,) = facts.problems_if_overlapping
    assert "flags[0]" in problem.chain[1]


def test_chain_leads_from_the_condition_to_the_thread():
    (problem,) = barriers_of(thread_condition, "int64[::1]").problems
    assert problem.what == "the condition `limit < 10` varies"
    text = "\n".join(problem.chain)
    assert text.index("`limit` is assigned `t + 1`") < text.index("`kd.threadIdx.x`")
    assert problem.where.line.strip() == "kd.syncthreads()"


def warp_barrier_under_thread_condition(x):
    if kd.blockIdx.x == 0:
        x[0] = 1
        if kd.threadIdx.x < 3:
            kd.syncwarp()


def test_each_barrier_has_its_group():
    function, spec = read_kernel_for(warp_barrier_under_thread_condition, "int64[::1]")
    found = uniformity_of(function, spec.kinds)
    outer, inner = (each.operands[0] for each in function.body.walk() if each.name == "if")
    assert (found.scope(outer), found.scope(inner)) == (Scope.BLOCK, Scope.THREAD)
    assert [len(list(barrier_problems(found, each))) for each in _GROUPS] == [1, 0, 0]


_GROUPS = (Scope.WARP, Scope.BLOCK, Scope.GRID)


def shuffles(x, n):
    t = kd.threadIdx.x
    x[0] = kd.shfl_sync(0xFFFFFFFF, n, 3)
    x[1] = kd.shfl_sync(0xFFFFFFFF, t, 3)
    x[2] = kd.shfl_sync(0xFFFFFFFF, n, t)


def _scopes(kernel, name):
    """The groups for which the results of operations with a name are the same."""
    function, spec = read_kernel_for(kernel, _signature(kernel))
    found = uniformity_of(function, spec.kinds)
    made = (each for each in function.body.walk() if each.name.endswith(name))
    return [found.scope(each.result) for each in made]


def test_a_shuffle_varies_as_its_arguments_do():
    assert _scopes(shuffles, "shfl_sync") == [Scope.GRID, Scope.THREAD, Scope.THREAD]


def test_a_warp_exchange_makes_a_block_kernel():
    traits = analyze(make_unit(shuffles))
    assert traits.uses_block
    assert traits.has_barrier
    assert barriers_of(shuffles, _signature(shuffles)) == NO_BARRIERS


def warp_votes(x):
    t = kd.threadIdx.x
    x[0] = kd.ballot_sync(0xFFFFFFFF, t < 3)
    x[1] = kd.all_sync(0xFFFFFFFF, t)
    x[2] = kd.any_sync(0xFFFFFFFF, t)
    x[3] = kd.popc(t)
    x[4] = kd.popc(x.size)


def test_votes_of_a_warp_are_uniform_in_the_warp():
    assert _scopes(warp_votes, "_sync") == [Scope.WARP] * 3
    assert _scopes(warp_votes, "popc") == [Scope.THREAD, Scope.GRID]


def test_a_barrier_behind_a_vote_of_a_warp_is_not_proved_uniform():
    def waits(x):
        if kd.any_sync(0xFFFFFFFF, x[kd.threadIdx.x]):
            kd.syncthreads()

    (problem,) = barriers_of(waits, "int64[::1]").problems
    assert not problem.is_provable
    assert "gives each warp a value of its own" in "\n".join(problem.chain)


def _signature(function):
    """Arrays for all parameters but the number `n`."""
    names = inspect.signature(function).parameters
    return ", ".join("int64" if name == "n" else "int64[::1]" for name in names)


def test_facts_are_stored_with_code():
    function, spec = read_kernel_for(load_and_store_of_two_arguments, "int64[::1], int64[::1]")
    facts = analyze_barriers(function, spec)
    notes = json.loads(json.dumps(notes_of(facts, spec.unit)))
    assert read_notes(notes, spec.unit) == facts
    assert notes_of(NO_BARRIERS, spec.unit) == {}
    assert read_notes({}, spec.unit) == NO_BARRIERS
    other = make_unit(load_and_store_of_two_arguments)
    moved = replace(other, first_line=other.first_line + 7)
    (problem,) = read_notes(notes, moved).problems_if_overlapping
    (known,) = facts.problems_if_overlapping
    assert problem.where.lineno == known.where.lineno + 7
