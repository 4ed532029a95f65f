"""Branches that compile-time parameters rule out leave nothing behind on the CPU."""

from __future__ import annotations

import enum
import re

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.extent import full_beyond
from tests.support.region_text import region_text


@kd.kernel
def with_strips(x, out, *, strip, turned=False):
    c = kd.grid(1)
    if c < x.shape[1]:
        first, total = 0, np.float32(0)
        if strip > 1:
            own = kd.local.array(4, np.float32)
            first = x.shape[0] - x.shape[0] % strip
            for r in range(0, first, strip):
                for k in range(strip):
                    own[k] = x[r + k, c]
                for k in range(strip):
                    total += own[k]
        for r in range(first, x.shape[0]):
            total += x[r, c]
        if not turned:
            out[c] = total
        else:
            out[x.shape[1] - 1 - c] = total


@kd.kernel
def without_strips(x, out):
    c = kd.grid(1)
    if c < x.shape[1]:
        first, total = 0, np.float32(0)
        for r in range(first, x.shape[0]):
            total += x[r, c]
        out[c] = total


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("strip", full_beyond([0, 1, 2, 4], [0, 2]))
def test_results_are_those_of_the_branch_that_runs(strip, turned, rng):
    x = rng.integers(-99, 99, (11, 37)).astype(np.float32)
    out = np.full(37, np.nan, np.float32)
    with kd.use("cpu"):
        with_strips.forall(37)(x, out, strip=strip, turned=turned)
    assert np.array_equal(out[::-1] if turned else out, x.sum(0))


def test_the_code_is_that_of_a_kernel_without_them():
    kinds = "float32[:, ::1], float32[::1]"
    found = region_text(with_strips.member(strip=1), kinds, forall=1)
    expected = region_text(without_strips, kinds, forall=1)
    lines = [re.sub(r"  # \d+$", "", text, flags=re.MULTILINE) for text in (found, expected)]
    assert lines[0] == lines[1]
    assert region_text(with_strips.member(strip=2), kinds, forall=1) != found


class Mode(enum.IntEnum):
    WIDE = 2


def test_conditions_of_several_constants_are_decided():
    @kd.kernel
    def decides(x, out, *, strip, turned):
        c = kd.grid(1)
        if (strip * 2 > 4 and not turned) or Mode.WIDE == 3:
            own = kd.local.array(4, np.float32)
            own[c % 4] = x[c]
            out[c] = own[c % 4]
        else:
            out[c] = x[c] + 1

    with kd.use("cpu"):
        for strip, turned in ((2, False), (3, False), (3, True)):
            member = decides.member(strip=strip, turned=turned)
            source = region_text(member, "float32[::1], float32[::1]", forall=1)
            assert ("local.array" in source) == (strip > 2 and not turned)
