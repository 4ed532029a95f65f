"""Lanes that reach an exchange by a mask in a register are brought together behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from tests.ptx.helpers import body_of, compile_ptx

_ALL_LANES = np.uint32(0xFFFFFFFF)


def _add(x, out, mask):
    i = kd.grid(1)
    out[i] = kd.reduce_add_sync(kd.uint32(mask), x[i])


def _match(x, out, mask):
    i = kd.grid(1)
    out[i] = kd.match_any_sync(kd.uint32(mask), x[i])


def _match_all(x, out, mask):
    i = kd.grid(1)
    out[i] = kd.match_all_sync(kd.uint32(mask), x[i])[0]


def _vote(x, out, mask):
    i = kd.grid(1)
    out[i] = kd.ballot_sync(kd.uint32(mask), x[i] > 3)


def _by_all(x, out, mask):
    i = kd.grid(1)
    out[i] = kd.reduce_add_sync(_ALL_LANES, x[i]) + kd.ballot_sync(_ALL_LANES, x[i] > 3)


def _by_those_that_are_there(x, out, mask):
    i = kd.grid(1)
    if x[i] > mask:
        out[i] = kd.ballot_sync(kd.activemask(), x[i] > 3)


def _by_those_that_were_there(x, out, mask):
    i = kd.grid(1)
    lanes = kd.activemask()
    if x[i] > mask:
        x[i] = kd.ballot_sync(lanes, out[i] > 3)
    kd.syncwarp()


_EXCHANGES = ("vote.sync", "match.any.sync", "match.all.sync", "redux.sync")


def _exchanges(kernel: Callable[..., Any], arch: str) -> list[tuple[str, str, str]]:
    """Return each exchange with the lines before and behind it."""
    lines = [line.strip() for line in body_of(compile_ptx(kernel, _SIGNATURE, arch)).splitlines()]
    return [
        (lines[number - 1], line, lines[number + 1])
        for number, line in enumerate(lines)
        if line.startswith(_EXCHANGES)
    ]


_SIGNATURE = "int32[::1], int32[::1], int32"


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("kernel", [_add, _match, _match_all, _vote, _by_those_that_were_there])
def test_by_a_mask_in_a_register(kernel: Callable[..., Any], arch: str) -> None:
    found = _exchanges(kernel, arch)
    assert found or (kernel is _add and arch == "sm_75")  # by shuffles
    for before, exchange, behind in found:
        assert before.endswith("activemask.b32 %kd_lanes;"), exchange
        assert behind == "bar.warp.sync %kd_lanes; }", exchange


@pytest.mark.parametrize("kernel", [_by_all, _by_those_that_are_there])
def test_lanes_of_one_mask_are_together_anyway(kernel: Callable[..., Any]) -> None:
    found = _exchanges(kernel, "sm_90")
    assert found
    assert not any("kd_lanes" in "".join(lines) for lines in found)
