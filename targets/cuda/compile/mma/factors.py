"""Shared memory of the factors of products: one room each, or a ring of several.

A kernel has static shared memory for few factors. Otherwise it has dynamic shared memory, which
each launch adds: its size is part of the name of the symbol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.ir.operations import Function, Operation
from targets.cuda.compile.mma.functions import SHARED
from targets.cuda.compile.mma.layouts import TileLayouts
from targets.cuda.compile.mma.rings import ALIGNMENT, Ring, rooms_of
from targets.cuda.compile.ptx_lines import MATRIX_SHARED
from targets.cuda.intrinsics.memory import SHARED_SPACE, static_shared

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.writer import TileWriter

__all__ = ["Factors"]

_I8, _I32 = ir.IntType(8), ir.IntType(32)
#: Most static shared memory of factors; other tiles need some of the 48 KiB that PTX permits.
_STATIC_BYTES = 32 * 1024


class Factors:
    """Places of factors in shared memory.

    Parameters
    ----------
    writer : TileWriter
        Writes the kernel.
    function : Function
        The kernel.
    layouts : TileLayouts
        Which tiles are factors.
    rings : mapping
        Loop to the ring of the factors that it loads early.
    """

    def __init__(
        self,
        writer: TileWriter,
        function: Function,
        layouts: TileLayouts,
        rings: Mapping[Operation, Ring],
    ) -> None:
        self._writer, self._layouts = writer, layouts
        self.rings = rings
        self._ring_of = {load: ring for ring in rings.values() for load in ring.early.loads}
        self._rooms = {
            key: factor
            for key, factor in rooms_of(function, layouts)
            if key in self._ring_of or not layouts.is_staged(key)
        }
        self._offsets: dict[Any, int] = {}
        total = 0
        for key, factor in self._rooms.items():
            self._offsets[key] = total
            ring = self._ring_of.get(key)
            size = factor.nbytes * (1 if ring is None else ring.stages)
            total += -(-size // ALIGNMENT) * ALIGNMENT
        self._total = total
        self._data: ir.Value | None = None

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

    def has_room(self, key: Any) -> bool:
        """Return whether there is memory for a factor."""
        return key in self._rooms

    def has_product(self, loop: Operation) -> bool:
        """Return whether each iteration of a loop has a product of what it loads early."""
        return any(self._multiplies(each, loop) for each in loop.regions[0].operations)

    def _multiplies(self, product: Operation, loop: Operation) -> bool:
        loads = self.rings[loop].early.loads
        is_product = product.name == "tile.mma" and self._layouts.has_instruction(product)
        return is_product and any(value.owner in loads for value in product.operands[:2])

    def start_copies(self, product: Operation) -> None:
        """Start copies of a later iteration, after a product has loaded its first fragments.

        An assembler moves no load from shared memory across a copy to it.
        """
        for loop, ring in self.rings.items():
            if ring.start_copies is not None and product in loop.regions[0].operations:
                ring.start_copies()

    def room(self, key: Any) -> ir.Value:
        """Return the first byte of the memory of a factor."""
        return self._writer.code.builder.gep(self._memory(), [_I32(self._offsets[key])])

    def _memory(self) -> ir.Value:
        if self._data is None:
            emitter = self._writer.emitter
            if self._total <= _STATIC_BYTES:
                memory = static_shared(emitter.context, emitter.builder, _I8, (self._total,))
            else:
                name = f"{MATRIX_SHARED}{self._total + ALIGNMENT}"
                kind = ir.ArrayType(_I8, 0)
                memory = cgutils.add_global_variable(
                    emitter.builder.module, kind, name, addrspace=SHARED_SPACE
                )
                memory.linkage = "external"
            memory.align = ALIGNMENT
            self._data = memory.bitcast(SHARED)
        return self._data
