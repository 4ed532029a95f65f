"""Stores of tiles in fragments: two neighbours by one instruction, if the array allows it.

References
----------
CUDA C++ Programming Guide, section "Device Memory Accesses".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from llvmlite import ir

from kerneldsl.ir.tiles.elements import Slot
from targets.cuda.compile.mma.fragments import Fragments

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.memory import Access

__all__ = ["has_pairs", "store_pairs"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
#: Neighbours that a thread has.
_PAIR = 2


def has_pairs(access: Access, layout: Fragments) -> ir.Value:
    """Say whether an array has all elements of a tile, and its pairs are aligned."""
    builder, parts, starts = access.builder, access.parts, access.starts
    tests = []
    shape = (layout.rows, layout.columns)
    for start, extent, count in zip(starts, parts.shape, shape, strict=True):
        tests.append(builder.icmp_signed(">=", start, _I64(0)))
        tests.append(builder.icmp_signed("<=", builder.add(start, _I64(count)), extent))
    rows = (starts[0], builder.add(starts[0], _I64(1)))
    columns = (starts[1], builder.add(starts[1], _I64(1)))
    first, below = (
        builder.ptrtoint(parts.element(builder, [row, columns[0]]), _I64) for row in rows
    )
    second = builder.ptrtoint(parts.element(builder, [rows[0], columns[1]]), _I64)
    size = _I64(access.item_bytes)
    tests.append(builder.icmp_unsigned("==", builder.sub(second, first), size))
    low = builder.and_(builder.or_(first, below), _I64(_PAIR * access.item_bytes - 1))
    found = builder.icmp_unsigned("==", low, _I64(0))
    for test in tests:
        found = builder.and_(found, test)
    return found


def store_pairs(access: Access, layout: Fragments, value: Callable[[Slot], ir.Value]) -> None:
    """Store all elements of a tile."""
    builder, code = access.builder, access.thread
    with code.unrolled(layout.slot_count // _PAIR) as number:
        first = builder.mul(number, _I64(_PAIR))
        row, column = layout.indices(builder, code.thread, first)
        vector: ir.Value = None
        for place in range(_PAIR):
            at = builder.add(column, _I64(place))
            index = builder.add(builder.mul(row, _I64(layout.columns)), at)
            slot = Slot(index, builder.add(first, _I64(place)), indices=(row, at))
            stored = access.stored(value(slot))
            if vector is None:
                vector = ir.Constant(ir.VectorType(stored.type, _PAIR), ir.Undefined)
            vector = builder.insert_element(vector, stored, _I32(place))
        indices = [builder.add(*each) for each in zip(access.starts, (row, column), strict=True)]
        element = access.parts.element(builder, indices)
        target = vector.type.as_pointer(element.type.addrspace)
        builder.store(vector, builder.bitcast(element, target)).align = _PAIR * access.item_bytes
