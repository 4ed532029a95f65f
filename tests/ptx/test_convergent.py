"""No barrier or exchange is copied into the sides of an earlier branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kerneldsl as kd


@kd.kernel
def with_barrier(m, out):
    t = kd.threadIdx.x
    bins = kd.shared.array(4, kd.int64)
    if t == 0:
        for b in range(4):
            bins[b] = 0
    kd.syncthreads()
    shifted = t >> (m & 15)
    if t < out.size:
        out[t] = shifted % ((m & 7) + 1) + bins[t & 3]


@kd.kernel
def with_vote(m, out):
    t = kd.threadIdx.x
    bins = kd.shared.array(4, kd.int64)
    if t == 0:
        for b in range(4):
            bins[b] = 0
    votes = kd.ballot_sync(0xFFFFFFFF, m > t)
    shifted = t >> (m & 15)
    if t < out.size:
        out[t] = shifted % ((m & 7) + 1) + votes


@kd.kernel
def with_shuffle(m, out):
    t = kd.threadIdx.x
    bins = kd.shared.array(4, kd.int64)
    if t == 0:
        for b in range(4):
            bins[b] = 0
    above = kd.shfl_down_sync(0xFFFFFFFF, kd.int32(m + t), 1)
    shifted = t >> (m & 15)
    if t < out.size:
        out[t] = shifted % ((m & 7) + 1) + above


@pytest.mark.parametrize(
    ("kernel", "instruction"),
    [(with_barrier, "bar.sync"), (with_vote, "vote.sync"), (with_shuffle, "shfl.sync")],
    ids=["barrier", "vote", "shuffle"],
)
def test_an_operation_of_several_threads_is_not_copied(
    kernel: Callable[..., Any], instruction: str
) -> None:
    """A thread of a warp that runs another copy is not at the same instruction (PTX ISA, bar)."""
    text = kernel.ptx("int64, int64[::1]", arch="sm_90", block=128)
    assert text.count(instruction) == 1
