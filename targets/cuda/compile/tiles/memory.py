"""Loads and stores of tiles.

A thread moves a group of neighbours by one instruction if the whole tile is within the array, and
if the group's place allows it. Otherwise it moves element by element, each tested.

References
----------
CUDA C++ Programming Guide, section "Device Memory Accesses".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types

from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.operations import Effect, Operation, Value
from kerneldsl.ir.tiles.elements import Slot, write_place
from kerneldsl.ir.tiles.layout import Layout
from targets.cuda.compile.tiles.elements import OperationCode
from targets.cuda.compile.tiles.thread_code import Memory

if TYPE_CHECKING:
    from targets.cuda.compile.mma.boxes import BoxWriter
    from targets.cuda.compile.tiles.writer import TileWriter


__all__ = ["is_harmless", "write_load", "write_store"]

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
#: Operations that access no memory, and that end.
_HARMLESS = frozenset(
    {"cast", "const", "if", "labeled", "leave", "numba", "undefined", "unreachable", "yield"}
)
#: Most bytes that one instruction loads or stores.
_MAX_BYTES = 16
#: Types in memory that vectors are made of.
_SCALAR = (ir.IntType, ir.FloatType, ir.DoubleType, ir.HalfType)


def write_load(writer: TileWriter, operation: Operation) -> None:
    """Write a tile of the elements of an array."""
    array, other, *at = operation.operands
    code = OperationCode(writer, operation)
    access = Access(writer, code, array, at)
    if writer.layouts is not None and (factor := writer.layouts.factor(operation)) is not None:
        from targets.cuda.compile.mma.copies import write_factor

        write_factor(writer, operation, factor)
        return
    if writer.layouts is not None and writer.factors.is_early(operation):
        from targets.cuda.compile.mma.copies import read_staged

        read_staged(writer, operation, code.tile(operation.result))
        return
    target, rest = code.tile(operation.result), writer.emitter.get(other)

    def converted(value: ir.Value) -> ir.Value:
        return writer.emitter.convert(value, array.type.dtype, target.kind)

    def each(*, has_all: bool = False) -> None:
        with (
            writer.written(target),
            access.slots(has_all=has_all) as (slot, is_inside, indices),
            code.builder.if_else(is_inside) as (yes, no),
        ):
            with yes:
                target.put(slot, converted(access.read(indices)))
            with no:
                target.put(slot, rest)

    def groups() -> None:
        with access.groups() as (index, number):
            values = access.read_group(access.parts.data, index, array.type.dtype)
            access.write_group(target.memory.data, number, target.kind, map(converted, values))

    if len(at) == 1 and not target.is_shared:
        access.move(target.kind, groups, lambda: each(has_all=True))
        return
    if writer.layouts is not None:
        from targets.cuda.compile.mma.fragments import RowFragments

        if isinstance(code.layout, RowFragments):
            from targets.cuda.compile.mma.fragment_stores import is_whole

            with code.builder.if_else(is_whole(access, code.layout)) as (whole, part):
                with whole, access.slots() as (slot, _, indices):
                    target.put(slot, converted(access.read(indices)))
                with part:
                    each()
            return
    each()


def write_store(
    writer: TileWriter, operation: Operation, store_boxes: BoxWriter | None = None
) -> None:
    """Write the elements of an expression to an array; whole tiles by `store_boxes`, if given."""
    code = OperationCode(writer, operation)
    array, *at = operation.operands[: 1 + len(code.shape)]
    access = Access(writer, code, array, at)
    if operation.attributes.get("waits"):
        _store_afterwards(code, access)
    elif len(at) > 1:
        _store_rows(code, access, store_boxes)
    elif all(map(is_harmless, operation.regions[0].walk())):
        _store_neighbours(code, access)
    else:
        # The expression may fail or have effects, so it is computed only for elements within the
        # array.
        with code.builder.if_else(access.is_wide()) as (wide, narrow):
            with wide:
                _store_neighbours(code, access)
            with narrow:
                access.store(code.element)


def _store_rows(code: OperationCode, access: Access, store_boxes: BoxWriter | None) -> None:
    """Compute and store the elements of a tile with two axes."""
    if isinstance(code.layout, Layout) or not access.may_be_in_vectors:
        access.store(code.element)
        return
    from targets.cuda.compile.mma.fragment_stores import has_vectors, is_whole, store_vectors
    from targets.cuda.compile.mma.fragments import Fragments

    if not isinstance(code.layout, Fragments):
        access.store(code.element)
        return
    rows = None if store_boxes is None else store_boxes.rows
    test = is_whole if store_boxes is not None else has_vectors
    with code.builder.if_else(test(access, code.layout, rows)) as (whole, part):
        with whole:
            (store_boxes or store_vectors)(access, code.layout, code.element)
        with part:
            if rows is None:
                access.store(code.element)
            else:
                none = (access.starts[0], 0)
                with code.builder.if_else(has_vectors(access, code.layout, none)) as (yes, no):
                    with yes:
                        end = access.parts.shape[0]
                        store_vectors(access, code.layout, code.element, end)
                    with no:
                        access.store(code.element)


def is_harmless(operation: Operation) -> bool:
    """Return whether an operation may run for elements that are beyond the bounds of an array."""
    numbers = types.Number | types.Boolean | types.NoneType | types.BaseTuple
    return (
        operation.name in _HARMLESS
        and operation.effect in (Effect.NONE, Effect.LEAVE)
        and all(isinstance(value.type, numbers) for value in operation.operands)
    )


def _store_neighbours(code: OperationCode, access: Access) -> None:
    """Compute all elements, and store groups of neighbours if possible."""
    own = code.held(access.dtype)

    def groups() -> None:
        with access.groups() as (index, number):
            values = access.read_group(own.data, number, own.kind)
            access.write_group(access.parts.data, index, access.dtype, values)

    access.move(own.kind, groups, lambda: access.store(_held(own), has_all=True))


def _store_afterwards(code: OperationCode, access: Access) -> None:
    """Compute each element that the array has a place for, then store them."""
    own = code.registers(access.dtype)
    with access.slots() as (slot, is_inside, _), code.builder.if_then(is_inside):
        own.set(slot.slot, code.element(slot))
    access.thread.wait()
    access.store(_held(own))


def _held(own: Memory) -> Callable[[Slot], ir.Value]:
    return lambda slot: own.get(slot.slot)


class Access:
    """The elements of an array that belong to a tile."""

    def __init__(
        self, writer: TileWriter, code: OperationCode, array: Value, at: list[Value]
    ) -> None:
        emitter = writer.emitter
        self._context, self.builder = emitter.context, emitter.builder
        self._code, self._layout = code, code.layout
        self.thread = writer.code
        found = emitter.wrapped(emitter.get(array), array.type)
        if found.kind.layout != "C":
            # LLVM computes products with strides before the loops.
            strides = found.byte_strides(self._context, self.builder)
            found = ArrayParts(found.data, found.shape, found.kind, strides)
        self.parts = found
        #: Type of the elements, and how they are in memory.
        self.dtype = array.type.dtype
        self._model = self._context.data_model_manager[self.dtype]
        stored = self._context.get_data_type(self.dtype)
        #: Whether vectors of elements may be accessed.
        self.may_be_in_vectors = isinstance(stored, _SCALAR)
        self.item_bytes = self._context.get_abi_sizeof(stored)
        self._may_be_wide = array.type.layout == "C" and self.may_be_in_vectors
        #: The index of the first element along each axis.
        self.starts = [write_place(emitter, place) for place in at]

    # -- element by element -----------------------------------------------------------------------

    @contextmanager
    def slots(
        self, *, has_all: bool = False
    ) -> Iterator[tuple[Slot, ir.Value, Sequence[ir.Value]]]:
        """Repeat code for each of the thread's elements.

        It gets whether the array has a place for the element, and its indices there. With `has_all`
        it also runs for slots that have no element, and no place then.
        """
        builder = self.builder
        with self.thread.slots(self._layout, has_all=has_all) as slot:
            pairs = zip(self.starts, self._code.indices(slot), strict=True)
            indices = [builder.add(*pair) for pair in pairs]
            tests = []
            for index, extent in zip(indices, self.parts.shape, strict=True):
                tests.append(builder.icmp_signed(">=", index, _I64(0)))
                tests.append(builder.icmp_signed("<", index, extent))
            if has_all and not self._layout.is_even:
                tests.append(self.thread.is_below(slot.index, self._layout.count))
            is_inside, *others = tests
            for test in others:
                is_inside = builder.and_(is_inside, test)
            yield slot, is_inside, indices

    def store(self, value: Callable[[Slot], ir.Value], *, has_all: bool = False) -> None:
        """Store each element that the array has a place for."""
        builder = self.builder
        with (
            self.slots(has_all=has_all) as (slot, is_inside, indices),
            builder.if_then(builder.and_(is_inside, self._is_first())),
        ):
            place = self.parts.element(builder, indices)
            builder.store(self._model.as_data(builder, value(slot)), place)

    def _is_first(self) -> ir.Value:
        """Say whether the thread stores its elements, if several threads have them."""
        repeated = getattr(self._layout, "is_first", None)
        return _I1(1) if repeated is None else repeated(self.builder, self.thread.thread)

    def stored(self, value: ir.Value) -> ir.Value:
        """Return an element as it is in a vector in memory."""
        found = self._model.as_data(self.builder, value)
        return self.builder.bitcast(found, _lanes(found.type))

    def read(self, indices: Sequence[ir.Value]) -> ir.Value:
        loaded = self.builder.load(self.parts.element(self.builder, indices))
        return self._model.from_data(self.builder, loaded)

    # -- groups of neighbours ---------------------------------------------------------------------

    def move(self, own: Any, groups: Callable[[], None], each: Callable[[], None]) -> None:
        """Move elements from or to registers of a type: group by group if possible."""
        stored = self._context.get_data_type(own)
        if self._layout.group == 1 or not isinstance(stored, _SCALAR) or not self._may_be_wide:
            each()
        else:
            with self.builder.if_else(self.is_wide()) as (wide, narrow):
                with wide:
                    groups()
                with narrow:
                    each()

    def is_wide(self) -> ir.Value:
        """Say whether the tile is within the array, and groups may be accessed."""
        builder, (first, *_), layout = self.builder, self.starts, self._layout
        if not self._may_be_wide:
            return _I1(0)
        end = builder.add(first, _I64(layout.count))
        inside = builder.and_(
            builder.icmp_signed(">=", first, _I64(0)),
            builder.icmp_signed("<=", end, self.parts.shape[0]),
        )
        nbytes = layout.group * self._context.get_abi_sizeof(self.parts.data.type.pointee)
        place = builder.ptrtoint(builder.gep(self.parts.data, [first]), _I64)
        rest = builder.and_(place, _I64(nbytes - 1))
        return builder.and_(inside, builder.icmp_unsigned("==", rest, _I64(0)))

    @contextmanager
    def groups(self) -> Iterator[tuple[ir.Value, ir.Value]]:
        """Repeat code for each of the thread's groups.

        It gets the index of the first element in the array, and its number in registers.
        """
        builder, group = self.builder, _I64(self._layout.group)
        with self.thread.unrolled(self._layout.rounds) as turn:
            number = builder.add(builder.mul(turn, _I64(self._layout.threads)), self.thread.thread)
            index = builder.add(self.starts[0], builder.mul(number, group))
            yield index, builder.mul(turn, group)

    def read_group(self, data: ir.Value, start: ir.Value, kind: Any) -> list[ir.Value]:
        """Return neighbours, loaded by wide instructions."""
        builder, stored = self.builder, self._context.get_data_type(kind)
        model, values = self._context.data_model_manager[kind], []
        for place, vector in self._vectors(data, start, stored):
            loaded = builder.load(place)
            loaded.align = vector.count * self._context.get_abi_sizeof(stored)
            for lane in range(vector.count):
                each = builder.extract_element(loaded, _I32(lane))
                values.append(model.from_data(builder, builder.bitcast(each, stored)))
        return values

    def write_group(
        self,
        data: ir.Value,
        start: ir.Value,
        kind: Any,
        values: Iterator[ir.Value] | list[ir.Value],
    ) -> None:
        """Store neighbours by wide instructions."""
        builder, stored = self.builder, self._context.get_data_type(kind)
        model = self._context.data_model_manager[kind]
        left = [builder.bitcast(model.as_data(builder, value), _lanes(stored)) for value in values]
        for place, vector in self._vectors(data, start, stored):
            whole: ir.Value = ir.Constant(vector, ir.Undefined)
            for lane in range(vector.count):
                whole = builder.insert_element(whole, left.pop(0), _I32(lane))
            saved = builder.store(whole, place)
            saved.align = vector.count * self._context.get_abi_sizeof(stored)

    def _vectors(
        self, data: ir.Value, start: ir.Value, stored: ir.Type
    ) -> Iterator[tuple[ir.Value, ir.VectorType]]:
        """Yield the address and the type of the vectors that a group is made of."""
        builder, group = self.builder, self._layout.group
        width = min(group, max(1, _MAX_BYTES // self._context.get_abi_sizeof(stored)))
        vector = ir.VectorType(_lanes(stored), width)
        for offset in range(0, group, width):
            at = builder.gep(data, [builder.add(start, _I64(offset))])
            yield builder.bitcast(at, vector.as_pointer(at.type.addrspace)), vector


def _lanes(kind: ir.Type) -> ir.Type:
    """Return the type of a vector's elements for a type in memory."""
    return ir.IntType(16) if isinstance(kind, ir.HalfType) else kind
