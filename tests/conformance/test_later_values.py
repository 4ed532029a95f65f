"""Variables that a loop reads in a later iteration than it assigns them first."""

# ruff: noqa: F821, F841 - this is what the kernels are about

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd


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


CASES = [in_a_branch, at_the_end, in_an_inner_loop, of_two_types, in_a_while]


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


def test_one_that_no_iteration_assigns_first(on):
    @kd.kernel
    def kernel(out, n):
        for i in range(n):
            if i > 0:
                p = p + 1
            out[0] = i

    with pytest.raises(kd.KernelTypingError, match="the variable p is not defined here"):
        kernel[1, 1](np.zeros(1), 3)
