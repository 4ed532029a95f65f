"""Shared memory of the factors of products: one room each, or a ring of several.

A kernel has static shared memory for few factors. Otherwise it has dynamic shared memory, which
each launch adds: its size is part of the name of the symbol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.ir.accesses import Accesses
from kerneldsl.ir.operations import Function, Operation
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.compile.mma.early_loads import EarlyLoads, find_early_loads
from targets.cuda.compile.mma.functions import MOST_PENDING, SHARED
from targets.cuda.compile.mma.layouts import TileLayouts
from targets.cuda.compile.mma.operands import Operand
from targets.cuda.compile.ptx_text import MATRIX_SHARED
from targets.cuda.intrinsics.memory import SHARED_SPACE, static_shared

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.writer import TileWriter

__all__ = ["Factors", "Ring"]

_I8, _I32 = ir.IntType(8), ir.IntType(32)
#: Factors begin at multiples of this, so that groups can be exchanged.
_ALIGNMENT = 1024
#: Most static shared memory of factors; other tiles need some of the 48 KiB that PTX permits.
_STATIC_BYTES = 32 * 1024
#: Most stages that the compiler chooses: loads are three iterations early.
_MOST_STAGES = 4
#: Accumulators of a thread up to which two blocks fit a multiprocessor.
_FEW_ACCUMULATORS = 64


@dataclass
class Ring:
    """The rooms of the factors that one loop loads early."""

    early: EarlyLoads
    stages: int
    #: Number of the room that an iteration reads, or that is loaded, while code is written.
    slot: ir.Value | None = None


class Factors:
    """Places of factors in shared memory.

    Parameters
    ----------
    writer : TileWriter
        Writes the kernel.
    function : Function
        The kernel.
    accesses : Accesses
        What its operations read and write.
    limit : int
        Bytes of shared memory that a block can have.
    """

    def __init__(
        self, writer: TileWriter, function: Function, accesses: Accesses, limit: int
    ) -> None:
        assert writer.layouts is not None
        self._writer, self._layouts = writer, writer.layouts
        operations = list(function.body.walk())
        #: Loop to its ring, and load to the ring of its loop.
        self.rings: dict[Operation, Ring] = {}
        self._ring_of: dict[Operation, Ring] = {}
        #: Why a factor is loaded in its iteration.
        self.reasons: dict[Operation, str] = {}
        self._rooms = dict(_rooms(operations, self._layouts))
        for each in operations:
            if each.name == "for" and "pipelined" in each.attributes:
                self._plan(each, find_early_loads(each, self._layouts, accesses), limit)
        self._offsets: dict[Any, int] = {}
        total = 0
        for key, factor in self._rooms.items():
            self._offsets[key] = total
            ring = self._ring_of.get(key)
            size = factor.nbytes * (1 if ring is None else ring.stages)
            total += -(-size // _ALIGNMENT) * _ALIGNMENT
        self._total = total
        self._data: ir.Value | None = None

    def _plan(self, loop: Operation, early: EarlyLoads, limit: int) -> None:
        self.reasons |= early.reasons
        loads = [each for each in early.loads if each not in self._ring_of]
        if not loads:
            return
        size = sum(self._rooms[each].nbytes for each in loads)
        rest = sum(each.nbytes for key, each in self._rooms.items() if key not in loads)
        most = max(0, limit - rest - _ALIGNMENT) // size
        stages = loop.attributes["pipelined"]
        if not stages:
            half = max(0, limit // 2 - rest - _ALIGNMENT) // size
            stages = min(_MOST_STAGES, half if half >= 2 and self._has_few() else most)
        stages = min(stages, most, MOST_PENDING + 2)
        if stages < 2:
            reason = f"shared memory has room for {stages} iterations"
            self.reasons |= dict.fromkeys(loads, reason)
            return
        ring = Ring(early, stages)
        self.rings[loop] = ring
        self._ring_of |= dict.fromkeys(loads, ring)

    def _has_few(self) -> bool:
        """Return whether a thread has few accumulators."""
        counts = (each.fragments.slot_count for each in self._layouts.products())
        return sum(counts) <= _FEW_ACCUMULATORS

    def memory(self, load: Operation) -> ir.Value:
        """Return the first byte of a factor that an operation loads."""
        ring, found = self._ring_of.get(load), self.room(load)
        if ring is None:
            return found
        builder, size = self._writer.code.builder, self._rooms[load].nbytes
        assert ring.slot is not None
        return builder.gep(found, [builder.mul(ring.slot, _I32(size))])

    def is_early(self, load: Operation) -> bool:
        """Return whether the factor is loaded some iterations early."""
        return load in self._ring_of

    def room(self, key: Any) -> ir.Value:
        """Return the first byte of the memory of a factor."""
        return self._writer.code.builder.gep(self._memory(), [_I32(self._offsets[key])])

    def _memory(self) -> ir.Value:
        if self._data is None:
            emitter = self._writer.emitter
            if self._total <= _STATIC_BYTES:
                memory = static_shared(emitter.context, emitter.builder, _I8, (self._total,))
            else:
                name = f"{MATRIX_SHARED}{self._total + _ALIGNMENT}"
                kind = ir.ArrayType(_I8, 0)
                memory = cgutils.add_global_variable(
                    emitter.builder.module, kind, name, addrspace=SHARED_SPACE
                )
                memory.linkage = "external"
            memory.align = _ALIGNMENT
            self._data = memory.bitcast(SHARED)
        return self._data


def _rooms(operations: Sequence[Operation], layouts: TileLayouts) -> Iterator[tuple[Any, Operand]]:
    """Return the rooms that a kernel needs: of loads, and of factors of products."""
    for each in operations:
        factor, product = layouts.factor(each), layouts.product(each)
        if factor is not None:
            yield each, factor
        if product is not None:
            for number, factor in enumerate(product.factors):
                if not layouts.is_factor(each.operands[number]):
                    yield (each, number), factor
