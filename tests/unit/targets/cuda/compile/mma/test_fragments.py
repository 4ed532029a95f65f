"""The elements of a tile in fragments: each belongs to one thread, as PTX ISA's figures say."""

from __future__ import annotations

import numpy as np
import pytest
from llvmlite import ir

from targets.cuda.compile.mma.fragments import Fragments, RowFragments, divisions
from tests.support.warp import LANES, fragment_places, run_warp

_I64 = ir.IntType(64)


def _indices(layout: Fragments | RowFragments, warp: int, slot: int) -> tuple[np.ndarray, ...]:
    """Row and column of an element of each lane, by the code that the layout writes."""
    found = []
    for axis in range(2):
        function = ir.Function(ir.Module(), ir.FunctionType(_I64, (_I64, _I64)), "index")
        builder = ir.IRBuilder(function.append_basic_block())
        builder.ret(layout.indices(builder, *function.args)[axis])
        given = (LANES + 32 * warp).astype(np.uint64), np.full(32, slot, np.uint64)
        found.append(run_warp(function, given).astype(np.int64))
    return tuple(found)


_LAYOUTS = [
    Fragments(16, 8, 1, 1),
    Fragments(64, 64, 2, 2),
    Fragments(128, 96, 4, 1),
    Fragments(32, 128, 1, 4),
    Fragments(96, 48, 3, 2),
]


@pytest.mark.parametrize("layout", _LAYOUTS)
def test_each_element_belongs_to_one_thread(layout: Fragments) -> None:
    counts = np.zeros((layout.rows, layout.columns), int)
    for warp in range(layout.threads // 32):
        for slot in range(layout.slot_count):
            np.add.at(counts, _indices(layout, warp, slot), 1)
    assert (counts == 1).all()


@pytest.mark.parametrize("layout", _LAYOUTS)
def test_a_fragment_is_that_of_the_instruction(layout: Fragments) -> None:
    for warp in range(layout.threads // 32):
        for number in range(layout.row_blocks * layout.column_blocks):
            places = [_indices(layout, warp, 4 * number + element) for element in range(4)]
            start = places[0][0][0], places[0][1][0]
            assert start[0] % 16 == start[1] % 8 == 0
            for element, (rows, columns) in enumerate(places):
                expected = fragment_places("m16n8k16", "c", element)
                np.testing.assert_array_equal(rows - start[0], expected[0])
                np.testing.assert_array_equal(columns - start[1], expected[1])


def test_warps_along_the_rows_have_the_layout_of_a_warpgroup() -> None:
    layout = Fragments(128, 64, 4, 1)
    for warp in range(4):
        for block in range(2):
            for element in range(4):
                slot = layout.first(block, 3) + element
                rows, columns = _indices(layout, warp, slot)
                # PTX ISA, figure of the accumulators of wgmma.m64nNk16: d[4 * (column block) + i].
                assert (
                    rows.tolist()
                    == (64 * block + 16 * warp + LANES // 4 + 8 * (element // 2)).tolist()
                )
                assert columns.tolist() == (24 + LANES % 4 * 2 + element % 2).tolist()


@pytest.mark.parametrize("layout", _LAYOUTS)
def test_a_row_has_its_element_where_its_elements_are(layout: Fragments) -> None:
    rows = layout.of_rows()
    function = ir.Function(ir.Module(), ir.FunctionType(_I64, (_I64,)), "slot")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(layout.row_slot(builder, function.args[0]))
    for warp in range(layout.threads // 32):
        for slot in range(layout.slot_count):
            (number,) = {*run_warp(function, (np.full(32, slot, np.uint64),)).tolist()}
            own = _indices(layout, warp, slot)[0]
            np.testing.assert_array_equal(own, _indices(rows, warp, number)[0])


def test_warps_divide_the_tile_so_that_each_loads_little() -> None:
    found = divisions(128, 128, 128)
    assert [(each.row_warps, each.column_warps) for each in found] == [(2, 2), (1, 4), (4, 1)]
    assert divisions(128, 256, 256)[0] == Fragments(128, 256, 2, 4)
    assert divisions(16, 8, 32) == [Fragments(16, 8, 1, 1)]
    for shape, threads in (((16, 16), 256), ((24, 64), 32), ((64, 64), 48)):
        assert not divisions(*shape, threads)
