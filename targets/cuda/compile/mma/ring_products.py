"""Write the products of factors that are in the slots of rings, by warpgroups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from llvmlite import ir

from kerneldsl.ir.operations import Operation, Value
from kerneldsl.ir.tiles.elements import write_place
from targets.cuda.compile.mma import wgmma
from targets.cuda.compile.mma.warpgroup_plan import OWN_WORDS, Part, WarpgroupPlan
from targets.cuda.compile.tiles.thread_code import Memory
from targets.cuda.intrinsics.by_architecture import call_by_architecture

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.writer import TileWriter

__all__ = ["Products"]

_VOID, _I32, _I64 = ir.VoidType(), ir.IntType(32), ir.IntType(64)


class Products:
    """Writes the products of a kernel.

    Parameters
    ----------
    writer : TileWriter
        Writes the tiles.
    plan : WarpgroupPlan
        The plan of the kernel.
    """

    def __init__(self, writer: TileWriter, plan: WarpgroupPlan) -> None:
        self._writer, self._plan = writer, plan
        self._builder: ir.IRBuilder = writer.code.builder
        #: The memory of the slots of a turn, by the number of the ring.
        self._slots: list[ir.Value] = [None] * len(plan.rings)
        #: Number of the warpgroup among those that share a tile.
        self.sharer: ir.Value = None
        #: Functions that emit the wait for each product that was begun, and for the last ones.
        self._begun: dict[Operation, Callable[[int], None]] = {}
        self._wait: Callable[[], None] | None = None
        #: Sums of running products that another product adds to, and the registers that they read.
        self._chains: dict[Operation | None, tuple[Memory, list[ir.Value]]] = {}
        #: Whether this warpgroup has rows of the next product; ``None`` if it always has.
        self._has_rows: ir.Value | None = None

    def _find_rows(self, operation: Operation) -> None:
        """Say whether this warpgroup has rows of the next product."""
        row, end = (write_place(self._writer.emitter, each) for each in operation.operands)
        self._has_rows = self._builder.icmp_signed("<", self._first_row(row), end)

    def _first_row(self, row: ir.Value) -> ir.Value:
        """Return the first row of this warpgroup in a tile from a row on."""
        before = self._builder.mul(self.sharer, _I32(wgmma.WARPGROUP_ROWS))
        return self._builder.add(row, self._builder.zext(before, _I64))

    def _multiply(self, operation: Operation) -> None:
        """Write a product of two parts of the slot, and wait for it or for the one before."""
        if self._has_rows is None:
            self._multiply_rows(operation)
            return
        with self._builder.if_then(self._has_rows):
            self._multiply_rows(operation)
        self._has_rows = None

    def _multiply_rows(self, operation: Operation) -> None:
        form: wgmma.Form = operation.attributes["form"]
        target = self._writer.storage(operation.result).memory
        chain, _ = self._chains.get(operation.attributes.get("continued"), (None, []))
        rows, columns = operation.attributes["shape"]
        blocks = rows // (wgmma.WARPGROUP_ROWS * self._plan.sharing)
        count = blocks * columns // 2  # results of a thread
        if chain is not None:
            target = chain
        elif operation.attributes.get("is_continued"):
            target = self._writer.code.local(target.kind, count)
        adds = False
        for added in operation.operands[2:]:
            source, adds = self._writer.storage(added).memory, True
            if source is not target and chain is None:
                _move(source, target, count)
        depth, promote = operation.attributes["depth"], operation.attributes["promote"]
        is_promoted = form.is_promoted and promote is not None
        together = promote if is_promoted else depth
        for first in range(0, depth, together):
            places = range(first, min(first + together, depth), form.depth)
            if not adds or not is_promoted:
                self._product(operation, blocks, places, target, adds=adds)
            else:
                sums = self._writer.code.local(target.kind, count)
                self._product(operation, blocks, places, sums, adds=False)
                for number in map(_I64, range(count)):
                    total = self._builder.fadd(target.get(number), sums.get(number))
                    target.set(number, total)
            adds = True

    def _product(
        self,
        operation: Operation,
        blocks: int,
        places: Sequence[int],
        target: Memory,
        *,
        adds: bool,
    ) -> None:
        """Multiply at some places along k, for all blocks of rows of a warpgroup."""
        builder = self._builder
        form: wgmma.Form = operation.attributes["form"]
        columns = operation.attributes["shape"][1]
        a, b = (_part_of(each) for each in operation.operands[:2])
        assert b is not None
        exchanged = (a is not None and a.is_exchanged(operation, 0), b.is_exchanged(operation, 1))
        steps = [place // form.depth for place in places]
        rows = [
            [self._rows(operation, a, step, block) for block in range(blocks)] for step in steps
        ]
        wgmma.begin(builder)
        for step, blocks_of_step in zip(steps, rows, strict=True):
            second = self._operand(b, step, is_exchanged=exchanged[1])
            for block, first in enumerate(blocks_of_step):
                is_sum = adds or step > steps[0]
                found = wgmma.Instruction(form, columns, exchanged, is_sum, a is None)
                registers = builder.gep(target.data, [_I32(block * found.count)])
                call_by_architecture(builder, found.name, _VOID, [registers, *first, second])
        wgmma.commit(builder)
        words = [] if a is not None else [word for step in rows for own in step for word in own]
        _, held = self._chains.pop(operation.attributes.get("continued"), (None, []))
        words += held
        if operation.attributes.get("is_continued"):
            self._chains[operation] = target, words
            return
        own, count = self._writer.storage(operation.result).memory, blocks * columns // 2
        is_moved = "continued" in operation.attributes

        def wait(pending: int) -> None:
            found = wgmma.Wait(form.register, count, pending, len(words))
            call_by_architecture(builder, found.name, _VOID, [target.data, *words])
            if is_moved:
                _move(target, own, count)

        self._wait = partial(wait, 0)
        if operation.attributes.get("is_awaited", True):
            wait(1 if operation.attributes.get("is_pending") else 0)
        else:
            self._begun[operation] = wait

    def _await(self, operation: Operation) -> None:
        """Wait for a product, and for all but some that began after it."""
        wait = self._begun.pop(operation.attributes["product"])
        wait(operation.attributes["pending"])

    def _rows(
        self, operation: Operation, part: Part | None, step: int, block: int
    ) -> list[ir.Value]:
        """Describe a block of the rows of this warpgroup, in a step along k.

        A factor without a part is in four registers.
        """
        if part is None:
            made = operation.operands[0].owner
            assert isinstance(made, Operation)
            blocks = operation.attributes["shape"][0] // (wgmma.WARPGROUP_ROWS * self._plan.sharing)
            first = OWN_WORDS * (step * blocks + block)
            return [self._writer.emitter.get(each) for each in made.operands[first:][:OWN_WORDS]]
        is_exchanged = part.is_exchanged(operation, 0)
        #: Bytes from the rows of a warpgroup to those of the next one.
        unit = part.panel_bytes if is_exchanged else wgmma.WARPGROUP_ROWS * wgmma.ROW_BYTES
        first = self._builder.mul(self.sharer, _I32(unit))
        offset = block * self._plan.sharing * unit
        return [self._operand(part, step, first, offset, is_exchanged=is_exchanged)]

    def _operand(
        self,
        part: Part,
        step: int,
        first: ir.Value | None = None,
        offset: int = 0,
        *,
        is_exchanged: bool,
    ) -> ir.Value:
        """Describe a factor in a step along k, from a byte of it on."""
        offset += part.start
        if is_exchanged:  # a step is so many rows of all panels
            offset += step * wgmma.STEP_BYTES // 2 * wgmma.ROW_BYTES
        else:
            panel, within = divmod(step * wgmma.STEP_BYTES, wgmma.ROW_BYTES)
            offset += panel * part.panel_bytes + within
        start = self._slots[part.ring]
        if first is not None:
            start = self._builder.add(start, first)
        found = wgmma.descriptor(self._builder, start, part.panel_bytes if is_exchanged else 0)
        return wgmma.moved(self._builder, found, offset)


def _move(source: Memory, target: Memory, count: int) -> None:
    for number in map(_I64, range(count)):
        target.set(number, source.get(number))


def _part_of(value: Value) -> Part | None:
    """Return the part of a ring that a factor is, ``None`` if it is computed."""
    assert isinstance(value.owner, Operation)
    return value.owner.attributes.get("part")
