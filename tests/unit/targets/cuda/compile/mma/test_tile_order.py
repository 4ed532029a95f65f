"""Tiles in groups of rows: each tile once, for counts of 32 and of 64 bits."""

from __future__ import annotations

import ctypes

import pytest
from llvmlite import ir

from targets.cuda.compile.mma.tile_order import place_in_groups
from tests.support import device_threads

_I64 = ir.IntType(64)


def _places(height: int, width: int, group: int, numbers: range) -> list[tuple[int, int]]:
    module = ir.Module()
    kind = ir.FunctionType(_I64, [_I64] * 4)
    function = ir.Function(module, kind, "place")
    builder = ir.IRBuilder(function.append_basic_block())
    number, rows, columns, which = function.args
    found = place_in_groups(builder, number, rows, columns, group)
    builder.ret(builder.select(builder.trunc(which, ir.IntType(1)), found[1], found[0]))
    engine = device_threads._compiled([str(module)])
    call = ctypes.CFUNCTYPE(*[ctypes.c_int64] * 5)(engine.get_function_address("place"))
    return [(call(each, height, width, 0), call(each, height, width, 1)) for each in numbers]


@pytest.mark.parametrize(
    ("height", "width", "group"), [(1, 1, 4), (7, 3, 4), (8, 5, 4), (3, 9, 16), (16, 1, 1)]
)
def test_each_tile_is_taken_once(height, width, group):
    found = _places(height, width, group, range(height * width))
    assert sorted(found) == [(row, column) for row in range(height) for column in range(width)]
    first = found[: min(group, height)]  # down a column of the group
    assert first == [(row, 0) for row in range(min(group, height))]


def test_more_tiles_than_32_bits_count():
    height, width = 2**33, 2**3
    last = height * width
    assert _places(height, width, 8, range(last - 2, last)) == [(2**33 - 2, 7), (2**33 - 1, 7)]
