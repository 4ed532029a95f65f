"""Write stores of functions of results: through shared memory, in a loop over neighbours.

A thread has elements of a product that are far from each other, all in registers. A function of
each would be as much code as there are elements, and load what it reads element by element. So the
threads of a warpgroup write 64 rows and columns of results to shared memory at a time. Then each
thread computes four neighbours of some rows. What the function loads for them is loaded first, so
LLVM loads neighbours by one instruction, and several rows wait for memory together.

References
----------
CUDA C++ Programming Guide, section "Device Memory Accesses".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from kerneldsl.ir.operations import Effect, Operation, Region, Value
from kerneldsl.lowering.loop_marks import NOT_UNROLLED, mark_loop
from targets.cuda.compile.mma.fragment_stores import PAIR, is_whole
from targets.cuda.compile.mma.fragments import BLOCK_COLUMNS, BLOCK_ROWS, Fragments
from targets.cuda.compile.mma.mapped_stores import CHUNK_COLUMNS
from targets.cuda.compile.mma.wgmma import WARPGROUP, WARPGROUP_ROWS
from targets.cuda.compile.tiles.elements import OperationCode
from targets.cuda.compile.tiles.memory import Access, write_store
from targets.cuda.intrinsics.synchronize import call_nvvm

if TYPE_CHECKING:
    from targets.cuda.compile.mma.warpgroup_writer import Ring
    from targets.cuda.compile.tiles.writer import TileWriter

__all__ = ["early_reads", "prefetch_reads", "store_neighbours"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
#: Bytes that the second-level cache loads together.
_CACHE_LINE = 128
#: Most elements along k, so that they stay there. On an H200 8192 x 8192 results with GELU and a
#: residual take 12 % less time for 512 elements, and 2 % for 2048. For 8192 they take 1 % more.
_DEEPEST = 4096
#: Bytes of a result, and neighbours that a thread has in a row.
_ITEM, _NEIGHBOURS = 4, 4
_LINE_BYTES = CHUNK_COLUMNS * _ITEM
#: Threads beside each other in a row, and rows of a warpgroup's threads.
_BESIDE = CHUNK_COLUMNS // _NEIGHBOURS
_TOGETHER = WARPGROUP // _BESIDE


def store_neighbours(
    writer: TileWriter, operation: Operation, ring: Ring, memory: ir.Value
) -> None:
    """Write such a store, with boxes of this warpgroup at an address of shared memory."""
    code = OperationCode(writer, operation)
    source, layout = code.tile(code.tiles[0]), code.layout
    sharing = ring.sharing
    if (
        not isinstance(layout, Fragments)
        or source.is_shared
        or layout.row_warps != WARPGROUP // 32 * sharing
        or layout.column_warps > 1
    ):
        write_store(writer, operation)
        return
    array, *at = operation.operands[:3]
    access = Access(writer, code, array, at)
    builder, wide = access.builder, is_whole(access, layout)
    slices = layout.columns // CHUNK_COLUMNS
    with _repeated(builder, layout.row_blocks * slices) as number:
        ring.meet()
        _write_parts(builder, number, source.memory, layout, memory, writer.code.thread)
        ring.meet()
        block, column = builder.udiv(number, _I64(slices)), builder.urem(number, _I64(slices))
        row = builder.add(
            builder.mul(block, _I64(WARPGROUP_ROWS * sharing)),
            builder.mul(builder.zext(ring.sharer, _I64), _I64(WARPGROUP_ROWS)),
        )
        first = (row, builder.mul(column, _I64(CHUNK_COLUMNS)))
        elements = _Elements(writer, operation, access, memory, source.kind, first)
        with builder.if_else(wide) as (whole, part):
            with whole:
                elements.store_all()
            with part, _repeated(builder, WARPGROUP_ROWS * CHUNK_COLUMNS // WARPGROUP) as turn:
                elements.store_inside(turn)


def early_reads(store: Operation) -> list[Operation]:
    """Return what loads from matrices for elements of a tile, at places that are known before."""
    found = _loads_of(store.regions[0])
    loaded = {each.result for each in found if each.effect & Effect.READ}
    if any(not loaded.isdisjoint(each.operands) for each in found):
        return []
    return [each for each in found if each.name == "array.load" and len(each.operands) > 2]


def prefetch_reads(writer: TileWriter, store: Operation, ring: Ring, depth: ir.Value) -> None:
    """Bring what a function of results reads to the second-level cache, before the products.

    The assembler puts the function's loads between its computations, where threads wait for them.
    The loop over k goes through `depth` elements.
    """
    code, wanted = OperationCode(writer, store), early_reads(store)
    array, *at = store.operands[:3]
    access, emitter, layout = Access(writer, code, array, at), writer.emitter, code.layout
    if not isinstance(layout, Fragments):
        return
    builder = access.builder
    thread = builder.and_(writer.code.thread, _I64(WARPGROUP - 1))
    own = builder.mul(builder.zext(ring.sharer, _I64), _I64(WARPGROUP_ROWS))
    is_soon = builder.icmp_signed("<=", depth, depth.type(_DEEPEST))
    with builder.if_then(builder.and_(is_whole(access, layout), is_soon)):
        for each in wanted:
            size = emitter.context.get_abi_sizeof(emitter.context.get_data_type(each.result.type))
            beside = max(1, layout.columns * size // _CACHE_LINE)
            for turn in range(layout.row_blocks * WARPGROUP_ROWS * beside // WARPGROUP):
                number = builder.add(thread, _I64(turn * WARPGROUP))
                line = builder.udiv(number, _I64(beside))
                block = builder.udiv(line, _I64(WARPGROUP_ROWS))
                row = builder.add(
                    builder.add(own, builder.urem(line, _I64(WARPGROUP_ROWS))),
                    builder.mul(block, _I64(WARPGROUP_ROWS * ring.sharing)),
                )
                place = builder.urem(number, _I64(beside))
                column = builder.mul(place, _I64(layout.columns // beside))
                _prefetch(writer, store, each, (row, column))


def _prefetch(
    writer: TileWriter, store: Operation, load: Operation, at: tuple[ir.Value, ir.Value]
) -> None:
    """Bring the line of an element to the second-level cache."""
    emitter, (region,) = writer.emitter, store.regions
    indices = (at[axis] for axis in store.attributes["axes"])
    emitter.values.update(zip(region.arguments[1:], indices, strict=True))
    before = [each for each in _loads_of(region) if not each.effect & Effect.READ]
    emitter.operations(before)
    array, *values = load.operands
    builder, parts = emitter.builder, emitter.get(array)
    element = parts.element(builder, emitter.indices(parts, load, values))
    address = builder.bitcast(element, ir.IntType(8).as_pointer(element.type.addrspace))
    if element.type.addrspace:
        address = builder.addrspacecast(address, ir.IntType(8).as_pointer())
    call_nvvm(builder, "prefetch.L2", ir.VoidType(), [address])


@contextmanager
def _repeated(builder: ir.IRBuilder, count: int) -> Iterator[ir.Value]:
    """Repeat code for each number below a count, in a loop that stays one."""
    before = builder.block
    body, end = (builder.append_basic_block(f"parts.{each}") for each in ("body", "end"))
    builder.branch(body)
    builder.position_at_end(body)
    number = builder.phi(_I64)
    number.add_incoming(_I64(0), before)
    yield number
    following = builder.add(number, _I64(1), flags=("nuw", "nsw"))
    number.add_incoming(following, builder.block)
    mark_loop(builder, NOT_UNROLLED)
    builder.cbranch(builder.icmp_unsigned("<", following, _I64(count)), body, end)
    builder.position_at_end(end)


def _write_parts(
    builder: ir.IRBuilder,
    number: ir.Value,
    source: Any,
    layout: Fragments,
    memory: ir.Value,
    thread: ir.Value,
) -> None:
    """Write the thread's results of one part of the tile to shared memory."""
    lane, warp = (
        builder.and_(thread, _I64(31)),
        builder.and_(builder.lshr(thread, _I64(5)), _I64(3)),
    )
    row, place = builder.lshr(lane, _I64(2)), builder.and_(lane, _I64(3))
    line = builder.add(builder.mul(warp, _I64(BLOCK_ROWS)), row)
    own = builder.gep(memory, [builder.mul(line, _I64(_LINE_BYTES))])
    exchanged = builder.xor(_exchange(builder, row), builder.mul(place, _I64(PAIR * _ITEM)))
    blocks = CHUNK_COLUMNS // BLOCK_COLUMNS
    slices = layout.columns // CHUNK_COLUMNS
    end, wrong = (builder.append_basic_block(f"written.{each}") for each in ("end", "not"))
    choice = builder.switch(number, wrong)
    for part in range(layout.row_blocks * slices):
        chosen = builder.append_basic_block(f"written.{part}")
        choice.add_case(_I64(part), chosen)
        builder.position_at_end(chosen)
        first = layout.first(part // slices, part % slices * blocks)
        for block in range(blocks):
            target = builder.gep(own, [builder.xor(exchanged, _I64(BLOCK_COLUMNS * _ITEM * block))])
            for half in range(2):
                slot = first + 4 * block + PAIR * half
                values = [source.get(_I64(slot + each)) for each in range(PAIR)]
                pair: ir.Value = ir.Constant(ir.VectorType(values[0].type, PAIR), ir.Undefined)
                for each, value in enumerate(values):
                    pair = builder.insert_element(pair, value, _I32(each))
                place = builder.gep(target, [_I64(half * BLOCK_ROWS // 2 * _LINE_BYTES)])
                kind = pair.type.as_pointer(place.type.addrspace)
                builder.store(pair, builder.bitcast(place, kind)).align = PAIR * _ITEM
        builder.branch(end)
    builder.position_at_end(wrong)
    builder.unreachable()
    builder.position_at_end(end)


def _exchange(builder: ir.IRBuilder, row: ir.Value) -> ir.Value:
    """Return by what the place of a byte in a row changes, so that rows have different banks."""
    return builder.shl(builder.and_(row, _I64(7)), _I64(5))


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
        self._loads = _loads_of(self._region)

    def store_all(self) -> None:
        """Store the thread's neighbours of all rows, by vectors."""
        builder, access = self._builder, self._access
        above = builder.udiv(self._thread, _I64(_BESIDE))
        column = builder.mul(builder.urem(self._thread, _I64(_BESIDE)), _I64(_NEIGHBOURS))
        found = []
        for turn in range(WARPGROUP_ROWS // _TOGETHER):
            row = builder.add(above, _I64(turn * _TOGETHER))
            for place in range(_NEIGHBOURS):
                at = builder.add(column, _I64(place))
                found.append(self._begin(row, at))
        for turn in range(WARPGROUP_ROWS // _TOGETHER):
            row = builder.add(above, _I64(turn * _TOGETHER))
            source = self._place(row, column)
            kind = ir.VectorType(self._kind, _NEIGHBOURS)
            results = builder.load(builder.bitcast(source, kind.as_pointer(source.type.addrspace)))
            results.align = _NEIGHBOURS * _ITEM
            vector: ir.Value = None
            for place in range(_NEIGHBOURS):
                value = builder.extract_element(results, _I32(place))
                begun = found[turn * _NEIGHBOURS + place]
                stored = access.stored(self._end(value, begun))
                if vector is None:
                    vector = ir.Constant(ir.VectorType(stored.type, _NEIGHBOURS), ir.Undefined)
                vector = builder.insert_element(vector, stored, _I32(place))
            target = access.parts.element(builder, self._indices(row, column, access.starts))
            wide = vector.type.as_pointer(target.type.addrspace)
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
            stored = access.stored(self._end(value, self._begin(row, column)))
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

    def _begin(self, row: ir.Value, column: ir.Value) -> dict[Value, Any]:
        """Load what the function loads for an element; return the values that it has then."""
        emitter, arguments = self._emitter, self._region.arguments
        indices = self._in_tile(row, column)
        given = dict(zip(arguments[1:], (indices[axis] for axis in self._axes), strict=True))
        emitter.values.update(given)
        emitter.operations(self._loads)
        made = {value: emitter.values[value] for each in self._loads for value in each.results}
        return given | made

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


def _loads_of(region: Region) -> list[Operation]:
    """Return loads that do not depend on the result, and what they depend on, in their order."""
    late = {region.arguments[0]}
    for operation in region.operations:
        if not late.isdisjoint(operation.used()):
            late.update(operation.results)
    wanted: set[Value] = set()
    found = []
    for operation in reversed(region.operations[:-1]):
        is_early = late.isdisjoint(operation.results) and late.isdisjoint(operation.used())
        is_load = bool(operation.effects() & Effect.READ) and not operation.regions
        if is_early and (is_load or not wanted.isdisjoint(operation.results)):
            found.append(operation)
            wanted.update(operation.used())
    return found[::-1]
