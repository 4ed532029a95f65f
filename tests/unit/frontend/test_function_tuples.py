"""Tuples of functions: captured, given by name, indexed, looped over, unpacked."""
# Loops are written as people write them.
# ruff: noqa: B007, B905

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, UnsupportedConstructError
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.launch.native.prepare import capture_guards

WIDTH = 1


@kd.func
def ten(v):
    return v * 10


def plus(v):
    return v + 1


@njit
def half(v):
    return v / 2


class Pair(NamedTuple):
    first: object
    second: object


F = (ten, plus, half, math.sqrt)
NESTED = ((ten, plus), (half,))
WEIGHTED = ((ten, 2.0), (plus, 0.5), (half, -1.0))
WEIGHTS = (2.0, 0.5, -1.0, 4.0)
TABLE = np.array([1.5, -2.0, 3.0, 0.25])
PAIR = Pair(ten, half)
CONFIG = SimpleNamespace(steps=(plus, ten))


@pytest.fixture(autouse=True)
def on_cpu():
    with kd.use("cpu"):
        yield


def run(kernel, **named):
    """Return what a kernel stores for a few numbers, over poison."""
    x, out = np.arange(1.0, 6.0), np.full(5, np.nan)
    kernel.forall(5)(x, out, **named)
    return x, out


def check(kernel, expected, **named):
    x, out = run(kernel, **named)
    np.testing.assert_allclose(out, np.vectorize(expected)(x), rtol=1e-15)


def test_constant_indices():
    @kd.kernel
    def k(x, out):
        i = kd.grid(1)
        j = -1
        out[i] = F[0](x[i]) + F[WIDTH](x[i]) * F[j](x[i]) - F[WIDTH + 1](x[i]) + F[-4](x[i])

    check(k, lambda v: v * 10 + (v + 1) * math.sqrt(v) - v / 2 + v * 10)


def test_nested_named_and_in_a_namespace():
    @kd.kernel
    def k(x, out):
        i = kd.grid(1)
        out[i] = NESTED[0][1](x[i]) + PAIR.second(x[i]) + PAIR[0](x[i]) + CONFIG.steps[1](x[i])

    check(k, lambda v: v + 1 + v / 2 + v * 10 + v * 10)


def test_loops():
    @kd.kernel
    def k(x, out):
        i = kd.grid(1)
        t = 0.0
        for f in F:
            t += f(x[i])
        for k, f in enumerate(F[1:], 1):
            t += k * f(x[i])
        for f, w in zip(F, WEIGHTS):
            t += w * f(x[i])
        for f, w in zip(reversed(F), TABLE):
            t -= w * f(x[i])
        for f, w in WEIGHTED:
            t += w * f(x[i])
        for n in range(len(F)):
            t += F[n](x[i]) * F[len(F) - 1 - n](x[i])
        for row in NESTED:
            for f in row:
                t += f(t)
        out[i] = t

    def expected(v):
        f = (lambda v: v * 10, lambda v: v + 1, lambda v: v / 2, math.sqrt)
        t = sum(g(v) for g in f)
        t += sum(n * g(v) for n, g in enumerate(f[1:], 1))
        t += sum(w * g(v) for g, w in zip(f, WEIGHTS, strict=True))
        t -= sum(w * g(v) for g, w in zip(reversed(f), TABLE, strict=True))
        t += sum(w * g(v) for g, w in zip(f, (2.0, 0.5, -1.0), strict=False))
        t += sum(f[n](v) * f[3 - n](v) for n in range(4))
        for g in f[:3]:
            t += g(t)
        return t

    check(k, expected)


def test_what_follows_a_loop_and_jumps_in_it():
    @kd.kernel
    def k(x, out):
        i = kd.grid(1)
        t = x[i]
        for n, f in enumerate(F):
            if t > 30:
                break
            t = f(t)
        for m, f_again in enumerate(F):
            if m == 1 or t < 2:
                continue
            t += f_again(t)
            for inner in range(3):
                if inner == 1:
                    break
                t += inner
        out[i] = t * 100 + n * 10 + m

    def expected(v):
        f = (lambda v: v * 10, lambda v: v + 1, lambda v: v / 2, math.sqrt)
        t = v
        for n in range(4):
            if t > 30:
                break
            t = f[n](t)
        for m in range(4):
            if m == 1 or t < 2:
                continue
            t += f[m](t)
        return t * 100 + n * 10 + m

    check(k, expected)


def test_functions_in_variables():
    @kd.kernel
    def k(x, out):
        def local(v):
            return v - 3

        i = kd.grid(1)
        first, second = F[:2]
        g = F[2]
        both = (local, ten)
        t = first(x[i]) + second(x[i]) + g(x[i]) + both[0](x[i])
        for each in both:
            t = each(t)
        for n in range(2):
            chosen = CONFIG.steps[n]
            t += chosen(t)
        out[i] = t

    def expected(v):
        t = v * 10 + v + 1 + v / 2 + v - 3
        t = (t - 3) * 10
        t += t + 1
        return t + t * 10

    check(k, expected)


def test_compile_time_parameters():
    @kd.kernel
    def k(x, out, *, steps, weights=(1.0, 2.0)):
        i = kd.grid(1)
        t = 0.0
        for f, w in zip(steps, weights):
            t += w * f(x[i])
        out[i] = t + steps[0](x[i])

    check(k, lambda v: v * 10 + 2 * (v + 1) + v * 10, steps=(ten, plus))
    check(k, lambda v: v + 1 + 2 * v * 10 + v + 1, steps=(plus, ten))
    check(k, lambda v: v + v, steps=(lambda v: v,))
    assert len(k.specializations) == 3
    check(k, lambda v: v * 10 + 2 * (v + 1) + v * 10, steps=(ten, plus))
    assert len(k.specializations) == 3
    check(k.member(steps=(half, ten)), lambda v: v / 2 + 2 * v * 10 + v / 2)
    with pytest.raises(ArgumentTypeError, match="numbers, bools, strings, dtypes, functions"):
        run(k, steps=(ten, [].append))


def test_device_functions_and_barriers():
    @kd.func
    def all_of(v):
        t = v
        for f in F[:2]:
            t = f(t)
        return t

    @kd.func
    def shifted(s, t):
        kd.syncthreads()
        v = s[(t + 1) % 5]
        kd.syncthreads()
        s[t] = v
        return v

    @kd.func
    def negated(s, t):
        s[t] = -s[t]
        return s[t]

    steps = (shifted, negated, shifted)

    @kd.kernel
    def k(x, out):
        t = kd.threadIdx.x
        s = kd.shared.array(5, kd.float64)
        s[t] = x[t]
        for step in steps:
            out[t] = all_of(step(s, t))

    x, out = np.arange(1.0, 6.0), np.zeros(5)
    k[1, 5](x, out)
    np.testing.assert_array_equal(out, -np.roll(x, -2) * 10 + 1)
    ptx = k.ptx(x, out, arch="sm_90")
    assert len(re.findall(r"\bbar(?:rier)?\.sync", ptx)) == 4  # two in each of two steps


def test_a_tuple_that_is_bound_anew_is_compiled_anew():
    def made():
        chosen = (ten, plus)

        @kd.kernel
        def k(x, out):
            i = kd.grid(1)
            t = 0.0
            for f in chosen:
                t += f(x[i])
            out[i] = t

        def choose(value):
            nonlocal chosen
            chosen = value

        return k, choose

    k, choose = made()
    check(k, lambda v: v * 11 + 1)
    choose(tuple(iter((ten, plus))))  # another tuple of the same functions
    check(k, lambda v: v * 11 + 1)
    assert len(k.specializations) == 1
    for value, expected in (
        ((ten, plus, half), lambda v: v * 11.5 + 1),
        ((plus,), lambda v: v + 1),
        ((plus, plus), lambda v: 2 * v + 2),
    ):
        choose(value)
        for _ in range(3):  # planned, prepared, repeated
            check(k, expected)


def test_the_normal_form_calls_by_name():
    def k(x):
        for f in NESTED[0]:
            x[0] = f(x[0])
        x[1] = WEIGHTED[2][1]

    unit = make_unit(k)
    assert unit.source().splitlines()[1:] == [
        "    x[0] = NESTED_0_0(x[0])",
        "    x[0] = NESTED_0_1(x[0])",
        "    x[1] = WEIGHTED_2_1",
    ]
    assert [unit.callees[n].name for n in ("NESTED_0_0", "NESTED_0_1")] == ["ten", "plus"]
    assert {c.path for c in unit.captured} >= {"NESTED", "NESTED[0][0]", "WEIGHTED[2][1]"}
    assert capture_guards(unit.captured) is not None  # repeated launches need no Python


def by_thread(x):
    x[0] = F[kd.grid(1)](x[0])


def by_argument(x, n):
    x[0] = F[n](x[0])


def beyond(x):
    x[0] = F[4](x[0])


def as_value(x):
    x[0] = F


def as_argument(x):
    x[0] = ten(F)


def given_twice(x):
    if x[0] > 1:
        f = F[0]
    else:
        f = F[1]
    x[0] = f(x[0])


def zipped(x, w):
    for f, v in zip(F, w):
        x[0] = f(v)


def both_jumps(x):
    for f in F:
        if x[0] > 1:
            continue
        if x[0] > 2:
            break
        x[0] = f(x[0])


def too_few(x):
    f, g = F
    x[0] = f(g(x[0]))


@pytest.mark.parametrize(
    ("function", "shown", "what"),
    [
        (by_thread, "kd.grid(1)", "the index of F is kd.grid(1), which is not a constant"),
        (by_argument, "n", "the index of F is n, which is not a constant"),
        (beyond, "F[4]", "F is indexed by 4"),
        (as_value, "F", "captures F, which is of type tuple"),
        (as_argument, "F", "captures F, which is of type tuple"),
        (given_twice, "f", "f may be one function or another here"),
        (zipped, "w", "functions are zipped with w of unknown length"),
        (both_jumps, "continue", "a loop over functions has break and continue"),
        (too_few, "f, g", "4 values are unpacked into 2 names"),
    ],
)
def test_refusals(function, shown, what):
    with pytest.raises(UnsupportedConstructError) as caught:
        make_unit(function)
    error = caught.value
    assert what in error.what
    assert error.where.line[error.where.col_offset : error.where.end_col_offset] == shown
    assert error.remedy
    if function is as_value:
        assert error.remedy == "Call its functions, F[0](…), or loop over them, for f in F"


def test_variables_that_are_functions_for_a_while():
    """A name is bound anew, in loops, branches and to numbers, and never means the wrong one."""

    @kd.kernel
    def k(x, out):
        i = kd.grid(1)
        t = x[i]
        for f in F[:2]:
            t += f(x[i])
        for f in F[1:3]:
            t += f(x[i])
        f = 2.0
        t += f
        for n in range(2):
            t += F[n](x[i])
            n += 5
            t += n
        if x[i] > 2:
            g = F[0]
            t += g(x[i])
        else:
            g = F[1]
            t += g(x[i])
        for m in range(3):
            g = F[2]
            t += g(t)
        g = F[3]
        out[i] = t + g(x[i]) + f + n + m

    def expected(v):
        f = (lambda v: v * 10, lambda v: v + 1, lambda v: v / 2, math.sqrt)
        t = v + f[0](v) + f[1](v) + f[1](v) + f[2](v) + 2.0
        t += f[0](v) + 5 + f[1](v) + 6
        t += f[0](v) if v > 2 else f[1](v)
        for _ in range(3):
            t += f[2](t)
        return t + f[3](v) + 2.0 + 6 + 2

    check(k, expected)

    def from_an_earlier_round(x, n):
        f = F[0]
        for _ in range(n):
            x[0] = f(x[0])
            f = F[1]

    def after_a_loop_that_may_not_run(x, n):
        for _ in range(n):
            f = F[0]
        x[0] = f(x[0])

    def after_a_break(x):
        for f in F:
            if x[0] > 1:
                break
        x[0] = f(x[0])

    def after_two_branches(x):
        if x[0] > 1:
            if x[0] > 2:
                f = F[0]
            x[1] = 1
        else:
            x[1] = 2
        x[0] = f(x[0])

    for function in (
        from_an_earlier_round,
        after_a_loop_that_may_not_run,
        after_a_break,
        after_two_branches,
    ):
        with pytest.raises(UnsupportedConstructError, match="f may be one function or another"):
            make_unit(function)
