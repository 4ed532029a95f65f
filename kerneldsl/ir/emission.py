"""Write the operations of a region as LLVM instructions of a function that is open.

Operations of Numba's are lowered by Numba's implementations. An array is an address and extents,
not Numba's structure of seven fields. A structure is made if an implementation takes one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from llvmlite import ir
from numba import types

from kerneldsl.ir.operations import Operation, Region, Value
from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.numba_internals.arrays import array_value

__all__ = ["ArrayParts", "Emitter"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_QUOTIENTS = (operator.floordiv, operator.ifloordiv)
_FLOATS = (types.float32, types.float64)
_implementations: WeakKeyDictionary[Any, dict[tuple[Any, Any], Any]] = WeakKeyDictionary()


@dataclass
class ArrayParts:
    """An array without gaps in C order."""

    #: Address of the first element, in any address space.
    data: ir.Value
    shape: list[ir.Value]
    kind: Any

    def structure(self, context: Any, builder: ir.IRBuilder) -> ir.Value:
        """Return Numba's structure of it."""
        data = self.data
        if data.type.addrspace:
            data = builder.addrspacecast(data, data.type.pointee.as_pointer())
        return array_value(context, builder, self.kind, data, self.shape)


class Emitter:
    """Writes regions; a target extends :attr:`handlers` by its own operations."""

    def __init__(self, context: Any, builder: ir.IRBuilder) -> None:
        self.context = context
        self.builder = builder
        self.values: dict[Value, Any] = {}
        #: Arguments of loops that are kept in 32 bits, and what they are there.
        self.narrow: dict[Value, ir.Value] = {}
        #: Arguments that may be kept so: what is known of them.
        self.fits_32: Callable[[Value], bool] = lambda value: False
        self.handlers: dict[str, Callable[[Operation], None]] = {
            "const": self.constant,
            "cast": self.cast,
            "numba": self.numba,
            "if": self.branch,
            "while": self.while_loop,
            "for": self.for_loop,
            "for_each": self.for_each,
            "array.size": self.size,
            "array.extent": self.extent,
            "array.part": self.part,
            "array.load": self.load,
            "array.store": self.store,
        }
        known = _implementations.get(context)
        self._implementations = _implementations.setdefault(context, {}) if known is None else known

    # -- regions ----------------------------------------------------------------------------------

    def region(self, region: Region) -> list[Any]:
        """Write a region; return what it yields."""
        self.operations(region.operations[:-1])
        return [self.get(value) for value in region.yielded]

    def operations(self, operations: Sequence[Operation]) -> None:
        """Write operations in their order."""
        for operation in operations:
            handler = self.handlers.get(operation.name)
            if handler is None:
                self.intrinsic(operation)
            else:
                handler(operation)

    def get(self, value: Value) -> Any:
        """Return what a value is in LLVM's terms."""
        found = self.values.get(value)
        if found is None:
            narrow = self.narrow[value]
            found = self.values[value] = self.builder.zext(narrow, _I64)
        return found

    def set(self, operation: Operation, *found: Any) -> None:
        """Set the results of an operation."""
        for value, each in zip(operation.results, found, strict=True):
            self.values[value] = each

    def intrinsic(self, operation: Operation) -> None:
        """Write an operation of the language."""
        raise NotImplementedError(operation.name)

    def call_emitter(self, operation: Operation, emit: Callable[[Call], Any], static: Any) -> None:
        """Write an operation by an emitter that takes Numba's values."""
        arguments = []
        for value in operation.operands:
            found = self.get(value)
            if isinstance(found, ArrayParts):
                found = found.structure(self.context, self.builder)
            arguments.append(found)
        call = Call(
            self.context, self.builder, operation.attributes["signature"], tuple(arguments), static
        )
        found = emit(call)
        if operation.results:
            self.set(operation, found)

    # -- numbers ----------------------------------------------------------------------------------

    def constant(self, operation: Operation) -> None:
        kind, value = operation.result.type, operation.attributes["value"]
        if kind == types.int64:
            self.set(operation, _I64(value))
        else:
            self.set(operation, self.context.get_constant(kind, value))

    def convert(self, value: Any, source: Any, target: Any) -> Any:
        """Convert a value by Numba's rules."""
        if source == target:
            return value
        if source == types.int64 and target == types.int32:
            if isinstance(value, ir.Constant):
                number = value.constant & 0xFFFFFFFF
                return _I32(number - (number >> 31 << 32))
            return self.builder.trunc(value, _I32)
        return self.context.cast(self.builder, value, source, target)

    def cast(self, operation: Operation) -> None:
        (value,) = operation.operands
        self.set(operation, self.convert(self.get(value), value.type, operation.result.type))

    def implementation(self, function: Any, signature: Any) -> Any:
        """Return Numba's implementation of an operation, looked up once in a process."""
        key = (function, signature)
        found = self._implementations.get(key)
        if found is None:
            found = self.context.get_function(function, signature)
            self._implementations[key] = found
        return found

    def numba(self, operation: Operation) -> None:
        signature = operation.attributes["signature"]
        kinds = signature.args
        has_rest = bool(kinds) and isinstance(kinds[-1], types.StarArgTuple | types.StarArgUniTuple)
        if has_rest:
            kinds = (*kinds[:-1], *kinds[-1].types)
        arguments = [
            self.convert(self.get(value), value.type, kind)
            for value, kind in zip(operation.operands, kinds, strict=True)
        ]
        if has_rest:
            first = len(signature.args) - 1
            rest = self.context.make_tuple(self.builder, signature.args[-1], arguments[first:])
            arguments = [*arguments[:first], rest]
        found = self.implementation(operation.attributes["function"], signature)
        self.set(operation, found(self.builder, arguments))

    # -- control ----------------------------------------------------------------------------------

    def branch(self, operation: Operation) -> None:
        yes, no = operation.regions
        builder = self.builder
        condition = self.get(operation.operands[0])
        name = f"{len(builder.function.blocks)}"
        has_no = len(no.operations) > 1 or bool(operation.results)
        then = builder.append_basic_block(f"then{name}")
        other = builder.append_basic_block(f"else{name}") if has_no else None
        end = builder.append_basic_block(f"end{name}")
        builder.cbranch(condition, then, other or end)
        ends = []
        for block, region in ((then, yes), (other, no)):
            if block is None:
                continue
            builder.position_at_end(block)
            found = self.region(region)
            ends.append((builder.block, found))
            builder.branch(end)
        builder.position_at_end(end)
        results = []
        for number, value in enumerate(operation.results):
            phi = builder.phi(ends[0][1][number].type, value.name)
            for block, found in ends:
                phi.add_incoming(found[number], block)
            results.append(phi)
        self.set(operation, *results)

    def _phis(self, values: list[Value], given: list[Any], before: Any) -> list[Any]:
        """Begin a loop: bind its arguments to phi nodes."""
        builder, phis = self.builder, []
        for value, first in zip(values, given, strict=True):
            is_narrow = self.fits_32(value)
            kind = _I32 if is_narrow else first.type
            phi = builder.phi(kind, value.name)
            if is_narrow:
                first = (
                    _I32(first.constant)
                    if isinstance(first, ir.Constant)
                    else self._cut(first, before)
                )
            phi.add_incoming(first, before)
            phis.append(phi)
        for value, phi in zip(values, phis, strict=True):
            if phi.type == _I32 and value.type == types.int64:
                self.narrow[value] = phi
                self.values[value] = builder.zext(phi, _I64)
            else:
                self.values[value] = phi
        return phis

    def _cut(self, value: Any, block: Any) -> Any:
        with self.builder.goto_block(block):
            return self.builder.trunc(value, _I32)

    def _next(self, phi: Any, argument: Value, yielded: Value) -> Any:
        """Return the value of a loop's argument in the next iteration."""
        if argument not in self.narrow:
            return self.get(yielded)
        made = yielded.owner
        if (
            isinstance(made, Operation)
            and made.name == "numba"
            and made.attributes["function"] in _QUOTIENTS
            and made.operands[0] is argument
        ):
            divisor = self.get(made.operands[1])
            if isinstance(divisor, ir.Constant) and divisor.constant > 0:
                return self.builder.udiv(phi, _I32(divisor.constant))
        return self.builder.trunc(self.get(yielded), _I32)

    def while_loop(self, operation: Operation) -> None:
        before, body = operation.regions
        builder = self.builder
        given = [self.get(value) for value in operation.operands]
        entry = builder.block
        name = f"{len(builder.function.blocks)}"
        head, inner, end = (
            builder.append_basic_block(f"{part}{name}") for part in ("while", "do", "done")
        )
        builder.branch(head)
        builder.position_at_end(head)
        phis = self._phis(before.arguments, given, entry)
        (condition,) = self.region(before)
        for one, two in zip(before.arguments, body.arguments, strict=True):
            self.values[two] = self.values[one]
            if one in self.narrow:
                self.narrow[two] = self.narrow[one]
        builder.cbranch(condition, inner, end)
        builder.position_at_end(inner)
        self.operations(body.operations[:-1])
        self.end_of_body(operation)
        for phi, argument, yielded in zip(phis, body.arguments, body.yielded, strict=True):
            phi.add_incoming(self._next(phi, argument, yielded), builder.block)
        builder.branch(head)
        builder.position_at_end(end)
        self.set(operation, *(self.values[value] for value in before.arguments))

    def end_of_body(self, operation: Operation) -> None:
        """Do what a target does at the end of a loop's body."""

    def for_loop(self, operation: Operation) -> None:
        (body,) = operation.regions
        builder = self.builder
        start, stop, step, *given = (self.get(value) for value in operation.operands)
        entry = builder.block
        name = f"{len(builder.function.blocks)}"
        head, inner, end = (
            builder.append_basic_block(f"{part}{name}") for part in ("for", "do", "done")
        )
        builder.branch(head)
        builder.position_at_end(head)
        counter, *phis = self._phis(body.arguments, [start, *given], entry)
        is_up = builder.icmp_signed("<", counter, stop)
        if not (isinstance(step, ir.Constant) and step.constant > 0):
            zero = step.type(0)
            is_down = builder.icmp_signed(">", counter, stop)
            is_down = builder.and_(is_down, builder.icmp_signed("<", step, zero))
            is_up = builder.and_(is_up, builder.icmp_signed(">", step, zero))
            is_up = builder.or_(is_up, is_down)
        builder.cbranch(is_up, inner, end)
        builder.position_at_end(inner)
        self.operations(body.operations[:-1])
        self.end_of_body(operation)
        counter.add_incoming(builder.add(counter, step), builder.block)
        for phi, argument, yielded in zip(phis, body.arguments[1:], body.yielded, strict=True):
            phi.add_incoming(self._next(phi, argument, yielded), builder.block)
        builder.branch(head)
        builder.position_at_end(end)
        self.set(operation, *(self.values[value] for value in body.arguments[1:]))

    def for_each(self, operation: Operation) -> None:
        """Write the body once for each constant."""
        (body,) = operation.regions
        carried = [self.get(value) for value in operation.operands]
        for number in operation.attributes["values"]:
            self.values[body.arguments[0]] = _I64(number)
            for argument, value in zip(body.arguments[1:], carried, strict=True):
                self.values[argument] = value
            carried = self.region(body)
        self.set(operation, *carried)

    # -- arrays -----------------------------------------------------------------------------------

    def size(self, operation: Operation) -> None:
        array = self.get(operation.operands[0])
        count, *others = array.shape
        for extent in others:
            count = self.builder.mul(count, extent)
        self.set(operation, count)

    def extent(self, operation: Operation) -> None:
        self.set(operation, self.get(operation.operands[0]).shape[operation.attributes["axis"]])

    def _index(self, array: ArrayParts, operation: Operation, values: list[Value]) -> ir.Value:
        builder = self.builder
        index: Any = None
        marks = operation.attributes["nonnegative"]
        for value, extent, is_marked in zip(values, array.shape, marks, strict=False):
            each = self.get(value)
            if not is_marked and value.type.signed:
                wrapped = builder.add(each, extent)
                each = builder.select(builder.icmp_signed("<", each, _I64(0)), wrapped, each)
            index = each if index is None else builder.add(builder.mul(index, extent), each)
        return index

    def part(self, operation: Operation) -> None:
        array, *values = operation.operands
        parts = self.get(array)
        index = self._index(parts, operation, values)
        rest = parts.shape[len(values) :]
        for extent in rest:
            index = self.builder.mul(index, extent)
        data = self.builder.gep(parts.data, [index])
        self.set(operation, ArrayParts(data, rest, operation.result.type))

    def element(self, operation: Operation, values: list[Value]) -> ir.Value:
        """Return the address of the element that an operation reads or writes."""
        parts = self.get(operation.operands[0])
        return self.builder.gep(parts.data, [self._index(parts, operation, values)])

    def load(self, operation: Operation) -> None:
        stored = self.read(self.element(operation, operation.operands[1:]))
        kind = operation.result.type
        if kind not in _FLOATS:
            stored = self.context.data_model_manager[kind].from_data(self.builder, stored)
        self.set(operation, stored)

    def store(self, operation: Operation) -> None:
        *_, value = operation.operands
        found = self.get(value)
        if value.type not in _FLOATS:
            found = self.context.data_model_manager[value.type].as_data(self.builder, found)
        self.write(found, self.element(operation, operation.operands[1:-1]))

    def read(self, place: Any) -> Any:
        """Load an element."""
        return self.builder.load(place)

    def write(self, value: Any, place: Any) -> None:
        """Store an element."""
        self.builder.store(value, place)
