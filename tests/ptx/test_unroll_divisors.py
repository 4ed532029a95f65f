"""Loops that divide by what they multiply: written in full, without divisions."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kerneldsl as kd
from tests.ptx.helpers import body_of, compile_ptx

_POINTS = 64


def _stages(x):
    t = kd.threadIdx.x
    half = 1
    while half < _POINTS:
        place = t % half
        first = (t // half) * 2 * half + place
        u = x[first + half] * (np.float32(place) / np.float32(half))
        x[first + half] = x[first] - u
        kd.syncthreads()
        half *= 2


def test_distances_of_stages_are_numbers() -> None:
    body = body_of(compile_ptx(_stages, "float32[::1]"))
    assert body.count("bar.sync") == 6
    assert not re.search(r"\b(?:div|rem|popc|brev)\.", body)


def _halving(x):
    step = 32
    while step > 0:
        x[step] = x[step] // step
        step //= 2


def _reduction(x):
    step = 32
    while step > 0:
        x[0] += x[step]
        step //= 2


def _many_turns(x):
    step = 1
    while step < 1 << 20:
        x[0] = x[0] // step
        step *= 2


def _unknown_end(x):
    step = 1
    while step < x.size:
        x[0] = x[0] // step
        step *= 2


def _unknown_start(x):
    step = x.size
    while step > 0:
        x[0] = x[0] // step
        step //= 2


def _changed(x):
    step = 32
    step += x.size
    while step > 0:
        x[0] = x[0] // step
        step //= 2


def _left(x):
    step = 32
    while step > 0:
        if x[0] == 3:
            break
        x[0] = x[0] // step
        step //= 2


def _endless(x):
    step = 0
    while step < 32:
        x[0] = x[0] // (step + 1)
        step *= 2


@pytest.mark.parametrize(
    ("function", "is_unrolled"),
    [
        (_stages, True),
        (_halving, True),
        (_reduction, False),
        (_many_turns, False),
        (_unknown_end, False),
        (_unknown_start, False),
        (_changed, False),
        (_left, False),
        (_endless, False),
    ],
)
def test_which_loops_are_unrolled(function, is_unrolled: bool) -> None:
    remarks = compile_ptx(function, "float64[::1]").passes
    assert any(each.name == "unroll-divisors" for each in remarks) == is_unrolled
