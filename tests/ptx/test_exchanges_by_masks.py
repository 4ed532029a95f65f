"""Exchanges of a warp whose result no lane reads are not in the PTX; the others are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from tests.ptx.helpers import body_of, compile_ptx

_ALL_LANES = np.uint32(0xFFFFFFFF)
_EXCHANGES = ("vote.sync", "match.any.sync", "match.all.sync", "redux.sync")
_SIGNATURE = "int32[::1], int32[::1], int32"


def _add(x, out, mask):
    i = kd.grid(1)
    kd.reduce_add_sync(kd.uint32(mask), x[i])
    out[i] = x[i]


def _match(x, out, mask):
    i = kd.grid(1)
    kd.match_any_sync(kd.uint32(mask), x[i])
    out[i] = x[i]


def _match_all(x, out, mask):
    i = kd.grid(1)
    kd.match_all_sync(kd.uint32(mask), x[i])
    out[i] = x[i]


def _vote(x, out, mask):
    i = kd.grid(1)
    kd.ballot_sync(kd.uint32(mask), x[i] > 3)
    out[i] = x[i]


def _one_for_another(x, out, mask):
    i = kd.grid(1)
    lanes = kd.match_any_sync(_ALL_LANES, x[i])
    kd.ballot_sync(kd.uint32(kd.reduce_add_sync(lanes, x[i])), x[i] > 3)
    out[i] = x[i]


def _used(x, out, mask):
    i = kd.grid(1)
    lanes = kd.match_any_sync(kd.uint32(mask), x[i])
    same, is_same = kd.match_all_sync(kd.uint32(mask), x[i])
    if is_same:
        out[i] = kd.reduce_add_sync(lanes, x[i])
    else:
        out[i] = kd.ballot_sync(lanes, x[i] > 3) + same


def _exchanges(kernel: Callable[..., Any], arch: str) -> list[str]:
    body = body_of(compile_ptx(kernel, _SIGNATURE, arch))
    return [name for line in body.splitlines() for name in _EXCHANGES if name in line]


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("kernel", [_add, _match, _match_all, _vote])
def test_unused(kernel: Callable[..., Any], arch: str) -> None:
    assert _exchanges(kernel, arch) == []


# Earlier architectures have no `redux.sync`.
@pytest.mark.parametrize("arch", ["sm_90", "sm_120"])
def test_used_by_unused_ones(arch: str) -> None:
    assert _exchanges(_one_for_another, arch) == []


@pytest.mark.parametrize("arch", ["sm_90", "sm_120"])
def test_used(arch: str) -> None:
    assert sorted(set(_exchanges(_used, arch))) == sorted(_EXCHANGES)


def _in_a_loop(x, out, mask):
    # The next exchange alone reads each one, after a branch that chooses its operand.
    i = kd.grid(1)
    value = x[i]
    for k in range(mask):
        lanes = kd.match_any_sync(_ALL_LANES, value % 3 if value > k else -value)
        value = kd.reduce_add_sync(lanes, value + k)
    out[i] = x[i]


def _in_a_loop_and_used(x, out, mask):
    i = kd.grid(1)
    value = x[i]
    for k in range(mask):
        lanes = kd.match_any_sync(_ALL_LANES, value % 3 if value > k else -value)
        value = kd.reduce_add_sync(lanes, value + k)
    out[i] = value


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_used_by_the_next_iteration(arch: str) -> None:
    assert _exchanges(_in_a_loop, arch) == []
    assert _exchanges(_in_a_loop_and_used, arch) == ["match.any.sync"]  # and shuffles of 64 bits


def _replaced(x, out, mask):
    # Its lanes are those of the branch that replaces it.
    i = kd.grid(1)
    value = x[i]
    if kd.threadIdx.x < 32:
        lanes = kd.match_any_sync(_ALL_LANES, value % 3)
        value = kd.reduce_add_sync(lanes, value)
    if kd.threadIdx.x < 32:
        value = x[i + 1]
    out[i] = value


def _replaced_for_some(x, out, mask):
    i = kd.grid(1)
    value = x[i]
    if kd.threadIdx.x < 32:
        lanes = kd.match_any_sync(_ALL_LANES, value % 3)
        value = kd.reduce_add_sync(lanes, value)
    if kd.threadIdx.x < 31:
        value = x[i + 1]
    out[i] = value


@pytest.mark.parametrize("arch", ["sm_90", "sm_120"])
def test_replaced_on_each_path(arch: str) -> None:
    assert _exchanges(_replaced, arch) == []
    assert sorted(_exchanges(_replaced_for_some, arch)) == ["match.any.sync", "redux.sync"]


def _skips_a_sort(x, out, mask):
    # The sort has loops and no effects. Nothing reads its result in the end.
    i = kd.grid(1)
    lanes = kd.match_any_sync(_ALL_LANES, i % 3)
    value = kd.reduce_min_sync(lanes, np.int32(i))
    if value % 3 < x[i]:
        value = kd.warp.sort(x[i])
    value = mask if x[i] > value - value + 3 else x[i]
    out[i] = value


@pytest.mark.parametrize("arch", ["sm_90", "sm_120"])
def test_used_by_loops_without_effects(arch: str) -> None:
    assert _exchanges(_skips_a_sort, arch) == []
