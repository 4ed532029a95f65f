"""Products of tiles without tensor cores: a thread adds the products of each of its elements.

Both factors are in shared memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from kerneldsl.ir.operations import Operation
from kerneldsl.ir.tiles.elements import Slot, add_product
from targets.cuda.compile.tiles.elements import OperationCode

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.writer import TileWriter

__all__ = ["write_mma"]


def write_mma(writer: TileWriter, operation: Operation) -> None:
    """Write a product, with the tile that is added; products are added along k, one by one."""
    code, builder = OperationCode(writer, operation), writer.code.builder
    (rows, columns), depth = code.shape, operation.attributes["depth"]
    exchanged = operation.attributes["exchanged"]
    factors = [writer.storage(each) for each in operation.operands[:2]]
    added = [writer.storage(each) for each in operation.operands[2:]]
    kind = operation.result.type.dtype
    zero = ir.Constant(writer.emitter.context.get_value_type(kind), 0)

    def value(number: int, place: tuple[ir.Value, ir.Value], columns: int) -> ir.Value:
        factor = factors[number]
        if exchanged[number]:
            place = place[::-1]
        index = writer.code.at(place[0], columns, place[1])
        return writer.emitter.convert(factor.get(index), factor.kind, kind)

    def element(slot: Slot) -> ir.Value:
        row, column = code.indices(slot)
        total = writer.code.variable(added[0].own(slot) if added else zero)
        with writer.code.range(0, depth) as place:
            one = value(0, (row, place), rows if exchanged[0] else depth)
            two = value(1, (place, column), depth if exchanged[1] else columns)
            total.set(add_product(builder, one, two, total.get()))
        return total.get()

    code.fill(element)
