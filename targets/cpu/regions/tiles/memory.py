"""Loads and stores of tiles: loops over what is inside an array, and over what is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from llvmlite import ir
from llvmlite.ir import instructions

from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.operations import Operation, Value
from kerneldsl.ir.tiles.elements import write_place
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.gathered_atomics import write_apart
from targets.cpu.regions.tiles.writer import TileCode

__all__ = ["write_load", "write_start", "write_store"]

_I64 = ir.IntType(64)
#: Writes code for an element's index along each axis of the tile.
_Write: TypeAlias = Callable[[Sequence[ir.Value]], None]


def write_start(emitter: CpuEmitter, operation: Operation) -> None:
    """Write the index of a tile's first element as 64 bits."""
    emitter.set(operation, write_place(emitter, operation.operands[0]))


def write_load(emitter: CpuEmitter, operation: Operation) -> None:
    """Write a tile of the elements of an array."""
    memory, array, other, *at = operation.operands
    code, target = TileCode(emitter, operation), None
    target, access = code.tile(memory), _Access(code, array, at)
    rest = emitter.get(other)

    def inside(places: Sequence[ir.Value]) -> None:
        value = _loaded(emitter, emitter.read_element(array.type, access.element(places)))
        value = emitter.convert(value, array.type.dtype, target.kind)
        target.put(code.slot(places), value)

    access.each(inside, lambda places: target.put(code.slot(places), rest))


def _loaded(emitter: CpuEmitter, element: ir.Value) -> ir.Value:
    """Return an element that a loop copies, so that LLVM makes vectors of it, and no ``memcpy``.

    Rows of some KiB are copied by one instruction there, which waits for memory alone. What comes
    before and after a loop of vectors runs meanwhile.
    """
    if not isinstance(element.type, ir.IntType | ir.FloatType | ir.DoubleType):
        return element
    block = emitter.builder.block
    frozen = instructions.Instruction(block, element.type, "freeze", [element])
    emitter.builder._insert(frozen)
    return frozen


def write_store(emitter: CpuEmitter, operation: Operation) -> None:
    """Write the elements of an expression to an array."""
    code = TileCode(emitter, operation)
    rank = len(code.shape)
    array, *at = operation.operands[: 1 + rank]
    access = _Access(code, array, at)

    def put(places: Sequence[ir.Value], value: ir.Value) -> None:
        emitter.write_element(array.type, value, access.element(places))

    def at_once() -> None:
        access.each(lambda places: put(places, code.element(code.slot(places))))

    def afterwards() -> None:
        computed = code.buffer(array.type.dtype, code.count)

        def compute(places: Sequence[ir.Value]) -> None:
            slot = code.slot(places)
            computed.put(slot, code.element(slot))

        access.each(compute)
        access.each(lambda places: put(places, computed.own(code.slot(places))))

    waits = operation.attributes.get("waits")
    if waits is None:
        at_once()
    elif not waits:
        afterwards()
    else:
        read = operation.operands[1 + rank : 1 + rank + waits]
        tests = [_are_apart(emitter, array, each) for each in read]
        test = tests[0]
        for each in tests[1:]:
            test = emitter.builder.and_(test, each)
        with emitter.builder.if_else(test) as (yes, no):
            with yes:
                at_once()
            with no:
                afterwards()


def _are_apart(emitter: CpuEmitter, one: Value, two: Value) -> ir.Value:
    """Return whether two arrays have no memory in common."""
    values = tuple(emitter.plain(emitter.get(each), each.type) for each in (one, two))
    return write_apart(emitter.context, emitter.builder, (one.type, two.type), values)


class _Access:
    """The elements of an array that belong to a tile."""

    def __init__(self, code: TileCode, array: Value, at: list[Value]) -> None:
        self._code = code
        emitter = code.emitter
        self._starts = [write_place(emitter, place) for place in at]
        found = emitter.get(array)
        if not isinstance(found, ArrayParts):
            found = ArrayParts.of_structure(emitter.context, emitter.builder, array.type, found)
        self._array = found
        #: For each axis the indices of a tile that are inside the array, from one to another.
        self._bounds = [
            _inside(emitter, *each)
            for each in zip(code.shape, self._starts, found.shape, strict=True)
        ]

    def element(self, places: Sequence[ir.Value]) -> ir.Value:
        """Return the address of an element."""
        builder = self._code.builder
        pairs = zip(self._starts, places, strict=True)
        return self._array.element(builder, [builder.add(*pair) for pair in pairs])

    def each(self, inside: _Write, outside: _Write | None = None) -> None:
        """Repeat code for the elements that the array has, and for the others."""
        self._axis([], inside, outside)

    def _axis(self, places: list[ir.Value], inside: _Write | None, outside: _Write | None) -> None:
        axis = len(places)
        if axis == len(self._code.shape):
            write = inside or outside
            assert write is not None
            write(places)
            return
        is_last = axis == len(self._code.shape) - 1
        loop = self._code.loop if is_last else self._code.repeat
        end = _I64(self._code.shape[axis])

        def part(low: Any, high: Any, inside: _Write | None, outside: _Write | None) -> None:
            is_empty = isinstance(low, ir.Constant) and isinstance(high, ir.Constant)
            if is_empty and low.constant >= high.constant:
                return
            with loop(low, high) as place:
                self._axis([*places, place], inside, outside)

        if inside is None:
            part(_I64(0), end, None, outside)
            return
        low, high = self._bounds[axis]
        if outside is not None:
            part(_I64(0), low, None, outside)
        part(low, high, inside, outside)
        if outside is not None:
            part(high, end, None, outside)


def _inside(emitter: CpuEmitter, count: int, first: Any, extent: Any) -> tuple[Any, Any]:
    """Return the indices of a tile that are inside an array, from one to another."""
    end, builder = _I64(count), emitter.builder
    if isinstance(first, ir.Constant) and first.constant == 0:
        return _I64(0), emitter.smaller(extent, end)  # an extent is not negative
    low = emitter.smaller(emitter.larger(_I64(0), builder.neg(first)), end)
    high = emitter.larger(low, emitter.smaller(builder.sub(extent, first), end))
    return low, high
