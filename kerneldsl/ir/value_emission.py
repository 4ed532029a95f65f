"""Values of arrays, tuples and records as LLVM instructions, and how implementations take them.

A value is what LLVM computes with, an :class:`~kerneldsl.ir.array_parts.ArrayParts`, or a tuple of
such.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.ir.array_parts import ArrayParts, generic
from kerneldsl.ir.operations import Operation, Value

__all__ = ["ValueEmitter"]

_I64 = ir.IntType(64)


class ValueEmitter:
    """Writes operations on arrays, tuples, attributes and elements."""

    context: Any
    builder: ir.IRBuilder
    values: dict[Value, Any]
    handlers: dict[str, Callable[[Operation], None]]

    def add_handlers(self) -> None:
        """Register what it writes."""
        self.handlers |= {
            "array.size": self.size,
            "array.extent": self.extent,
            "array.stride": self.stride,
            "array.part": self.part,
            "array.view": self.view,
            "array.transpose": self.transpose,
            "array.load": self.load,
            "array.store": self.store,
            "packed.load": self.load_packed,
            "tuple.make": self.make_tuple,
            "tuple.member": self.member,
            "attribute": self.attribute,
            "item": self.item,
            "item.set": self.set_item,
            "bound": self.nothing,
        }

    def get(self, value: Value) -> Any:
        raise NotImplementedError

    def set(self, operation: Operation, *found: Any) -> None:
        for value, each in zip(operation.results, found, strict=True):
            self.values[value] = each

    def nothing(self, operation: Operation) -> None:
        """Write nothing for a result that no instruction reads."""
        self.set(operation, self.context.get_dummy_value())

    # -- as Numba has them ------------------------------------------------------------------------

    def plain(self, found: Any, kind: Any) -> ir.Value:
        """Return what Numba's implementations take for a value of a type."""
        if isinstance(found, ArrayParts):
            return found.structure(self.context, self.builder)
        if isinstance(found, tuple):
            members = [self.plain(*each) for each in zip(found, kind.types, strict=True)]
            return self.context.make_tuple(self.builder, kind, members)
        return found

    def wrapped(self, found: ir.Value, kind: Any) -> Any:
        """Return a value that may be as an implementation of Numba's gave it."""
        if isinstance(kind, types.Array) and not isinstance(found, ArrayParts):
            return ArrayParts.of_structure(self.context, self.builder, kind, found)
        return found

    def convert(self, value: Any, source: Any, target: Any) -> Any:
        """Convert a value by Numba's rules."""
        if source == target:
            return value
        if isinstance(value, ArrayParts) and isinstance(target, types.Array):
            return value.as_kind(self.context, self.builder, target)
        if isinstance(value, tuple) and isinstance(target, types.BaseTuple):
            each = zip(value, source.types, target.types, strict=True)
            return tuple(self.convert(*member) for member in each)
        plain = self.plain(value, source)
        return self.wrapped(self.context.cast(self.builder, plain, source, target), target)

    def converted(self, value: Value, kind: Any) -> ir.Value:
        """Return a value as Numba's implementations take it for a parameter of a type."""
        return self.plain(self.convert(self.get(value), value.type, kind), kind)

    def make_tuple(self, operation: Operation) -> None:
        kinds = operation.result.type.types
        pairs = zip(operation.operands, kinds, strict=True)
        self.set(operation, tuple(self.convert(self.get(v), v.type, k) for v, k in pairs))

    def member(self, operation: Operation) -> None:
        (whole,), number = operation.operands, operation.attributes["number"]
        found = self.get(whole)
        if not isinstance(found, tuple):
            part = self.builder.extract_value(found, number)
            self.set(operation, self.wrapped(part, operation.result.type))
            return
        self.set(operation, found[number])

    # -- as several LLVM values -------------------------------------------------------------------

    def parts(self, found: Any, block: Any, *, in_any_memory: bool = False) -> list[ir.Value]:
        """Return the LLVM values of a value that control brings from a block to another one.

        Arrays of one type may be in different memory, and their strides known or not.
        """
        if isinstance(found, tuple):
            each = (self.parts(member, block, in_any_memory=in_any_memory) for member in found)
            return [part for parts in each for part in parts]
        if not isinstance(found, ArrayParts):
            return [found]
        with self.builder.goto_block(block):
            data = generic(self.builder, found.data) if in_any_memory else found.data
            strides = []
            if found.kind.layout == "A":
                strides = found.byte_strides(self.context, self.builder)
        return [data, *found.shape, *strides]

    def of_parts(self, found: Any, parts: Iterator[ir.Value]) -> Any:
        """Return a value like another one, of other LLVM values."""
        if isinstance(found, tuple):
            return tuple(self.of_parts(member, parts) for member in found)
        if not isinstance(found, ArrayParts):
            return next(parts)
        data, shape = next(parts), [next(parts) for _ in found.shape]
        strides = [next(parts) for _ in shape] if found.kind.layout == "A" else None
        return ArrayParts(data, shape, found.kind, strides)

    # -- attributes and items ---------------------------------------------------------------------

    def attribute(self, operation: Operation) -> None:
        (whole,), kind = operation.operands, operation.result.type
        name = operation.attributes["attribute"]
        read = self.context.get_getattr(whole.type, name)
        value = self.plain(self.get(whole), whole.type)
        found = read(self.context, self.builder, whole.type, value, name)
        self.set(operation, self.wrapped(found, kind))

    def item(self, operation: Operation) -> None:
        (whole,), signature = operation.operands, operation.attributes["signature"]
        read = self.context.get_function("static_getitem", signature)
        value = self.plain(self.get(whole), whole.type)
        found = read(self.builder, (value, operation.attributes["index"]))
        kinds = signature.return_type, operation.result.type
        self.set(operation, self.convert(self.wrapped(found, kinds[0]), *kinds))

    def set_item(self, operation: Operation) -> None:
        whole, value = operation.operands
        signature = operation.attributes["signature"]
        write = self.context.get_function("static_setitem", signature)
        target = self.plain(self.get(whole), whole.type)
        given = self.converted(value, signature.args[2])
        write(self.builder, (target, operation.attributes["index"], given))

    # -- arrays -----------------------------------------------------------------------------------

    def size(self, operation: Operation) -> None:
        count, *others = self.shape(operation.operands[0]) or [_I64(1)]
        for extent in others:
            count = self.builder.mul(count, extent)
        self.set(operation, count)

    def extent(self, operation: Operation) -> None:
        self.set(operation, self.shape(operation.operands[0])[operation.attributes["axis"]])

    def shape(self, array: Value) -> list[ir.Value]:
        """Return the extents of an array, or of a view of packed numbers."""
        found = self.get(array)
        if isinstance(found, ArrayParts):
            return found.shape
        from kerneldsl.lowering.packed_views import packed_extents  # few kernels have one

        return packed_extents(self.context, self.builder, array.type, found)

    def stride(self, operation: Operation) -> None:
        strides = self.get(operation.operands[0]).byte_strides(self.context, self.builder)
        self.set(operation, strides[operation.attributes["axis"]])

    def indices(
        self, array: ArrayParts, operation: Operation, values: list[Value]
    ) -> list[ir.Value]:
        """Return the indices of an access; those that may be negative count from the end."""
        builder, found = self.builder, []
        marks = operation.attributes["nonnegative"]
        for value, extent, is_marked in zip(values, array.shape, marks, strict=False):
            each = self.get(value)
            if not is_marked and value.type.signed:
                wrapped = builder.add(each, extent)
                each = builder.select(builder.icmp_signed("<", each, _I64(0)), wrapped, each)
            found.append(each)
        return found

    def part(self, operation: Operation) -> None:
        array, *values = operation.operands
        parts, kind = self.get(array), operation.result.type
        indices = self.indices(parts, operation, values)
        self.set(operation, parts.part(self.context, self.builder, indices, kind))

    def view(self, operation: Operation) -> None:
        array, *values = operation.operands
        marks = operation.attributes["nonnegative"]
        kinds, found = list(operation.attributes["kinds"]), []
        for number, value in enumerate(values):
            if marks[number] and isinstance(kinds[number], types.Integer):
                kinds[number] = types.uint64
            found.append(self.converted(value, kinds[number]))
        parts = self.get(array)
        made = parts.view(self.context, self.builder, kinds, found, operation.result.type)
        self.set(operation, made)

    def transpose(self, operation: Operation) -> None:
        parts, kind = self.get(operation.operands[0]), operation.result.type
        self.set(operation, parts.transposed(self.context, self.builder, kind))

    def element(self, operation: Operation, values: list[Value]) -> ir.Value:
        """Return the address of the element that an operation reads or writes."""
        parts = self.get(operation.operands[0])
        return parts.element(self.builder, self.indices(parts, operation, values))

    def load(self, operation: Operation) -> None:
        place = self.element(operation, operation.operands[1:])
        self.set(operation, self.read_element(operation.operands[0].type, place))

    def store(self, operation: Operation) -> None:
        array, *_, value = operation.operands
        place = self.element(operation, operation.operands[1:-1])
        self.write_element(array.type, self.get(value), place)

    def load_packed(self, operation: Operation) -> None:
        view, *indices = operation.operands
        marks = operation.attributes["nonnegative"]
        pairs = zip(indices, marks, strict=True)
        kinds = [types.uint64 if is_marked else each.type for each, is_marked in pairs]
        values = [self.converted(*each) for each in zip(indices, kinds, strict=True)]
        index, kind = values[0], kinds[0]
        if len(kinds) > 1:
            kind = types.Tuple(kinds)
            index = self.context.make_tuple(self.builder, kind, values)
        signature = operation.result.type(view.type, kind)
        read = self.context.get_function(operator.getitem, signature)
        self.set(operation, read(self.builder, [self.get(view), index]))

    def read_element(self, array: Any, place: ir.Value) -> ir.Value:
        """Load an element of an array of a type; a record is its address."""
        kind = array.dtype
        if array.aligned and isinstance(kind, types.Integer | types.Float | types.Boolean):
            return self.context.data_model_manager[kind].from_data(self.builder, self.read(place))
        if isinstance(kind, types.Record):
            place = generic(self.builder, place)
        align = None if array.aligned else 1
        return self.context.unpack_value(self.builder, kind, place, align)

    def write_element(self, array: Any, value: ir.Value, place: ir.Value) -> None:
        """Store an element of an array of a type."""
        kind = array.dtype
        if array.aligned and not isinstance(kind, types.Record):
            model = self.context.data_model_manager[kind]
            self.write(model.as_data(self.builder, value), place)
        else:
            align = None if array.aligned else 1
            self.context.pack_value(self.builder, kind, value, place, align)

    def read(self, place: Any) -> Any:
        """Load an element."""
        return self.builder.load(place)

    def write(self, value: Any, place: Any) -> None:
        """Store an element."""
        self.builder.store(value, place)
