"""What other threads have written is read anew behind a barrier, a fence and an ordered access.

That must hold of arrays that no other argument overlaps, too: LLVM takes memory to which a single
pointer leads for unchanged by any call that is not given the pointer.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import kerneldsl as kd
from kerneldsl.contract import Promises
from tests.ptx.helpers import body_of, compile_ptx


def _behind_a_barrier(x, out):
    i = kd.grid(1)
    out[i] = x[0]
    kd.syncthreads()
    if i == 7:
        x[0] = 3.0
    kd.syncthreads()
    out[i] += x[0]


def _behind_a_barrier_of_the_grid(x, out):
    i = kd.grid(1)
    out[i] = x[0]
    kd.grid_group().sync()
    if i == 7:
        x[0] = 3.0
    kd.grid_group().sync()
    out[i] += x[0]


def _behind_a_fence(x, out):
    i = kd.grid(1)
    out[i] = x[0]
    kd.threadfence()
    if i == 7:
        x[0] = 3.0
    kd.threadfence()
    out[i] += x[0]


def _behind_an_atomic(x, out):
    i = kd.grid(1)
    out[i] = x[0]
    if i == 7:
        x[0] = 3.0
    kd.atomic.load(x, 1, "acquire")
    out[i] += x[0]


def _behind_a_warp_barrier(x, out):
    i = kd.grid(1)
    out[i] = x[0]
    kd.syncwarp()
    if i == 7:
        x[0] = 3.0
    kd.syncwarp()
    out[i] += x[0]


@pytest.mark.parametrize(
    "function",
    [
        _behind_a_barrier,
        _behind_a_barrier_of_the_grid,
        _behind_a_fence,
        _behind_an_atomic,
        _behind_a_warp_barrier,
    ],
)
def test_memory_is_read_anew(function: Callable[..., None]) -> None:
    signature, promises = "float64[::1], float64[::1]", Promises(is_disjoint=True)
    body = body_of(compile_ptx(kd.kernel(function), signature, "sm_90", promises=promises))
    last = re.split(r"bar\.(?:warp\.)?sync|membar\.gl|ld\.acquire", body)[-1]
    assert len(re.findall(r"ld\.global\.b64", last)) == 2
    assert "ld.global.nc" not in body
