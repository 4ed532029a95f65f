"""Copies of boxes, by tensor maps: of factors to shared memory, and of results from there.

For results, a warpgroup has some boxes of shared memory, which it takes in turn. Before it writes
one, the thread that begins copies waits until the copy before has read it. Before it is copied, all
threads have written to it, with a fence before the copies. In shared memory, 16-byte parts of rows
are exchanged, so the lanes of a warp write to different banks.

References
----------
PTX ISA, sections "cp.async.bulk.tensor", "prefetch", "cp.async.bulk.wait_group" and
"membar/fence.proxy".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING

from llvmlite import ir

from kerneldsl.ir.tiles.elements import Slot
from targets.cuda.compile.mma.fragment_stores import PAIR, pair_of
from targets.cuda.compile.mma.fragments import BLOCK_COLUMNS, BLOCK_ROWS, Fragments
from targets.cuda.compile.mma.mapped_stores import BOX_BYTES, BoxStore
from targets.cuda.compile.mma.wgmma import ROW_BYTES, WARPGROUP, WARPGROUP_ROWS
from targets.cuda.intrinsics.synchronize import call_nvvm

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.memory import Access

__all__ = ["BoxWriter", "copy_box", "meet", "prefetch_map", "wait_for_copies"]

_VOID, _I1, _I32, _I64 = ir.VoidType(), *(ir.IntType(bits) for bits in (1, 32, 64))
#: Number of the first barrier of a warpgroup. Lower ones are of the block and of all warpgroups.
_FIRST_BARRIER = 2
#: Lanes with a row of a fragment, by its bits.
_ROW_BITS = 2


class BoxWriter:
    """Writes the boxes of one store.

    Parameters
    ----------
    memory : ir.Value
        Address of the boxes of this warpgroup in shared memory.
    boxes : int
        How many there are.
    wait : callable
        Lets the threads of this warpgroup wait for each other.
    sharer : ir.Value
        Number of the warpgroup among those of the tile, of 32 bits.
    sharing : int
        How many have a part of the tile.
    store : BoxStore
        The store.
    tensor_map : ir.Value
        Its map.
    before : sequence of ir.Value
        Place of the boxes along the axes of the map after the second one.
    """

    def __init__(
        self,
        memory: ir.Value,
        boxes: int,
        wait: Callable[[], None],
        sharer: ir.Value,
        sharing: int,
        store: BoxStore,
        tensor_map: ir.Value,
        before: Sequence[ir.Value],
    ) -> None:
        self._memory, self._boxes = memory, boxes
        self._meet, self._sharer, self._sharing = wait, sharer, sharing
        self._store, self._tensor_map, self._before = store, tensor_map, before
        #: The first row of this warpgroup, and how many it has, if each tests its own.
        self.rows: tuple[ir.Value, int] | None = None

    def __call__(
        self, access: Access, layout: Fragments, value: Callable[[Slot], ir.Value]
    ) -> None:
        """Store a whole tile."""
        builder = access.builder
        blocks = self._store.row_elements // BLOCK_COLUMNS
        slices = layout.column_blocks // blocks
        for number, (row_block, column) in enumerate(
            product(range(layout.row_blocks), range(slices))
        ):
            self.take(builder, number)
            about = (row_block, column * blocks, blocks)
            self._write(access, layout, value, about, self.place(builder, number))
            self.send(access, (row_block, column * self._store.row_elements), number)

    def take(self, builder: ir.IRBuilder, number: int) -> None:
        """Wait until a box can be written."""
        if number == 0 or number >= self._boxes:
            with builder.if_then(self._is_first(builder)):
                wait_for_copies(builder, self._boxes - 1 if number else 0)
            self._meet()

    def place(self, builder: ir.IRBuilder, number: int) -> ir.Value:
        """Return where a box is in shared memory."""
        return builder.gep(self._memory, [_I64(number % self._boxes * BOX_BYTES)])

    def send(self, access: Access, place: tuple[int, int], number: int) -> None:
        """Begin to copy a box that was written: its block of rows, and its first column."""
        builder = access.builder
        call_nvvm(builder, "fence.proxy.async.shared_cta", _VOID, [])
        self._meet()
        with builder.if_then(self._is_first(builder)):
            self._copy(builder, access.starts, place, self.place(builder, number))

    def _is_first(self, builder: ir.IRBuilder) -> ir.Value:
        thread = call_nvvm(builder, "read.ptx.sreg.tid.x", _I32, [])
        return builder.icmp_unsigned("==", builder.and_(thread, _I32(WARPGROUP - 1)), _I32(0))

    def _write(
        self,
        access: Access,
        layout: Fragments,
        value: Callable[[Slot], ir.Value],
        about: tuple[int, int, int],
        memory: ir.Value,
    ) -> None:
        """Write the thread's elements of a box to shared memory."""
        builder, code = access.builder, access.thread
        row_block, first_block, blocks = about
        pair_bytes = PAIR * access.item_bytes
        lane = builder.and_(code.thread, _I64(31))
        warp = builder.and_(builder.lshr(code.thread, _I64(5)), _I64(3))
        row, place = builder.lshr(lane, _I64(_ROW_BITS)), builder.and_(lane, _I64(3))
        line = builder.add(builder.mul(warp, _I64(BLOCK_ROWS)), row)
        own = builder.gep(memory, [builder.mul(line, _I64(ROW_BYTES))])
        exchanged = builder.xor(builder.shl(row, _I64(4)), builder.mul(place, _I64(pair_bytes)))
        first = layout.first(row_block, first_block)
        with code.unrolled(2 * blocks) as number:
            half, block = builder.urem(number, _I64(2)), builder.udiv(number, _I64(2))
            slot = builder.add(builder.mul(number, _I64(PAIR)), _I64(first))
            indices = layout.indices(builder, code.thread, slot)
            vector = pair_of(access, layout, value, slot, indices)
            of_row = builder.xor(
                exchanged, builder.mul(block, _I64(BLOCK_COLUMNS * access.item_bytes))
            )
            rows = builder.mul(half, _I64(BLOCK_ROWS // 2 * ROW_BYTES))
            target = builder.gep(builder.gep(own, [of_row]), [rows])
            kind = vector.type.as_pointer(target.type.addrspace)
            builder.store(vector, builder.bitcast(target, kind)).align = pair_bytes

    def _copy(
        self,
        builder: ir.IRBuilder,
        starts: Sequence[ir.Value],
        place: tuple[int, int],
        source: ir.Value,
    ) -> None:
        """Begin to copy a box to the array."""
        row_block, column = place
        own = builder.mul(self._sharer, _I32(WARPGROUP_ROWS))
        rows = row_block * WARPGROUP_ROWS * self._sharing
        row = builder.add(builder.add(builder.trunc(starts[0], _I32), own), _I32(rows))
        at = [builder.add(builder.trunc(starts[1], _I32), _I32(column)), row]
        at += [builder.trunc(each, _I32) for each in self._before]
        tensor_map = builder.bitcast(self._tensor_map, ir.IntType(8).as_pointer())
        name = f"cp.async.bulk.tensor.s2g.tile.{len(at)}d"
        call_nvvm(builder, name, _VOID, [source, tensor_map, *at, _I64(0), _I1(0)])
        call_nvvm(builder, "cp.async.bulk.commit.group", _VOID, [])


def meet(builder: ir.IRBuilder, warpgroup: ir.Value) -> None:
    """Let the threads of a warpgroup wait for each other."""
    number = builder.add(warpgroup, _I32(_FIRST_BARRIER))
    arguments = [number, _I32(WARPGROUP)]
    call_nvvm(builder, "barrier.cta.sync.aligned.count", _VOID, arguments)


def wait_for_copies(builder: ir.IRBuilder, pending: int) -> None:
    """Wait until all but some of this thread's copies have read shared memory."""
    call_nvvm(builder, "cp.async.bulk.wait.group.read", _VOID, [_I32(pending)])


_VOID, _I1, _I16, _I32, _I64 = ir.VoidType(), *(ir.IntType(n) for n in (1, 16, 32, 64))
_LOWEST, _HIGHEST = -(2**31), 2**31 - 1
#: LLVM's number for the shared memory of a cluster.
_CLUSTER_SPACE = 7


def prefetch_map(builder: ir.IRBuilder, tensor_map: ir.Value) -> None:
    """Load a tensor map before the first copy by it."""
    tensor_map = builder.bitcast(tensor_map, ir.IntType(8).as_pointer())
    call_nvvm(builder, "prefetch.tensormap.p0", _VOID, [tensor_map])


def copy_box(
    builder: ir.IRBuilder,
    target: ir.Value,
    barrier: ir.Value,
    tensor_map: ir.Value,
    place: Sequence[ir.Value],
) -> None:
    """Begin to copy a box to shared memory; the barrier counts its bytes when it is there.

    `place` is the index of its first element along each axis of the map, of 64 bits. Elements
    beyond the bounds of the array become zeros.
    """
    byte = ir.IntType(8)
    shared = builder.addrspacecast(target, byte.as_pointer(_CLUSTER_SPACE))
    tensor_map = builder.bitcast(tensor_map, byte.as_pointer())
    indices = [builder.trunc(_clamped(builder, each), _I32) for each in place]
    no_more = [_I16(0), _I64(0), _I1(0), _I1(0), _I32(0)]
    name = f"cp.async.bulk.tensor.g2s.tile.{len(indices)}d"
    call_nvvm(builder, name, _VOID, [shared, barrier, tensor_map, *indices, *no_more])


def _clamped(builder: ir.IRBuilder, index: ir.Value) -> ir.Value:
    """Return an index in the range of 32 bits. No array with a map has elements beyond it."""
    index = builder.select(builder.icmp_signed("<", index, _I64(_LOWEST)), _I64(_LOWEST), index)
    return builder.select(builder.icmp_signed(">", index, _I64(_HIGHEST)), _I64(_HIGHEST), index)
