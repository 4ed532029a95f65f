"""Exchanges of a warp whose result no lane reads are not in the PTX; the others are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from targets.cuda.compile.ptxas_workarounds import leave_unused_exchanges_out
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


def test_a_register_of_another_function_is_another() -> None:
    text = "{{\nvote.sync.ballot.b32 %r1, %p1, %r2;\n}}\n{{\n{}st.global.b32 [%rd1], %r1;\n}}"
    vote = "vote.sync.ballot.b32 %r1, %p1, %r3;\n"
    assert leave_unused_exchanges_out(text.format(vote)) == f"{{\n}}\n{{\n{vote}" + (
        "st.global.b32 [%rd1], %r1;\n}"
    )


def test_one_of_two_results_is_enough() -> None:
    text = "{\nmatch.all.sync.b32 %r1|%p1, %r2, %r3;\nselp.b32 %r4, 1, 0, %p1;\n}"
    assert leave_unused_exchanges_out(text) == text
