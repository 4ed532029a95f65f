"""Elements of functions of results, in threads of warpgroups: what they read, and their values.

A function is called with each result. What it loads for a pair of neighbours may be loaded before
other pairs are computed. It is held in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import TYPE_CHECKING, Any, TypeAlias

from llvmlite import ir
from numba import types

from kerneldsl.ir.operations import Effect, Operation, Value
from targets.cuda.compile.mma.fragment_stores import PAIR
from targets.cuda.compile.mma.fragments import BLOCK_COLUMNS, BLOCK_ROWS
from targets.cuda.compile.mma.mapped_stores import CHUNK_COLUMNS
from targets.cuda.compile.mma.panel_reads import columns_of
from targets.cuda.compile.mma.result_reads import loads_of
from targets.cuda.compile.mma.wgmma import ROW_BYTES, WARPGROUP

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.memory import Access
    from targets.cuda.compile.tiles.writer import TileWriter

__all__ = ["LINE_BYTES", "RESULT_BYTES", "Elements", "PairWords", "exchange_lines"]

#: Words that each load of a function read, by pair.
PairWords: TypeAlias = list[list[ir.Value]]
_I16, _I32, _I64 = (ir.IntType(bits) for bits in (16, 32, 64))
#: Bytes of a result, and of a row of a part.
RESULT_BYTES = 4
LINE_BYTES = CHUNK_COLUMNS * RESULT_BYTES


def exchange_lines(builder: ir.IRBuilder, row: ir.Value) -> ir.Value:
    """Return by what the place of a byte in a row changes, so that rows have different banks."""
    return builder.shl(builder.and_(row, _I64(7)), _I64(5))


def _exchanged(builder: ir.IRBuilder, row: ir.Value, within: ir.Value) -> ir.Value:
    """Return the place of a byte of a row of a box, in which parts of 16 bytes are exchanged."""
    parts = builder.shl(builder.and_(row, _I64(7)), _I64(4))
    return builder.add(builder.mul(row, _I64(ROW_BYTES)), builder.xor(within, parts))


def _as_words(builder: ir.IRBuilder, values: Sequence[ir.Value]) -> list[ir.Value]:
    """Return two numbers of 16 bits as a word, others as given."""
    if not _is_short(values[0].type):
        return list(values)
    pair: ir.Value = ir.Constant(ir.VectorType(_I16, PAIR), ir.Undefined)
    for place, value in enumerate(values):
        pair = builder.insert_element(pair, builder.bitcast(value, _I16), _I32(place))
    return [builder.bitcast(pair, _I32)]


def _of_words(builder: ir.IRBuilder, words: Iterator[ir.Value], kind: ir.Type) -> list[ir.Value]:
    """Return the next pair."""
    if not _is_short(kind):
        return list(islice(words, PAIR))
    return [builder.bitcast(each, kind) for each in _halves(builder, next(words))]


def _halves(builder: ir.IRBuilder, pair: ir.Value) -> list[ir.Value]:
    """Return two integers that were loaded as one."""
    half = ir.IntType(pair.type.width // PAIR)
    upper = builder.lshr(pair, pair.type(half.width))
    return [builder.trunc(each, half) for each in (pair, upper)]


def _is_plain(load: Operation) -> bool:
    """Return whether an operation loads a number of an array as it is in memory."""
    if load.name != "array.load" or load.attributes.get("hint") is not None:
        return False
    array = load.operands[0].type
    return array.aligned and isinstance(array.dtype, types.Integer | types.Float | types.Boolean)


def _is_short(kind: ir.Type) -> bool:
    return kind == _I16 or isinstance(kind, ir.HalfType)


class Elements:
    """Computes and stores elements of a part of a tile, or of a box."""

    def __init__(
        self,
        writer: TileWriter,
        operation: Operation,
        access: Access,
        memory: ir.Value,
        kind: Any,
        first: tuple[ir.Value, ir.Value],
        columns: int,
    ) -> None:
        self._columns = columns
        self._emitter, self._access, self._memory = writer.emitter, access, memory
        self._kind, self._first = writer.emitter.context.get_data_type(kind), first
        self._builder: ir.IRBuilder = access.builder
        (self._region,) = operation.regions
        self._axes = operation.attributes["axes"]
        self._thread = self._builder.and_(writer.code.thread, _I64(WARPGROUP - 1))
        self._loads = loads_of(self._region)
        reads = [each for each in self._loads if each.effect & Effect.READ]
        self._reads = [each for each in reads if "panel" not in each.attributes]
        #: Loads from panels, in their order, and the size of a panel.
        self._copied = sorted(
            (each for each in reads if each not in self._reads),
            key=lambda each: each.attributes["panel"],
        )
        self._panel_bytes = operation.attributes["panels"].nbytes if self._copied else 0

    def _own(self, beside: int, half: int) -> tuple[ir.Value, ir.Value]:
        """Return the place of the thread's pair in half of the rows of a fragment."""
        builder = self._builder
        warp, lane = (each(self._thread, _I64(32)) for each in (builder.udiv, builder.urem))
        row, place = (each(lane, _I64(4)) for each in (builder.udiv, builder.urem))
        above = builder.add(builder.mul(warp, _I64(BLOCK_ROWS)), _I64(half * BLOCK_ROWS // 2))
        column = builder.mul(place, _I64(PAIR))
        return builder.add(row, above), builder.add(column, _I64(beside * BLOCK_COLUMNS))

    def load(self) -> list[ir.Value]:
        """Load what the function loads for the thread's pairs of a box, in words."""
        builder, found = self._builder, []
        for at in product(range(self._columns // BLOCK_COLUMNS), range(2)):
            row, column = self._own(*at)
            places = [builder.add(column, _I64(place)) for place in range(PAIR)]
            read = [self._begin(row, place)[1] for place in places]
            for values in zip(*read, strict=True):
                found += _as_words(builder, values)
        return found

    def write_pair(
        self,
        at: tuple[int, int],
        results: Sequence[ir.Value],
        words: Iterator[ir.Value],
        panels: PairWords,
        memory: ir.Value,
    ) -> None:
        """Compute a pair of a box with what was loaded for it, and write it to shared memory."""
        builder, access, (row, column) = self._builder, self._access, self._own(*at)
        read = [_of_words(builder, words, self._in_memory(each)) for each in self._reads]
        copied = [_halves(builder, each) for each in (panels[0] if panels else ())]
        vector: ir.Value = None
        for place in range(PAIR):
            given = [[values[place] for values in each] for each in (read, copied)]
            begun, _ = self._begin(row, builder.add(column, _I64(place)), *given)
            stored = access.stored(self._end(results[place], begun))
            if vector is None:
                vector = ir.Constant(ir.VectorType(stored.type, PAIR), ir.Undefined)
            vector = builder.insert_element(vector, stored, _I32(place))
        within = builder.mul(column, _I64(access.item_bytes))
        target = builder.gep(memory, [_exchanged(builder, row, within)])
        kind = vector.type.as_pointer(target.type.addrspace)
        builder.store(vector, builder.bitcast(target, kind)).align = PAIR * access.item_bytes

    def store_inside(self, turn: ir.Value) -> None:
        """Store one of the thread's elements, if the array has a place for it."""
        builder, access = self._builder, self._access
        number = builder.add(builder.mul(turn, _I64(WARPGROUP)), self._thread)
        row, column = (each(number, _I64(CHUNK_COLUMNS)) for each in (builder.udiv, builder.urem))
        indices = self._indices(row, column, access.starts)
        is_inside: ir.Value = ir.IntType(1)(1)
        for index, extent in zip(indices, access.parts.shape, strict=True):
            for test in (
                builder.icmp_signed(">=", index, _I64(0)),
                builder.icmp_signed("<", index, extent),
            ):
                is_inside = builder.and_(is_inside, test)
        with builder.if_then(is_inside):
            source = self._place(row, column)
            kind = self._kind.as_pointer(source.type.addrspace)
            value = builder.load(builder.bitcast(source, kind))
            stored = access.stored(self._end(value, self._begin(row, column)[0]))
            target = access.parts.element(builder, indices)
            kind = stored.type.as_pointer(target.type.addrspace)
            builder.store(stored, builder.bitcast(target, kind))

    def _place(self, row: ir.Value, column: ir.Value) -> ir.Value:
        """Return where a result is in shared memory."""
        builder = self._builder
        of_row = builder.xor(exchange_lines(builder, row), builder.mul(column, _I64(RESULT_BYTES)))
        line = builder.gep(self._memory, [builder.mul(row, _I64(LINE_BYTES))])
        return builder.gep(line, [of_row])

    def _indices(
        self, row: ir.Value, column: ir.Value, starts: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """Return the indices of an element in the array."""
        pairs = zip(starts, self._in_tile(row, column), strict=True)
        return [self._builder.add(*each) for each in pairs]

    def _in_tile(self, row: ir.Value, column: ir.Value) -> list[ir.Value]:
        pairs = zip(self._first, (row, column), strict=True)
        return [self._builder.add(*each) for each in pairs]

    # -- the function -----------------------------------------------------------------------------

    def read_panels(self, places: Sequence[ir.Value]) -> PairWords:
        """Return the thread's pairs in the panels of each load, as integers."""
        builder, found = self._builder, []
        for at in product(range(CHUNK_COLUMNS // BLOCK_COLUMNS), range(2)):
            row, column = self._own(*at)
            pairs = []
            for load, place in zip(self._copied, places, strict=True):
                columns = columns_of(load)
                size = ROW_BYTES // columns
                within = builder.mul(builder.urem(column, _I64(columns)), _I64(size))
                panel = builder.mul(builder.udiv(column, _I64(columns)), _I64(self._panel_bytes))
                own = builder.add(panel, _exchanged(builder, row, within))
                kind = ir.IntType(8 * size * PAIR).as_pointer(place.type.addrspace)
                pairs.append(builder.load(builder.bitcast(builder.gep(place, [own]), kind)))
                pairs[-1].align = size * PAIR
            found.append(pairs)
        return found

    def _begin(
        self,
        row: ir.Value,
        column: ir.Value,
        known: Sequence[ir.Value] = (),
        copied: Sequence[ir.Value] = (),
    ) -> tuple[dict[Value, Any], list[ir.Value]]:
        """Load what the function loads for an element, unless it is `known` or was `copied`.

        Return the values that it has then, and what was loaded, as it is in memory.
        """
        emitter, builder, arguments = self._emitter, self._builder, self._region.arguments
        indices, left, read = self._in_tile(row, column), iter(known), []
        begun = dict(zip(arguments[1:], (indices[axis] for axis in self._axes), strict=True))
        emitter.values.update(begun)
        for each in self._loads:
            number = each.attributes.get("panel")
            if number is not None and copied:
                kind = self._in_memory(each)
                data = builder.bitcast(copied[number], kind)
                model = emitter.context.data_model_manager[each.operands[0].type.dtype]
                emitter.set(each, model.from_data(builder, data))
            elif number is not None or each not in self._reads:
                emitter.operations([each])
            elif _is_plain(each):
                array, *at = each.operands
                read.append(next(left) if known else emitter.read(emitter.element(each, at)))
                model = emitter.context.data_model_manager[array.type.dtype]
                emitter.set(each, model.from_data(self._builder, read[-1]))
            else:
                if known:
                    emitter.values[each.result] = next(left)
                else:
                    emitter.operations([each])
                read.append(emitter.values[each.result])
            begun |= {value: emitter.values[value] for value in each.results}
        return begun, read

    def _in_memory(self, load: Operation) -> ir.Type:
        """Return the type of what is loaded."""
        kind = load.operands[0].type.dtype if _is_plain(load) else load.result.type
        context = self._emitter.context
        return context.get_data_type(kind) if _is_plain(load) else context.get_value_type(kind)

    def _end(self, value: ir.Value, begun: dict[Value, Any]) -> ir.Value:
        """Compute an element of a result, and what is known of it."""
        emitter, region = self._emitter, self._region
        emitter.values.update(begun)
        emitter.values[region.arguments[0]] = value
        kept = set(self._loads)
        emitter.operations([each for each in region.operations[:-1] if each not in kept])
        (found,) = region.yielded
        result: ir.Value = emitter.plain(emitter.get(found), found.type)
        return result
