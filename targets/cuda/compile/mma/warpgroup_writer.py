"""Write the rings of copies of a kernel, and the products of what is in it.

References
----------
PTX ISA, sections "mbarrier", "setmaxnreg" and "barrier".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, product
from typing import TYPE_CHECKING

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.ir.operations import Operation
from kerneldsl.ir.tiles.elements import Variable, write_place
from targets.cuda.compile.mma import mbarriers, wgmma
from targets.cuda.compile.mma.boxes import BoxWriter, copy_box, meet, prefetch_map, wait_for_copies
from targets.cuda.compile.mma.mapped_loads import end_of, whole_of
from targets.cuda.compile.mma.mapped_stores import BOX_BYTES, CHUNK_COLUMNS, BoxStore
from targets.cuda.compile.mma.mbarriers import SlotTurns, write_turn
from targets.cuda.compile.mma.neighbour_stores import store_neighbours
from targets.cuda.compile.mma.panel_reads import Panels
from targets.cuda.compile.mma.products import OwnRows
from targets.cuda.compile.mma.result_reads import prefetch_reads
from targets.cuda.compile.mma.ring_products import Products
from targets.cuda.compile.mma.tile_order import place_in_groups
from targets.cuda.compile.mma.warpgroup_plan import RING_ALIGNMENT, Part, WarpgroupPlan
from targets.cuda.compile.ptx_lines import MATRIX_SHARED
from targets.cuda.compile.tiles.memory import write_store
from targets.cuda.intrinsics.memory import SHARED_SPACE
from targets.cuda.intrinsics.synchronize import call_nvvm, shuffle

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.writer import TileWriter

__all__ = ["Ring"]

_VOID = ir.VoidType()
_I1, _I8, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_ALL_LANES = _I32(0xFFFFFFFF)


class Ring(Products):
    """Writes the operations of rings.

    Parameters
    ----------
    writer : TileWriter
        Writes the tiles.
    plan : WarpgroupPlan
        The plan of the kernel.
    maps : sequence of ir.Value
        Its tensor maps, which are parameters.
    """

    def __init__(self, writer: TileWriter, plan: WarpgroupPlan, maps: Sequence[ir.Value]) -> None:
        super().__init__(writer, plan)
        self._maps = maps
        builder = self._builder
        memory = cgutils.add_global_variable(
            builder.module,
            ir.ArrayType(_I8, 0),
            f"{MATRIX_SHARED}{plan.shared_bytes}",
            addrspace=SHARED_SPACE,
        )
        memory.linkage, memory.align = "external", RING_ALIGNMENT
        self._memory = builder.bitcast(memory, _I8.as_pointer(SHARED_SPACE))
        # All slots are free before the first iteration.
        writer.code.waiting = plan.threads
        #: Turns of the slots, by the number of the ring.
        self._copied = [SlotTurns(builder, ring.slots, 1) for ring in plan.rings]
        self._received = [SlotTurns(builder, ring.slots, 0) for ring in plan.rings]
        self._places, self._boxes_place = _places(plan)
        self._barriers: list[ir.Value] = [None] * len(plan.rings)
        #: Number of the warpgroup.
        self.warpgroup: ir.Value = None
        #: Tiles of other warpgroups before the next one of this.
        self._passed = Variable(builder, _I32(0))
        if plan.sharing < plan.warpgroups:
            writer.code.meet = self.meet
        #: Whether the slot is freed by the end of products that still run.
        self._is_pending = Variable(builder, _I1(0))
        self.handlers = {
            "ring.begin": self._begin,
            "ring.produce": self._produce,
            "ring.multiply": self._multiply_here,
            "ring.tile": self._tile,
            "ring.reserve": self._reserve,
            "ring.copy": self._copy,
            "ring.panels": self._copy_panels,
            "ring.next": self._next,
            "ring.receive": self._receive,
            "ring.release": self._release,
            "ring.drain": self._drain,
            "ring.any": self._any,
            "ring.following": self._following,
            "ring.await": self._await,
            "ring.stored": lambda operation: wait_for_copies(builder, 0),
            "tile.store": self._store,
            "ring.prefetch": self._prefetch,
            "ring.turn": self._turn,
            "ring.rows": self._find_rows,
            "ring.taken": self._take,
            "ring.pass": self._pass,
            "tile.part": self._part,
            "tile.line": self._line,
            "tile.words": self._words,
            "tile.mma": self._multiply,
        }

    # -- memory -----------------------------------------------------------------------------------

    def _at(self, offset: ir.Value | int) -> ir.Value:
        number = _I32(offset) if isinstance(offset, int) else offset
        return self._builder.gep(self._memory, [number])

    def _full(self, ring: int, slot: ir.Value | int) -> ir.Value:
        """Return the barrier that says that copies are there."""
        return self._at(self._barrier_place(slot, self._places[ring][1]))

    def _empty(self, ring: int, slot: ir.Value | int) -> ir.Value:
        """Return the barrier that says that nothing reads a slot any more."""
        start = self._places[ring][1] + mbarriers.BARRIER_BYTES * self._plan.rings[ring].slots
        return self._at(self._barrier_place(slot, start))

    def _barrier_place(self, slot: ir.Value | int, start: int) -> ir.Value | int:
        if isinstance(slot, int):
            return start + mbarriers.BARRIER_BYTES * slot
        return self._builder.add(
            self._builder.mul(slot, _I32(mbarriers.BARRIER_BYTES)), _I32(start)
        )

    # -- the threads ------------------------------------------------------------------------------

    def _begin(self, operation: Operation) -> None:
        """Make the barriers; say whether this thread is the producer."""
        builder, plan = self._builder, self._plan
        thread = call_nvvm(builder, "read.ptx.sreg.tid.x", _I32, [])
        with builder.if_then(builder.icmp_unsigned("==", thread, _I32(0))):
            for each in self._maps:
                prefetch_map(builder, each)
            for number, ring in enumerate(plan.rings):
                for slot in range(ring.slots):
                    mbarriers.initialize(builder, self._full(number, slot), 1)
                    mbarriers.initialize(builder, self._empty(number, slot), plan.sharing)
            mbarriers.make_visible(builder)
        # Nothing in memory was accessed so far. A kernel after this one may start when all blocks
        # have, and waits for their end.
        call_nvvm(builder, "griddepcontrol.wait", _VOID, [])
        call_nvvm(builder, "griddepcontrol.launch.dependents", _VOID, [])
        call_nvvm(builder, "barrier.cta.sync.aligned.all", _VOID, [_I32(0)])
        is_added = builder.icmp_unsigned(">=", thread, _I32(plan.threads))
        self._writer.emitter.set(operation, is_added)

    def _produce(self, operation: Operation) -> None:
        """Begin the code of the producer, which is one of the threads that were added."""
        builder, plan = self._builder, self._plan
        if plan.registers is not None:
            _set_registers(builder, "dec", plan.registers[0])
        thread = call_nvvm(builder, "read.ptx.sreg.tid.x", _I32, [])
        with builder.if_then(builder.icmp_unsigned("!=", thread, _I32(plan.threads))):
            builder.ret_void()

    def _multiply_here(self, operation: Operation) -> None:
        """Begin the code of the declared threads."""
        builder = self._builder
        if self._plan.registers is not None:
            _set_registers(builder, "inc", self._plan.registers[1])
        thread = call_nvvm(builder, "read.ptx.sreg.tid.x", _I32, [])
        number = builder.udiv(thread, _I32(wgmma.WARPGROUP))
        # A value that comes from one lane is known to the assembler to be uniform in the warp.
        self.warpgroup = shuffle(builder, "idx", _ALL_LANES, number, _I32(0))
        self.sharer = _I32(0) if self._plan.sharing < self._plan.warpgroups else self.warpgroup

    def _take(self, operation: Operation) -> None:
        """Return the first tile of this warpgroup, and the distance to the next one."""
        builder, emitter = self._builder, self._writer.emitter
        start, step = map(emitter.get, operation.operands)
        number = builder.zext(self.warpgroup, step.type)
        first = builder.add(start, builder.mul(number, step))
        distance = builder.mul(step, step.type(self._plan.warpgroups))
        emitter.values |= dict(zip(operation.results, (first, distance), strict=True))
        self._passed.set(self.warpgroup)

    def _pass(self, operation: Operation) -> None:
        """Go past the slots of the tiles of others, which have as many iterations."""
        builder = self._builder
        start, stop, step = map(self._writer.emitter.get, operation.operands)
        is_any = builder.icmp_signed("<", start, stop)
        last = builder.sub(builder.sub(stop, start), step.type(1))
        count = builder.add(builder.sdiv(last, step), step.type(1))
        turns = builder.trunc(builder.select(is_any, count, step.type(0)), _I32)
        passed = builder.mul(turns, self._passed.get())
        self._received[operation.attributes["ring"]].go_past(passed)
        self._passed.set(_I32(self._plan.warpgroups - 1))

    def _tile(self, operation: Operation) -> None:
        emitter = self._writer.emitter
        number, height, width = (emitter.get(each) for each in operation.operands)
        group = operation.attributes["group"]
        found = place_in_groups(self._builder, number, height, width, group)
        for result, place in zip(operation.results, found, strict=True):
            emitter.values[result] = place

    def _reserve(self, operation: Operation) -> None:
        number: int = operation.attributes["ring"]
        self._take_slot(number, self._plan.rings[number].copied_bytes)

    def _take_slot(self, number: int, nbytes: int) -> None:
        """Wait until the next slot is free, and say how many bytes are copied into it."""
        slot = self._copied[number].slot
        mbarriers.wait_for(self._builder, self._empty(number, slot), self._copied[number].parity)
        self._barriers[number] = self._full(number, slot)
        mbarriers.expect_bytes(self._builder, self._barriers[number], nbytes)
        self._slots[number] = self._slot_place(number, slot)

    def _slot_place(self, ring: int, slot: ir.Value) -> ir.Value:
        builder, nbytes = self._builder, self._plan.rings[ring].slot_bytes
        return builder.add(builder.mul(slot, _I32(nbytes)), _I32(self._places[ring][0]))

    def _copy(self, operation: Operation) -> None:
        """Begin the copies of the panels of a tile."""
        part: Part = operation.attributes["part"]
        builder, emitter = self._builder, self._writer.emitter
        array, *values = operation.operands
        row, column = (write_place(emitter, each) for each in values[-2:])
        if part.is_transposed:
            row, column = column, row
        of_part = emitter.indices(emitter.get(array), operation, values[:-2])
        for panel in range(part.panels):
            start = part.start + panel * part.panel_bytes
            target = self._at(builder.add(self._slots[part.ring], _I32(start)))
            first = builder.add(column, column.type(panel * part.row_elements))
            place = [first, row, *(_wide(builder, each) for each in reversed(of_part))]
            barrier, tensor_map = self._barriers[part.ring], self._maps[part.tensor_map]
            copy_box(builder, target, barrier, tensor_map, place)

    def _copy_panels(self, operation: Operation) -> None:
        """Copy what a function of results reads into the slots after the factors."""
        panels: Panels = operation.attributes["panels"]
        builder, ring = self._builder, operation.attributes["ring"]
        row, column = (write_place(self._writer.emitter, each) for each in operation.operands)
        for parts in panels.slots:
            boxes = list(product(parts, panels.of_part))
            self._take_slot(ring, len(boxes) * panels.nbytes)
            for place, (part, (number, within)) in enumerate(boxes):
                block, beside = divmod(part, panels.beside)
                first = builder.add(column, column.type(beside * CHUNK_COLUMNS + within))
                above = builder.add(row, row.type(block * panels.rows))
                target = self._at(builder.add(self._slots[ring], _I32(place * panels.nbytes)))
                barrier, tensor_map = self._barriers[ring], self._maps[number]
                copy_box(builder, target, barrier, tensor_map, [first, above])
            self._copied[ring].advance()

    def panels_of(self, panels: Panels, part: int) -> list[ir.Value]:
        """Wait for the panels of a part of a tile; return where those of each load are.

        It is the place of this warpgroup's rows in the first panel.
        """
        builder, boxes = self._builder, panels.of_part
        self.wait_for_panels()
        start = _I32(part % panels.together * len(boxes) * panels.nbytes)
        start = builder.add(start, self._slot_place(0, self._received[0].slot))
        own = builder.mul(self.sharer, _I32(wgmma.WARPGROUP_ROWS * wgmma.ROW_BYTES))
        first = self._at(builder.add(start, own))
        places = [n for n, (_, within) in enumerate(boxes) if within == 0]
        return [builder.gep(first, [_I32(n * panels.nbytes)]) for n in places]

    def wait_for_panels(self) -> None:
        """Wait until the panels of the current slot are there."""
        turns = self._received[0]
        mbarriers.wait_for(self._builder, self._full(0, turns.slot), turns.parity)

    def free_panels(self) -> None:
        """Free the current slot when all threads of the warpgroup are done with it."""
        self.meet()
        self._free(self._empty(0, self._received[0].slot))
        self._received[0].advance()

    def _next(self, operation: Operation) -> None:
        self._copied[operation.attributes["ring"]].advance()

    def _receive(self, operation: Operation) -> None:
        number: int = operation.attributes["ring"]
        slot = self._received[number].slot
        mbarriers.wait_for(self._builder, self._full(number, slot), self._received[number].parity)
        base = self._builder.ptrtoint(self._memory, _I32)
        self._slots[number] = self._builder.add(base, self._slot_place(number, slot))
        self._barriers[number] = self._empty(number, slot)

    def _release(self, operation: Operation) -> None:
        number: int = operation.attributes["ring"]
        if self._plan.rings[number].has_lines:
            self.meet()
        if operation.attributes["is_late"]:
            self._free_last(number)
            self._is_pending.set(_I1(1))
        else:
            self._free(self._barriers[number])
        self._received[number].advance()

    def _prefetch(self, operation: Operation) -> None:
        prefetch_reads(self._writer, operation, self)

    def _turn(self, operation: Operation) -> None:
        count = self._plan.warpgroups
        write_turn(self._builder, operation.attributes["word"], self.warpgroup, count)

    def _drain(self, operation: Operation) -> None:
        """Wait for the products of the last iteration, and free its slot."""
        assert self._wait is not None
        self._wait()
        self._free_last(operation.attributes["ring"])
        self._is_pending.set(_I1(0))

    def _free_last(self, number: int) -> None:
        """Free the slot of the iteration before, if there is one."""
        builder, slot = self._builder, self._received[number].slot
        count = _I32(self._plan.rings[number].slots)
        is_first = builder.icmp_unsigned("==", slot, _I32(0))
        before = builder.sub(builder.select(is_first, count, slot), _I32(1))
        self._free(self._empty(number, before), self._is_pending.get())

    def _free(self, barrier: ir.Value, condition: ir.Value = None) -> None:
        """Let one thread of the warpgroup say that nothing of it reads a slot any more."""
        builder = self._builder
        thread = call_nvvm(builder, "read.ptx.sreg.tid.x", _I32, [])
        place = builder.and_(thread, _I32(wgmma.WARPGROUP - 1))
        arrives = builder.icmp_unsigned("==", place, _I32(0))
        if condition is not None:
            arrives = builder.and_(arrives, condition)
        with builder.if_then(arrives):
            mbarriers.arrive(builder, barrier)

    def _part(self, operation: Operation) -> None:
        """Write nothing: products read the slots."""

    def _line(self, operation: Operation) -> None:
        """Let expressions read a row in the slot, for which they have waited then."""
        part: Part = operation.attributes["part"]
        start = self._slot_place(part.ring, self._received[part.ring].slot)
        place = self._at(self._builder.add(start, _I32(part.start)))
        self._writer.read_at(operation.result, place)

    def _any(self, operation: Operation) -> None:
        """Say whether a range that rises has elements."""
        start, stop = map(self._writer.emitter.get, operation.operands)
        self._writer.emitter.set(operation, self._builder.icmp_signed("<", start, stop))

    def _following(self, operation: Operation) -> None:
        """Return the second element of a range."""
        values = map(self._writer.emitter.get, operation.operands)
        self._writer.emitter.set(operation, self._builder.add(*values))

    def _words(self, operation: Operation) -> None:
        """Return the registers of a factor that is computed."""
        (tile,) = operation.operands
        rows, depth = tile.type.shape
        blocks = rows // (wgmma.WARPGROUP_ROWS * self._plan.sharing)
        own = OwnRows(self._writer, tile)
        steps = range(depth * tile.type.dtype.bitwidth // 8 // wgmma.STEP_BYTES)
        found = [word for n in steps for block in range(blocks) for word in own.rows_of_a(block, n)]
        self._writer.emitter.set(operation, *found)

    def boxes(self) -> ir.Value:
        """Return the address of the boxes of this warpgroup."""
        start = self._builder.mul(self.warpgroup, _I32(self._plan.boxes * BOX_BYTES))
        return self._at(self._builder.add(start, _I32(self._boxes_place)))

    def _store(self, operation: Operation) -> None:
        """Store a tile, in boxes if that is planned."""
        store: BoxStore | None = operation.attributes.get("boxes")
        if store is None:
            write_store(self._writer, operation)
            return
        builder, emitter, plan = self._builder, self._writer.emitter, self._plan
        whole, parts = whole_of(operation.operands[0])
        before = [
            _wide(builder, each)
            for part in parts
            for each in reversed(emitter.indices(emitter.get(whole), part, part.operands[1:]))
        ]
        about = (self.sharer, plan.sharing, store, self._maps[store.tensor_map], before)
        writer = BoxWriter(self.boxes(), plan.boxes, self.meet, *about)
        if store.is_of_neighbours:
            store_neighbours(self._writer, operation, self, writer)
            return
        is_one = store.count * store.row_elements == operation.attributes["shape"][1]
        if is_one and end_of(operation.operands[0]) is not None:
            first = write_place(emitter, operation.operands[1])
            writer.rows = (self._first_row(first), wgmma.WARPGROUP_ROWS)
        write_store(self._writer, operation, writer)

    @property
    def sharing(self) -> int:
        """Return the number of warpgroups that share a tile."""
        return self._plan.sharing

    def meet(self) -> None:
        """Let the threads of the warpgroup wait for each other."""
        meet(self._builder, self.warpgroup)


def _places(plan: WarpgroupPlan) -> tuple[list[tuple[int, int]], int]:
    """Return the places of each ring in shared memory, and of boxes for stores.

    Those of a ring are of its slots, and of its barriers.
    """
    slots = list(accumulate((each.slots * each.slot_bytes for each in plan.rings), initial=0))
    size, boxes = 2 * mbarriers.BARRIER_BYTES, slots[-1]
    first = boxes + plan.warpgroups * plan.boxes * BOX_BYTES
    barriers = accumulate((each.slots * size for each in plan.rings), initial=first)
    return list(zip(slots, barriers, strict=True))[:-1], boxes


def _wide(builder: ir.IRBuilder, index: ir.Value) -> ir.Value:
    return index if index.type == _I64 else builder.sext(index, _I64)


def _set_registers(builder: ir.IRBuilder, change: str, count: int) -> None:
    call_nvvm(builder, f"setmaxnreg.{change}.sync.aligned.u32", _VOID, [_I32(count)])
