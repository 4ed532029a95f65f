"""Variables that a loop reads in a later iteration than it assigns them first."""

# ruff: noqa: F821, F841 - this is what the kernels are about

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.source import exec_source


@kd.kernel
def in_a_branch(out, v, n):
    for i in range(n):
        if i == 0:
            p = v
        else:
            p = p + v
    out[0] = p


@kd.kernel
def at_the_end(out, v, n):
    for i in range(n):
        if i > 0:
            out[0] += p
            q = p * 0.5
        if i > 1:
            out[1] += q
        p = v + i


@kd.kernel
def in_an_inner_loop(out, v, n):
    for i in range(n):
        for j in range(2):
            if i + j > 0:
                out[0] += p
            p = v + j
        if i > 3:
            out[1] = p


@kd.kernel
def of_two_types(out, v, n):
    for i in range(n):
        if i == 0:
            p = 1
        else:
            p = p + 0.5
    out[0] = p


@kd.kernel
def in_a_while(out, v, n):
    i = 0
    while i < n:
        if i == 0:
            p, out[1] = v, i
        elif i % 2:
            p += v
        i += 1
    out[0] = p


@kd.kernel
def of_each_lane(out, v, n):
    t = kd.threadIdx.x
    for i in range(n + t):
        if i == t:
            p = v + t
        elif i > t:
            p = p * 2
    out[t] = p


@kd.kernel
def tuple_in_a_branch(out, v, n):
    for i in range(n):
        if i == 0:
            p = (v, 0.5)
        else:
            out[1] += p[0]
            p = (p[0] + 1, p[1] * 2)
        out[0] += p[1]


@kd.kernel
def tuple_in_inner_loops(out, v, n):
    for i in range(n):
        for j in range(3):
            for k in range(i):
                if j + k > 0:
                    (a, b), c = p
                    out[0] += a * 3 - b + c
                p = ((v, k), 0.5)
            if i > 0:
                out[1] += p[1]


@kd.kernel
def of_each_other(out, v, n):
    for i in range(n):
        if i > 0:
            p = q + 1
            out[0] += p
        q = r if i > 1 else 2.0
        r = q * 3
    for i in range(n):
        if i % 2:
            s, t = t, s + v
        elif i == 0:
            s, t = v, 0.25
        out[1] += s


@kd.kernel
def after_a_condition(out, v, n):
    for i in range(n):
        if i > 0 and p < v + i:
            out[0] += p
            p = i * 2 if i % 2 else p + 1
        elif i == 0 or p > 100:
            p = v
        out[1] = i if i == 0 else p


@kd.kernel
def after_continue(out, v, n):
    for i in range(n):
        if i == 0:
            count, w = v, 1
            continue
        for j in range(count):
            out[0] += j
        while w < count:
            w += 2
        count = count + 1
        out[1] += w


@kd.kernel
def of_a_wider_type(out, v, n):
    for i in range(n):
        if i == 0:
            p = 1
        for j in range(2):
            out[0] += p * j
        p = v + 0.5


@kd.kernel
def of_no_wider_type(out, v, n):
    p = 0
    for i in range(n):
        out[0] += p // 2 % 1000
        p = 0.5
        if i > 0:
            p = q + 2**62 + 1
        else:
            p = 2**62 + 1
        q = i


@kd.kernel
def behind_break_and_else(out, v, n):
    for i in range(n):
        for _ in range(3):
            if i > 0 and p[0] > v + 6:
                out[0] += p[1]
                break
        else:
            p = (v + i * 2, i)
            continue
        out[1] += p[0]
        p = (v, p[1] + 1)


@kd.func
def last_pair(v, n):
    for i in range(n):
        if i > 2 and p[0] > 6:
            return p[0] * 2 + p[1]
        p = (v + i, i) if i == 0 or q < 9 else (p[1], p[0])
        q = p[0]
    return -1


@kd.kernel
def in_a_function(out, v, n):
    for i in range(n):
        if i > 0:
            out[1] += p
        p = last_pair(v, i)
        out[0] += p


CASES = [
    *(tuple_in_a_branch, tuple_in_inner_loops, of_each_other, after_a_condition, after_continue),
    *(of_a_wider_type, of_no_wider_type, behind_break_and_else, in_a_function),
    *(in_a_branch, at_the_end, in_an_inner_loop, of_two_types, in_a_while),
]


@pytest.mark.parametrize("kernel", CASES, ids=lambda k: k.__name__)
@pytest.mark.parametrize("count", [1, 2, 7])
def test_as_in_python(computing, kernel, count):
    out, expected = np.zeros(2), np.zeros(2)
    kernel[1, 1](out, 5, count)
    kernel.function(expected, 5, count)
    assert out.tolist() == expected.tolist()


def test_each_lane_has_its_own(computing):
    out = np.zeros(40)
    of_each_lane[1, 40](out, 3, 4)
    assert out.tolist() == [(3 + t) * 8 for t in range(40)]


def test_between_grid_barriers(computing):
    @kd.kernel
    def kernel(x, out, n):
        i = kd.grid(1)
        for k in range(n):
            if k > 0:
                out[i] += p[0] * 2 + p[1]
            x[i] += i + k
            kd.grid_group().sync()
            p = (x[-1 - i], k) if k % 2 == 0 else (p[1], x[0])
            kd.grid_group().sync()

    size, steps = 64, 5
    x, out, number = np.zeros(size, int), np.zeros(size, int), np.arange(size)
    kernel[2, 32](x, out, steps)
    expected, values = np.zeros(size, int), np.zeros(size, int)
    for k in range(steps):
        if k > 0:
            expected += pair[0] * 2 + pair[1]
        values += number + k
        pair = (values[::-1].copy(), k) if k % 2 == 0 else (pair[1], values[0])
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize("text", ["out[0] += p", "out[0] += p[0]", "for _ in range(p): pass"])
def test_one_that_the_first_iteration_reads(on, text):
    value = "(i, 1)" if "[0]" in text[5:] else "i"
    names = exec_source(
        "import kerneldsl as kd\n\n@kd.kernel\ndef kernel(out, n):\n    for i in range(n):\n"
        f"        {text}\n        p = {value}\n",
        "generated",
    )
    with pytest.raises(kd.KernelTypingError, match="the variable p is not defined here"):
        names["kernel"][1, 1](np.zeros(1), 3)


def test_one_that_no_iteration_assigns_first(on):
    @kd.kernel
    def kernel(out, n):
        for i in range(n):
            if i > 0:
                p = p + 1
            out[0] = i

    with pytest.raises(kd.KernelTypingError, match="the variable p is not defined here"):
        kernel[1, 1](np.zeros(1), 3)
