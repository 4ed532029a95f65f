"""Stores of tiles in fragments: neighbours by one instruction, if the array allows it.

A thread has two neighbours of a row, and the four lanes beside each other have a row of a block.
Lanes exchange these pairs among as many blocks, so that each one has 16 bytes of a row. The rows
that an instruction stores are then parts of 64 bytes. Pairs alone are parts of 16 bytes of an array
of 16-bit floats, and the second-level cache takes four times as many of them.

References
----------
CUDA C++ Programming Guide, section "Device Memory Accesses".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import reduce
from typing import TYPE_CHECKING

from llvmlite import ir

from kerneldsl.ir.tiles.elements import Slot
from targets.cuda.compile.mma.fragments import BLOCK_COLUMNS, Fragments, RowFragments
from targets.cuda.intrinsics.synchronize import shuffle

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.memory import Access

__all__ = ["PAIR", "has_vectors", "is_whole", "pair_of", "store_vectors"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_ALL_LANES = _I32(0xFFFFFFFF)
#: Neighbours that a thread has, and lanes that have a row of a block.
PAIR, _LANES = 2, 4
#: Words of a vector, and bytes of a word.
_WORDS, _WORD_BYTES = 4, 4


def _blocks(access: Access, layout: Fragments) -> int:
    """Return how many blocks beside each other have a vector for each lane; 1 for pairs."""
    words, rest = divmod(PAIR * access.item_bytes, _WORD_BYTES)
    blocks = 1 if rest or words not in (1, 2) else _WORDS // words
    return 1 if layout.column_blocks % blocks else blocks


def is_whole(
    access: Access, layout: Fragments | RowFragments, rows: tuple[ir.Value, int] | None = None
) -> ir.Value:
    """Say whether an array has all elements of a tile, or of so many rows from one on."""
    builder, tests = access.builder, []
    first, count = rows or (access.starts[0], layout.rows)
    starts, shape = (first, access.starts[1]), (count, layout.columns)
    for start, extent, count in zip(starts, access.parts.shape, shape, strict=True):
        tests.append(builder.icmp_signed(">=", start, _I64(0)))
        tests.append(builder.icmp_signed("<=", builder.add(start, _I64(count)), extent))
    return reduce(builder.and_, tests)


def has_vectors(
    access: Access, layout: Fragments, rows: tuple[ir.Value, int] | None = None
) -> ir.Value:
    """Say whether :func:`is_whole` holds, and vectors are aligned."""
    builder, parts, starts = access.builder, access.parts, access.starts
    lines = (starts[0], builder.add(starts[0], _I64(1)))
    columns = (starts[1], builder.add(starts[1], _I64(1)))
    first, below = (
        builder.ptrtoint(parts.element(builder, [row, columns[0]]), _I64) for row in lines
    )
    second = builder.ptrtoint(parts.element(builder, [lines[0], columns[1]]), _I64)
    size = _I64(access.item_bytes)
    are_neighbours = builder.icmp_unsigned("==", builder.sub(second, first), size)
    is_of_words = _blocks(access, layout) > 1
    nbytes = _WORDS * _WORD_BYTES if is_of_words else PAIR * access.item_bytes
    low = builder.and_(builder.or_(first, below), _I64(nbytes - 1))
    is_aligned = builder.icmp_unsigned("==", low, _I64(0))
    return reduce(builder.and_, (is_whole(access, layout, rows), are_neighbours, is_aligned))


def store_vectors(
    access: Access,
    layout: Fragments,
    value: Callable[[Slot], ir.Value],
    end: ir.Value | None = None,
) -> None:
    """Store all elements of a tile, or those of rows before an end."""
    builder, code = access.builder, access.thread
    blocks = _blocks(access, layout)
    with code.unrolled(layout.slot_count // (PAIR * blocks)) as number:
        # Pairs are numbered by block, then by half of its rows.
        half, group = builder.urem(number, _I64(2)), builder.udiv(number, _I64(2))
        first = builder.mul(builder.add(builder.mul(group, _I64(2 * blocks)), half), _I64(PAIR))
        row, column = layout.indices(builder, code.thread, first)
        pairs = []
        for block in range(blocks):
            at = builder.add(column, _I64(BLOCK_COLUMNS * block))
            slot = builder.add(first, _I64(2 * PAIR * block))
            pairs.append(pair_of(access, layout, value, slot, (row, at)))
        if blocks == 1:
            vector = pairs[0]
        else:
            vector, moved = _exchanged(access, pairs)
            column = builder.add(column, moved)
        indices = [builder.add(*each) for each in zip(access.starts, (row, column), strict=True)]
        element = access.parts.element(builder, indices)
        target = vector.type.as_pointer(element.type.addrspace)
        nbytes = PAIR * access.item_bytes * blocks
        is_before = builder.if_then(builder.icmp_signed("<", indices[0], end)) if end else None
        with is_before or nullcontext():
            builder.store(vector, builder.bitcast(element, target)).align = nbytes


def pair_of(
    access: Access,
    layout: Fragments,
    value: Callable[[Slot], ir.Value],
    first: ir.Value,
    indices: tuple[ir.Value, ir.Value],
) -> ir.Value:
    """Return two neighbours as a vector."""
    builder, (row, column) = access.builder, indices
    vector: ir.Value = None
    for place in range(PAIR):
        at = builder.add(column, _I64(place))
        index = builder.add(builder.mul(row, _I64(layout.columns)), at)
        slot = Slot(index, builder.add(first, _I64(place)), indices=(row, at))
        stored = access.stored(value(slot))
        if vector is None:
            vector = ir.Constant(ir.VectorType(stored.type, PAIR), ir.Undefined)
        vector = builder.insert_element(vector, stored, _I32(place))
    return vector


def _exchanged(access: Access, pairs: Sequence[ir.Value]) -> tuple[ir.Value, ir.Value]:
    """Return neighbours of one of the blocks, and how many columns on from the lane's pair.

    Each exchange halves the blocks that a lane has words of, and doubles the words of each.
    """
    builder, count = access.builder, len(pairs)
    words = ir.VectorType(_I32, _WORDS // count)
    blocks = [_split(builder, builder.bitcast(each, words)) for each in pairs]
    lane = builder.and_(access.thread.thread, _I64(_LANES - 1))
    bit = 1
    while bit < count:
        is_upper = builder.icmp_unsigned("!=", builder.and_(lane, _I64(bit)), _I64(0))

        def chosen(one: ir.Value, two: ir.Value, test: ir.Value = is_upper) -> ir.Value:
            return builder.select(test, one, two)

        made = []
        for low, high in zip(blocks[::2], blocks[1::2], strict=True):
            given = map(chosen, low, high)
            got = [shuffle(builder, "bfly", _ALL_LANES, each, _I32(bit)) for each in given]
            made.append([*map(chosen, got, low), *map(chosen, high, got)])
        blocks, bit = made, 2 * bit
    vector = ir.Constant(ir.VectorType(_I32, _WORDS), ir.Undefined)
    for number, word in enumerate(blocks[0]):
        vector = builder.insert_element(vector, word, _I32(number))
    block, rest = builder.urem(lane, _I64(count)), builder.udiv(lane, _I64(count))
    end = builder.add(
        builder.mul(block, _I64(BLOCK_COLUMNS)), builder.mul(rest, _I64(PAIR * count))
    )
    return vector, builder.sub(end, builder.mul(lane, _I64(PAIR)))


def _split(builder: ir.IRBuilder, vector: ir.Value) -> list[ir.Value]:
    return [builder.extract_element(vector, _I32(n)) for n in range(vector.type.count)]
