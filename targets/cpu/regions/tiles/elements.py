"""Loops over the elements of tiles, which are arrays of the block; copies, loads and stores.

The region of an operation says how to compute one element. It is the body of a loop over all of
them, which LLVM vectorizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from llvmlite import ir
from llvmlite.ir import instructions

from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.operations import Effect, Operation, Region, Value
from kerneldsl.ir.tiles.elements import (
    ElementCode,
    Slot,
    TileMemory,
    Variable,
    write_place,
    write_region,
    write_take,
)
from kerneldsl.ir.tiles.layout import Layout
from kerneldsl.language.packed_numbers import PackedNumbers
from kerneldsl.lowering.loop_marks import NOT_UNROLLED, PARALLEL
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.regions.emitter import CountedLoop, CpuEmitter, write_apart

__all__ = [
    "Elements",
    "TileCode",
    "write_copy",
    "write_load",
    "write_map",
    "write_store",
    "write_taken",
]

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)


@dataclass(frozen=True)
class Elements(TileMemory):
    """Elements of one type in memory of the block."""

    emitter: CpuEmitter
    #: Address of the first one.
    data: ir.Value
    #: Numba's type.
    kind: Any

    def place(self, index: ir.Value) -> ir.Value:
        return self.emitter.builder.gep(self.data, [index], inbounds=True)

    def get(self, index: ir.Value) -> ir.Value:
        emitter = self.emitter
        model = emitter.context.data_model_manager[self.kind]
        return model.from_data(emitter.builder, emitter.read(self.place(index)))

    def set(self, index: ir.Value, value: ir.Value) -> None:
        emitter = self.emitter
        model = emitter.context.data_model_manager[self.kind]
        emitter.write(model.as_data(emitter.builder, value), self.place(index))

    def own(self, slot: Slot) -> ir.Value:
        return self.get(slot.index)

    def put(self, slot: Slot, value: ir.Value) -> None:
        self.set(slot.index, value)


class TileCode(ElementCode):
    """Writes the loops of one operation on tiles.

    - `emitter`: writes the regions.
    - `operation`: the operation. Its tiles are in memory.
    """

    def __init__(self, emitter: CpuEmitter, operation: Operation) -> None:
        super().__init__(emitter, operation, operation.attributes.get("shape", ()))
        self._buffers = 0
        #: Whether elements may be computed in any order, and several at a time.
        self._is_parallel = not any(
            inner.effect & Effect.WRITE for region in operation.regions for inner in region.walk()
        )

    @property
    def layout(self) -> Layout:
        """The threads of a block to which the elements belong."""
        return Layout(self.count, self.emitter.threads_count)

    # -- memory -----------------------------------------------------------------------------------

    def tile(self, value: Value) -> Elements:
        return Elements(self.emitter, self.emitter.get(value).data, value.type.dtype)

    def tile_shape(self, number: int) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.operation.attributes["shapes"][number]
        return shape

    def buffer(self, kind: Any, count: int) -> Elements:
        """Return memory that the operation needs, for elements of a type."""
        stored = self.emitter.context.get_data_type(kind)
        data = self.emitter.reserve_again(stored, count, self._buffers)
        self._buffers += 1
        return Elements(self.emitter, data, kind)

    def computed(
        self, kind: Any, source: Elements, count: int, compute: Callable[[ir.Value], ir.Value]
    ) -> Elements:
        """Return new elements of a type, each computed from the one of its number."""
        made = self.buffer(kind, count)
        with self.loop(0, count) as index:
            made.set(index, compute(source.get(index)))
        return made

    def variable(self, first: ir.Value) -> Variable:
        return Variable(self.builder, first)

    # -- loops ------------------------------------------------------------------------------------

    def loop(self, low: ir.Value | int, high: ir.Value | int) -> CountedLoop:
        """Return a loop over elements, which LLVM makes vectors of."""
        wishes = (NOT_UNROLLED, PARALLEL) if self._is_parallel else (NOT_UNROLLED,)
        return CountedLoop(self.builder, _number(low), _number(high), *wishes)

    def repeat(self, low: ir.Value | int, high: ir.Value | int, step: int = 1) -> CountedLoop:
        """Return a loop of iterations that are one after the other."""
        return CountedLoop(self.builder, _number(low), _number(high), step=step)

    @contextmanager
    def slots(self) -> Iterator[Slot]:
        """Repeat code for each element."""
        if self.is_flat or len(self.shape) == 1:
            with self.loop(0, self.count) as index:
                yield Slot(index, index)
            return
        rows, columns = self.shape
        with self.repeat(0, rows) as row, self.loop(0, columns) as column:
            yield self.slot([row, column])

    def slot(self, indices: Sequence[ir.Value]) -> Slot:
        """Return an element by its index along each axis."""
        index = indices[0]
        if len(indices) > 1:
            start = self.builder.mul(index, _I64(self.shape[1]))
            index = self.builder.add(start, indices[1])
        return Slot(index, index, indices=indices)

    # -- elements ---------------------------------------------------------------------------------

    @property
    def is_flat(self) -> bool:
        """True if an element depends on elements of the same number, or on the only ones."""
        attributes = self.operation.attributes
        return not attributes["axes"] and all(
            math.prod(shape) == 1 or (shape == self.shape and not is_transposed)
            for shape, is_transposed in zip(
                attributes["shapes"], attributes["transposed"], strict=True
            )
        )


def _number(bound: ir.Value | int) -> ir.Value:
    return _I64(bound) if isinstance(bound, int) else bound


# -- loads and stores ------------------------------------------------------------------------------


#: Writes code for an element's index along each axis of the tile.
_Write: TypeAlias = Callable[[Sequence[ir.Value]], None]


def write_load(emitter: CpuEmitter, operation: Operation) -> None:
    """Write a tile of the elements of an array."""
    memory, array, other, *at = operation.operands
    code = TileCode(emitter, operation)
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
        tests = [write_apart(emitter, array, each) for each in read]
        test = tests[0]
        for each in tests[1:]:
            test = emitter.builder.and_(test, each)
        with emitter.builder.if_else(test) as (yes, no):
            with yes:
                at_once()
            with no:
                afterwards()


class _Access:
    """The elements of an array that belong to a tile."""

    def __init__(self, code: TileCode, array: Value, at: list[Value]) -> None:
        self._code = code
        emitter = code.emitter
        self._starts = [write_place(emitter, place) for place in at]
        self._array = found = emitter.wrapped(emitter.get(array), array.type)
        #: Range of the tile's indices that are inside the array, for each axis.
        self._bounds = [
            _inside(emitter, *each)
            for each in zip(code.shape, self._starts, found.shape, strict=True)
        ]

    def element(self, places: Sequence[ir.Value]) -> ir.Value:
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


# Load tiles of packed numbers that are inside an array, many numbers at a time.
#
# A vector has the same bytes several times, and each copy is shifted by another number's place.
# What is left of each byte then is one number, and the copies are interleaved.

#: Most numbers of a vector.
_WIDEST = 64


def _packed_load(code: TileCode, target: Elements, region: Region) -> Operation | None:
    """Return the load of packed numbers that a region consists of, if rows are read as vectors."""
    if len(region.operations) != 2 or region.operations[0].name != "packed.load":
        return None
    load = region.operations[0]
    view = load.operands[0].type
    is_plain = region.yielded[0] is load.result and target.kind == view.dtype
    return load if is_plain and view.words.layout == "C" and _width(code, view) else None


def _width(code: TileCode, view: Any) -> int:
    """Return the numbers of a vector, 0 if rows do not have whole ones of at least four bytes."""
    found = math.gcd(code.shape[-1], _WIDEST)
    return found if found >= 32 // view.numbers.bits else 0


def _begins_at_a_byte(emitter: CpuEmitter, load: Operation) -> ir.Value:
    """Return whether a load reads the first number of a byte."""
    first, numbers = emitter.get(load.operands[-1]), load.operands[0].type.numbers
    rest = emitter.builder.and_(first, first.type(8 // numbers.bits - 1))
    return emitter.builder.icmp_unsigned("==", rest, first.type(0))


def _write_unpacked(
    code: TileCode,
    target: Elements,
    load: Operation,
    place: Callable[[Sequence[ir.Value]], object],
) -> None:
    """Write the numbers of a tile; `place` computes the indices of a load for those in the tile.

    Rows are read by bytes, so a row must begin with the first number of one.
    """
    emitter, builder, view = code.emitter, code.builder, load.operands[0]
    numbers, words = view.type.numbers, view.type.words
    parts = ArrayParts.of_structure(
        emitter.context, builder, words, builder.extract_value(emitter.get(view), 0)
    )
    width, (*rows, columns) = _width(code, view.type), code.shape
    bits = numbers.bits.bit_length() - 1
    count = width * numbers.bits // 32
    with code.repeat(0, math.prod(rows)) as row:
        indices = [row, _I64(0)][-len(code.shape) :] if rows else [_I64(0)]
        place(indices)
        *outer, first = (emitter.get(each) for each in load.operands[1:])
        start = builder.bitcast(parts.element(builder, [*outer, _I64(0)]), _I8.as_pointer())
        start = builder.gep(start, [builder.lshr(first, _I64(3 - bits))])
        with code.repeat(0, columns, width) as column:
            byte = builder.gep(start, [builder.lshr(column, _I64(3 - bits))])
            words_at = builder.bitcast(byte, ir.VectorType(_I32, count).as_pointer())
            found = builder.load(words_at)
            found.align = 1
            slot = code.slot([*indices[:-1], column]).index
            address = builder.bitcast(target.place(slot), ir.VectorType(_I8, width).as_pointer())
            builder.store(_unpacked(builder, found, numbers), address).align = 1


def _unpacked(builder: ir.IRBuilder, words: ir.Value, numbers: PackedNumbers) -> ir.Value:
    """Return the numbers in a vector of words, in order."""
    count, bits = words.type.count, numbers.bits
    copies = 8 // bits
    wide = ir.VectorType(_I32, count * copies)
    lanes = wide([lane % count for lane in range(wide.count)])
    repeated = builder.shuffle_vector(words, words.type(ir.Undefined), lanes)
    shifts = wide([bits * (lane // count) for lane in range(wide.count)])
    mask = (1 << bits) - 1
    codes = builder.and_(builder.lshr(repeated, shifts), wide([0x01010101 * mask] * wide.count))
    chars = ir.VectorType(_I8, 4 * wide.count)
    in_bytes = builder.bitcast(codes, chars)
    order = [n % copies * 4 * count + n // copies for n in range(chars.count)]
    places = ir.VectorType(_I32, chars.count)(order)
    found = builder.shuffle_vector(in_bytes, chars(ir.Undefined), places)
    if numbers.smallest == 0:
        return found
    bias = chars([-numbers.smallest] * chars.count)
    if numbers.is_twos_complement:
        found = builder.xor(found, bias)
    return builder.sub(found, bias)


def write_map(emitter: CpuEmitter, operation: Operation) -> None:
    """Write a tile of an expression's elements."""
    code = TileCode(emitter, operation)
    target = code.tile(operation.operands[0])
    if operation.attributes.get("is_guarded"):
        _write_guarded(code, target)
    else:
        with code.elements() as (slot, value):
            target.put(slot, value)


def _write_guarded(code: TileCode, target: Elements) -> None:
    """Write elements of what is inside bounds: without a test if the first and last one are."""
    emitter, builder, region = code.emitter, code.builder, code.operation.regions[0]
    *before, branch, _ = region.operations
    axes = code.operation.attributes["axes"]

    def test(indices: Sequence[ir.Value]) -> ir.Value:
        given = (indices[axis] for axis in axes)
        emitter.values.update(zip(region.arguments, given, strict=True))
        emitter.operations(before)
        return emitter.get(branch.operands[0])

    first = test([_I64(0) for _ in code.shape])
    last = test([_I64(extent - 1) for extent in code.shape])
    with builder.if_else(builder.and_(first, last)) as (whole, part):
        with whole:
            _write_inside(code, target, branch.regions[0], test)
        with part, code.elements() as (slot, value):
            target.put(slot, value)


def _write_inside(
    code: TileCode, target: Elements, region: Region, place: Callable[[Sequence[ir.Value]], object]
) -> None:
    """Write elements of a region; `place` writes what the region needs of an element's indices."""

    def each() -> None:
        with code.slots() as slot:
            place(code.indices(slot))
            target.put(slot, write_region(code.emitter, region))

    load = _packed_load(code, target, region)
    if load is None:
        each()
        return
    place([_I64(0) for _ in code.shape])
    test = _begins_at_a_byte(code.emitter, load)
    with code.builder.if_else(test) as (fast, slow):
        with fast:
            _write_unpacked(code, target, load, place)
        with slow:
            each()


def write_taken(emitter: CpuEmitter, operation: Operation) -> None:
    """Write a tile of elements by their places in the rows of another tile."""
    code = TileCode(emitter, operation)
    target, source = map(code.tile, operation.operands[:2])
    taken = write_take(code, source, operation.attributes["extent"])
    with code.slots() as slot:
        target.put(slot, taken(slot))


def write_copy(emitter: CpuEmitter, operation: Operation) -> None:
    """Copy tiles to the memory in which a branch or loop hands them on."""
    code = TileCode(emitter, operation)
    half = len(operation.operands) // 2
    sources, targets = operation.operands[:half], operation.operands[half:]
    counts = [each.owner.attributes["shape"][0] for each in targets]  # type: ignore[union-attr]
    given = [code.tile(each) for each in sources]
    if set(sources) & set(targets):
        pairs = zip(given, counts, strict=True)
        given = [code.computed(each.kind, each, n, lambda value: value) for each, n in pairs]
    for source, target, count in zip(given, map(code.tile, targets), counts, strict=True):
        with code.loop(0, count) as index:
            target.set(index, source.get(index))
