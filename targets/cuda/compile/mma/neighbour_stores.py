"""Write stores of functions of results: in boxes, for pairs of neighbours.

A thread has pairs of neighbours of a product in registers. It computes those of a box with what
the function loads, and writes them to shared memory, from where the box is copied. What the
function loads for the next box is loaded first, so threads do not wait for memory.

Tiles that are not whole are written to shared memory in parts. Then the threads compute element by
element, in a loop, what the array has a place for.

References
----------
CUDA C++ Programming Guide, section "Device Memory Accesses".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llvmlite import ir

from kerneldsl.ir.operations import Operation
from kerneldsl.lowering.loop_marks import NOT_UNROLLED, repeat
from targets.cuda.compile.mma.fragment_stores import PAIR, is_whole
from targets.cuda.compile.mma.fragments import BLOCK_COLUMNS, BLOCK_ROWS, Fragments
from targets.cuda.compile.mma.mapped_stores import CHUNK_COLUMNS, BoxStore
from targets.cuda.compile.mma.panel_reads import Panels
from targets.cuda.compile.mma.result_elements import (
    LINE_BYTES,
    RESULT_BYTES,
    Elements,
    PairWords,
    exchange_lines,
)
from targets.cuda.compile.mma.wgmma import WARPGROUP, WARPGROUP_ROWS
from targets.cuda.compile.tiles.elements import OperationCode
from targets.cuda.compile.tiles.memory import Access, write_store
from targets.cuda.intrinsics.by_architecture import call_by_architecture

if TYPE_CHECKING:
    from targets.cuda.compile.mma.boxes import BoxWriter
    from targets.cuda.compile.mma.warpgroup_writer import Ring
    from targets.cuda.compile.tiles.writer import Storage, TileWriter

__all__ = ["store_neighbours"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
#: Results of a part that a thread has.
_RESULTS = WARPGROUP_ROWS * CHUNK_COLUMNS // WARPGROUP


def store_neighbours(
    writer: TileWriter, operation: Operation, ring: Ring, boxes: BoxWriter
) -> None:
    """Write such a store, through the boxes of this warpgroup in shared memory."""
    tile = _stored_tile(writer, operation, ring)
    panels: Panels | None = operation.attributes.get("panels")
    if tile is None:
        _pass_panels(ring, panels)
        write_store(writer, operation)
        return
    builder = writer.code.builder
    with builder.if_else(tile.is_whole()) as (whole, part):
        with whole:
            _store_boxes(tile, panels, boxes)
        with part:
            _pass_panels(ring, panels)
            boxes.take(builder, 0)
            with repeat(builder, tile.count, NOT_UNROLLED) as (number, _, _):
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


def _store_boxes(tile: _StoredTile, panels: Panels | None, boxes: BoxWriter) -> None:
    """Store a whole tile."""
    words = tile.elements_of_box(0).load()
    copied = _Copied(tile, panels)
    for number in range(tile.box_count):
        # A part is computed while what the next one needs is loaded.
        is_last = number + 1 == tile.box_count
        following = [] if is_last else tile.elements_of_box(number + 1).load()
        boxes.take(tile.builder, number)
        tile.write_box(number, words, copied, boxes.place(tile.builder, number))
        boxes.send(tile.access, tile.place_of_box(number), number)
        words = following


class _Copied:
    """Reads of the panels of a tile, part by part.

    A part is read before the one before it is computed. So slots are soon free for factors.
    """

    def __init__(self, tile: _StoredTile, panels: Panels | None) -> None:
        self._tile, self._slots = tile, iter(panels.slots if panels else ())
        self._panels, self._words = panels, list[PairWords]()

    def of(self, part: int) -> PairWords:
        """Return what pairs of a part read."""
        if self._panels is None:
            return []
        pairs = 2 * CHUNK_COLUMNS // BLOCK_COLUMNS
        while len(self._words) < min(part + 2, self._panels.count) * pairs:
            for each in next(self._slots):
                places = self._tile.ring.panels_of(self._panels, each)
                self._words += self._tile.elements(_I64(each)).read_panels(places)
            self._tile.ring.free_panels()
        return self._words[part * pairs :][:pairs]


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
        self.source, self._layout, self.access = source, layout, access
        self._memory, self.builder = ring.boxes(), access.builder
        boxes: BoxStore = operation.attributes["boxes"]
        self._box_columns = boxes.row_elements

    @property
    def count(self) -> int:
        """Number of parts."""
        return self._layout.row_blocks * self._slices

    @property
    def _slices(self) -> int:
        return self._layout.columns // CHUNK_COLUMNS

    def is_whole(self) -> ir.Value:
        """Say whether the array has all elements of the tile."""
        return is_whole(self.access, self._layout)

    @property
    def box_count(self) -> int:
        """Number of boxes of a warpgroup."""
        return self._layout.row_blocks * self._layout.columns // self._box_columns

    def place_of_box(self, number: int) -> tuple[int, int]:
        """Return the block of rows of a box, and its first column."""
        block, column = divmod(number, self._layout.columns // self._box_columns)
        return block, column * self._box_columns

    def elements(self, number: ir.Value) -> Elements:
        """Return the elements of a part."""
        builder, slices = self.builder, _I64(self._slices)
        block, column = builder.udiv(number, slices), builder.urem(number, slices)
        return self._elements(block, builder.mul(column, _I64(CHUNK_COLUMNS)))

    def elements_of_box(self, number: int) -> Elements:
        """Return the elements of a box."""
        block, column = map(_I64, self.place_of_box(number))
        return self._elements(block, column, self._box_columns)

    def _elements(
        self, block: ir.Value, column: ir.Value, columns: int = CHUNK_COLUMNS
    ) -> Elements:
        builder = self.builder
        row = builder.add(
            builder.mul(block, _I64(WARPGROUP_ROWS * self.ring.sharing)),
            builder.mul(builder.zext(self.ring.sharer, _I64), _I64(WARPGROUP_ROWS)),
        )
        about = (self._writer, self._operation, self.access, self._memory)
        return Elements(*about, self.source.kind, (row, column), columns)

    def write_box(
        self, number: int, words: Sequence[ir.Value], copied: _Copied, memory: ir.Value
    ) -> None:
        """Compute the thread's pairs of a box, and write them to shared memory."""
        elements, left = self.elements_of_box(number), iter(words)
        block, first = self.place_of_box(number)
        for beside in range(self._box_columns // BLOCK_COLUMNS):
            column = first + beside * BLOCK_COLUMNS
            read = copied.of(block * self._slices + column // CHUNK_COLUMNS)
            slot = self._layout.first(block, column // BLOCK_COLUMNS)
            for half in range(2):
                results = [
                    self.source.memory.get(_I64(slot + PAIR * half + place))
                    for place in range(PAIR)
                ]
                pair = column % CHUNK_COLUMNS // BLOCK_COLUMNS * 2 + half
                elements.write_pair((beside, half), results, left, read[pair:], memory)

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
        own = builder.gep(self._memory, [builder.mul(line, _I64(LINE_BYTES))])
        exchanged = builder.xor(
            exchange_lines(builder, row), builder.mul(place, _I64(PAIR * RESULT_BYTES))
        )
        for number in range(0, _RESULTS, PAIR):
            block, half = divmod(number // PAIR, 2)
            target = builder.gep(
                own, [builder.xor(exchanged, _I64(BLOCK_COLUMNS * RESULT_BYTES * block))]
            )
            at = builder.gep(target, [_I64(half * BLOCK_ROWS // 2 * LINE_BYTES)])
            _store_pair(builder, results[number : number + PAIR], at)


def _store_pair(builder: ir.IRBuilder, values: Sequence[ir.Value], place: ir.Value) -> None:
    """Store two results. LLVM does not join these stores of several parts, which costs moves."""
    words = [builder.bitcast(each, _I32) for each in values]
    call_by_architecture(builder, "matrix_store_pair", ir.VoidType(), [place, *words])
