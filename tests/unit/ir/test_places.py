"""Which kernels need no blocks: those in which nothing tells where a thread is in one."""

from __future__ import annotations

import pytest

import kerneldsl as kd
from kerneldsl.analysis.analyze import analyze
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.language.intrinsics.intrinsic import Typing
from kerneldsl.language.intrinsics.table import INTRINSICS


def of_lane(out):
    out[kd.grid(1)] = kd.laneid


def of_mask(out):
    out[kd.grid(1)] = kd.lanemask_lt()


def of_live_lanes(out):
    out[kd.grid(1)] = kd.activemask()


def of_thread(out):
    out[kd.grid(1)] = kd.threadIdx.x


def of_block(out):
    out[kd.grid(1)] = kd.blockIdx.y


def of_shape(out):
    out[kd.grid(1)] = kd.blockDim.z + kd.gridDim.x


def of_warps(out):
    out[kd.grid(1)] = kd.warpsize


def of_grid(out):
    out[kd.grid(1)] = kd.gridsize(1)


NEEDING = (of_lane, of_mask, of_live_lanes, of_thread, of_block, of_shape)


@pytest.mark.parametrize("function", NEEDING, ids=lambda f: f.__name__)
def test_a_place_in_a_block_needs_blocks(function):
    assert not analyze(make_unit(function)).uses_grid_only


@pytest.mark.parametrize("function", [of_warps, of_grid], ids=lambda f: f.__name__)
def test_a_place_in_the_grid_needs_none(function):
    assert analyze(make_unit(function)).uses_grid_only


def test_every_place_is_tried():
    tried = {
        use.intrinsic.name
        for function in (*NEEDING, of_warps, of_grid)
        for use in make_unit(function).all_uses()
    }
    kinds = {name.partition(".")[0] for name in tried}
    places = (Typing.INDEX, Typing.INDEX_TUPLE, Typing.LANE_MASK)
    written = {name for name, row in INTRINSICS.items() if row.typing in places}
    assert {name.partition(".")[0] for name in written} == kinds
