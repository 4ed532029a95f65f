"""Write stores of functions of results: through shared memory, in a loop over neighbours.

A thread has elements of a product that are far from each other, all in registers. A function of
each would be as much code as there are elements, and load what it reads element by element. So the
threads of a warpgroup write 64 rows and columns of results to shared memory at a time. Then each
thread computes four neighbours of all rows. What the function loads for them is loaded first, so
LLVM loads neighbours by one instruction, and several rows wait for memory together.

References
----------
CUDA C++ Programming Guide, section "Device Memory Accesses".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types

from kerneldsl.ir.operations import Effect, Operation, Value
from kerneldsl.lowering.loop_marks import NOT_UNROLLED, repeat
from targets.cuda.compile.mma.fragment_stores import PAIR, is_whole
from targets.cuda.compile.mma.fragments import BLOCK_COLUMNS, BLOCK_ROWS, Fragments
from targets.cuda.compile.mma.mapped_stores import CHUNK_COLUMNS
from targets.cuda.compile.mma.panel_reads import Panels, columns_of
from targets.cuda.compile.mma.result_reads import loads_of
from targets.cuda.compile.mma.wgmma import ROW_BYTES, WARPGROUP, WARPGROUP_ROWS
from targets.cuda.compile.tiles.elements import OperationCode
from targets.cuda.compile.tiles.memory import Access, write_store
from targets.cuda.intrinsics.by_architecture import call_by_architecture

if TYPE_CHECKING:
    from targets.cuda.compile.mma.warpgroup_writer import Ring
    from targets.cuda.compile.tiles.writer import Storage, TileWriter

__all__ = ["store_neighbours"]

_I16, _I32, _I64 = (ir.IntType(bits) for bits in (16, 32, 64))
#: Bytes of a result, and neighbours that a thread has in a row.
_ITEM, _NEIGHBOURS = 4, 4
_LINE_BYTES = CHUNK_COLUMNS * _ITEM
#: Threads beside each other in a row, and rows of a warpgroup's threads.
_BESIDE = CHUNK_COLUMNS // _NEIGHBOURS
_TOGETHER = WARPGROUP // _BESIDE
#: Results of a part that a thread has.
_RESULTS = WARPGROUP_ROWS * CHUNK_COLUMNS // WARPGROUP


def store_neighbours(
    writer: TileWriter,
    operation: Operation,
    ring: Ring,
) -> None:
    """Write such a store, through the boxes of this warpgroup in shared memory."""
    tile = _stored_tile(writer, operation, ring)
    panels: Panels | None = operation.attributes.get("panels")
    if tile is None:
        _pass_panels(ring, panels)
        write_store(writer, operation)
        return
    builder, count = writer.code.builder, tile.count
    with builder.if_else(tile.is_whole()) as (whole, part):
        with whole:
            _store_parts(tile, count, panels)
        with part:
            _pass_panels(ring, panels)
            with repeat(builder, count, NOT_UNROLLED) as (number, _, _):
                tile.write_part(number)
                ring.meet()
                turns = WARPGROUP_ROWS * CHUNK_COLUMNS // WARPGROUP
                with repeat(builder, turns, NOT_UNROLLED) as (turn, _, _):
                    tile.elements(number).store_inside(turn)


def _pass_panels(ring: Ring, panels: Panels | None) -> None:
    """Free the slots of panels that are not read."""
    for _ in panels.slots if panels else ():
        ring.wait_for_panels()
        ring.free_panels()


def _store_parts(tile: _StoredTile, count: int, panels: Panels | None) -> None:
    """Store the first parts of a whole tile."""
    builder = tile.builder
    first = tile.elements(_I64(0)).load()
    with repeat(builder, count, NOT_UNROLLED, first=first) as (number, loaded, following):
        # The assembler puts loads between the computations that follow them, but not beyond a
        # barrier. So a part is computed while what the next one needs is loaded.
        is_last = builder.icmp_unsigned("==", number, _I64(count - 1))
        after = builder.select(is_last, number, builder.add(number, _I64(1)))
        following += tile.elements(after).load()
        tile.write_part(number)
        tile.ring.meet()
        places = tile.ring.panels_of(panels, number) if panels else []
        tile.elements(number).store_all(loaded, places)
        if panels:
            after = builder.urem(builder.add(number, _I64(1)), _I64(panels.together))
            is_done = builder.icmp_unsigned("==", after, _I64(0))
            with builder.if_then(builder.or_(is_done, is_last)):
                tile.ring.free_panels()


def _stored_tile(writer: TileWriter, operation: Operation, ring: Ring) -> _StoredTile | None:
    """Return the tile of a store, if the threads have it so that it can be stored in parts."""
    code = OperationCode(writer, operation)
    source, layout = code.tile(code.tiles[0]), code.layout
    if (
        not isinstance(layout, Fragments)
        or source.is_shared
        or layout.row_warps != WARPGROUP // 32 * ring.sharing
        or layout.column_warps > 1
    ):
        return None
    array, *at = operation.operands[:3]
    access = Access(writer, code, array, at)
    return _StoredTile(writer, operation, ring, source, layout, access)


class _StoredTile:
    """A tile that a warpgroup stores in parts, each through its boxes in shared memory."""

    def __init__(
        self,
        writer: TileWriter,
        operation: Operation,
        ring: Ring,
        source: Storage,
        layout: Fragments,
        access: Access,
    ) -> None:
        self._writer, self._operation, self.ring = writer, operation, ring
        self.source, self._layout, self._access = source, layout, access
        self._memory, self.builder = ring.boxes(), access.builder

    @property
    def count(self) -> int:
        """Number of parts."""
        return self._layout.row_blocks * self._slices

    @property
    def _slices(self) -> int:
        return self._layout.columns // CHUNK_COLUMNS

    def is_whole(self) -> ir.Value:
        """Say whether the array has all elements of the tile."""
        return is_whole(self._access, self._layout)

    def elements(self, number: ir.Value) -> _Elements:
        """Return the elements of a part."""
        builder, slices = self.builder, _I64(self._slices)
        block, column = builder.udiv(number, slices), builder.urem(number, slices)
        row = builder.add(
            builder.mul(block, _I64(WARPGROUP_ROWS * self.ring.sharing)),
            builder.mul(builder.zext(self.ring.sharer, _I64), _I64(WARPGROUP_ROWS)),
        )
        first = (row, builder.mul(column, _I64(CHUNK_COLUMNS)))
        about = (self._writer, self._operation, self._access, self._memory)
        return _Elements(*about, self.source.kind, first)

    def results(self, part: int) -> list[ir.Value]:
        """Return the thread's results of a part."""
        blocks = CHUNK_COLUMNS // BLOCK_COLUMNS
        first = self._layout.first(part // self._slices, part % self._slices * blocks)
        return [self.source.memory.get(_I64(first + each)) for each in range(_RESULTS)]

    def write_part(self, number: ir.Value) -> None:
        """Write the thread's results of one part to shared memory, which others have read."""
        self.ring.meet()
        builder = self.builder
        end, wrong = (builder.append_basic_block(f"written.{each}") for each in ("end", "not"))
        choice = builder.switch(number, wrong)
        for part in range(self.count):
            chosen = builder.append_basic_block(f"written.{part}")
            choice.add_case(_I64(part), chosen)
            builder.position_at_end(chosen)
            self.write(self.results(part))
            builder.branch(end)
        builder.position_at_end(wrong)
        builder.unreachable()
        builder.position_at_end(end)

    def write(self, results: Sequence[ir.Value]) -> None:
        """Write the thread's results of a part to shared memory."""
        builder, thread = self.builder, self._writer.code.thread
        lane = builder.and_(thread, _I64(31))
        warp = builder.and_(builder.lshr(thread, _I64(5)), _I64(3))
        row, place = builder.lshr(lane, _I64(2)), builder.and_(lane, _I64(3))
        line = builder.add(builder.mul(warp, _I64(BLOCK_ROWS)), row)
        own = builder.gep(self._memory, [builder.mul(line, _I64(_LINE_BYTES))])
        exchanged = builder.xor(_exchange(builder, row), builder.mul(place, _I64(PAIR * _ITEM)))
        for number in range(0, _RESULTS, PAIR):
            block, half = divmod(number // PAIR, 2)
            target = builder.gep(own, [builder.xor(exchanged, _I64(BLOCK_COLUMNS * _ITEM * block))])
            at = builder.gep(target, [_I64(half * BLOCK_ROWS // 2 * _LINE_BYTES)])
            _store_pair(builder, results[number : number + PAIR], at)


def _store_pair(builder: ir.IRBuilder, values: Sequence[ir.Value], place: ir.Value) -> None:
    """Store two results. LLVM does not join these stores of several parts, which costs moves."""
    words = [builder.bitcast(each, _I32) for each in values]
    call_by_architecture(builder, "matrix_store_pair", ir.VoidType(), [place, *words])


def _exchange(builder: ir.IRBuilder, row: ir.Value) -> ir.Value:
    """Return by what the place of a byte in a row changes, so that rows have different banks."""
    return builder.shl(builder.and_(row, _I64(7)), _I64(5))


def _as_words(builder: ir.IRBuilder, values: Sequence[ir.Value]) -> list[ir.Value]:
    """Return two numbers of 16 bits each as a word, others as given."""
    if not _is_short(values[0].type):
        return list(values)
    words, halves = [], [builder.bitcast(each, _I16) for each in values]
    for pair in zip(halves[::2], halves[1::2], strict=True):
        vector: ir.Value = ir.Constant(ir.VectorType(_I16, len(pair)), ir.Undefined)
        for place, half in enumerate(pair):
            vector = builder.insert_element(vector, half, _I32(place))
        words.append(builder.bitcast(vector, _I32))
    return words


def _of_words(builder: ir.IRBuilder, words: Iterator[ir.Value], kind: ir.Type) -> list[ir.Value]:
    """Return the next neighbours."""
    if not _is_short(kind):
        return list(islice(words, _NEIGHBOURS))
    return [
        builder.bitcast(builder.trunc(builder.lshr(word, _I32(bit)), _I16), kind)
        for word in islice(words, _NEIGHBOURS // 2)
        for bit in (0, 16)
    ]


def _is_plain(load: Operation) -> bool:
    """Return whether an operation loads a number of an array as it is in memory."""
    if load.name != "array.load" or load.attributes.get("hint") is not None:
        return False
    array = load.operands[0].type
    return array.aligned and isinstance(array.dtype, types.Integer | types.Float | types.Boolean)


def _is_short(kind: ir.Type) -> bool:
    return kind == _I16 or isinstance(kind, ir.HalfType)


class _Elements:
    """Computes and stores elements of a part of a tile that is in shared memory."""

    def __init__(
        self,
        writer: TileWriter,
        operation: Operation,
        access: Access,
        memory: ir.Value,
        kind: Any,
        first: tuple[ir.Value, ir.Value],
    ) -> None:
        self._emitter, self._access, self._memory = writer.emitter, access, memory
        self._kind, self._first = writer.emitter.context.get_data_type(kind), first
        self._builder: ir.IRBuilder = access.builder
        (self._region,) = operation.regions
        self._axes = operation.attributes["axes"]
        self._thread = self._builder.and_(writer.code.thread, _I64(WARPGROUP - 1))
        self._loads = loads_of(self._region)
        reads = [each for each in self._loads if each.effect & Effect.READ]
        self._reads = [each for each in reads if "panel" not in each.attributes]
        #: Those from panels, in their order, and the size of a panel.
        self._copied = sorted(
            (each for each in reads if each not in self._reads),
            key=lambda each: each.attributes["panel"],
        )
        self._panel_bytes = operation.attributes["panels"].nbytes if self._copied else 0

    def _own(self) -> Iterator[tuple[ir.Value, ir.Value]]:
        """Return the first one of the thread's neighbours, of all rows."""
        builder = self._builder
        above = builder.udiv(self._thread, _I64(_BESIDE))
        column = builder.mul(builder.urem(self._thread, _I64(_BESIDE)), _I64(_NEIGHBOURS))
        for turn in range(WARPGROUP_ROWS // _TOGETHER):
            yield builder.add(above, _I64(turn * _TOGETHER)), column

    def load(self) -> list[ir.Value]:
        """Load what the function loads for the thread's neighbours of all rows, in words."""
        builder, found = self._builder, []
        for row, column in self._own():
            places = [builder.add(column, _I64(place)) for place in range(_NEIGHBOURS)]
            read = [self._begin(row, place)[1] for place in places]
            for values in zip(*read, strict=True):
                found += _as_words(builder, values)
        return found

    def store_all(self, words: Sequence[ir.Value], panels: Sequence[ir.Value]) -> None:
        """Store the thread's neighbours of all rows, by vectors.

        They are computed with what was loaded for them, and what is in panels at some places.
        """
        builder, access = self._builder, self._access
        left = iter(words)
        first, second = (
            access.parts.element(builder, self._indices(*place, access.starts))
            for place in islice(self._own(), 2)
        )
        apart = builder.sub(*(builder.ptrtoint(each, _I64) for each in (second, first)))
        begin = builder.bitcast(first, ir.IntType(8).as_pointer(first.type.addrspace))
        for turn, (row, column) in enumerate(self._own()):
            read = [_of_words(builder, left, self._in_memory(each)) for each in self._reads]
            copied = self._of_panels(panels, row, column)
            source = self._place(row, column)
            kind = ir.VectorType(self._kind, _NEIGHBOURS)
            results = builder.load(builder.bitcast(source, kind.as_pointer(source.type.addrspace)))
            results.align = _NEIGHBOURS * _ITEM
            stored = []
            for place in range(_NEIGHBOURS):
                value = builder.extract_element(results, _I32(place))
                known = [values[place] for values in read]
                at = builder.add(column, _I64(place))
                begun, _ = self._begin(row, at, known, [each[place] for each in copied])
                stored.append(access.stored(self._end(value, begun)))
            words = _as_words(builder, stored)
            vector: ir.Value = ir.Constant(ir.VectorType(words[0].type, len(words)), ir.Undefined)
            for number, word in enumerate(words):
                vector = builder.insert_element(vector, word, _I32(number))
            wide = vector.type.as_pointer(begin.type.addrspace)
            target = builder.gep(begin, [builder.mul(apart, _I64(turn))])
            nbytes = _NEIGHBOURS * access.item_bytes
            builder.store(vector, builder.bitcast(target, wide)).align = nbytes

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
        of_row = builder.xor(_exchange(builder, row), builder.mul(column, _I64(_ITEM)))
        line = builder.gep(self._memory, [builder.mul(row, _I64(_LINE_BYTES))])
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

    def _of_panels(
        self, places: Sequence[ir.Value], row: ir.Value, column: ir.Value
    ) -> list[list[ir.Value]]:
        """Return the neighbours that each load has in a row of its panels, as integers."""
        builder, found = self._builder, []
        parts = builder.shl(builder.and_(row, _I64(7)), _I64(4))
        for load, place in zip(self._copied, places, strict=True):
            columns = columns_of(load)
            size = ROW_BYTES // columns
            within = builder.mul(builder.urem(column, _I64(columns)), _I64(size))
            at = builder.add(builder.mul(row, _I64(ROW_BYTES)), builder.xor(within, parts))
            panel = builder.mul(builder.udiv(column, _I64(columns)), _I64(self._panel_bytes))
            source = builder.gep(place, [builder.add(panel, at)])
            kind = ir.VectorType(ir.IntType(8 * size), _NEIGHBOURS)
            values = builder.load(builder.bitcast(source, kind.as_pointer(place.type.addrspace)))
            values.align = size * _NEIGHBOURS
            found.append([builder.extract_element(values, _I32(n)) for n in range(_NEIGHBOURS)])
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
