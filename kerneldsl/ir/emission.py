"""Write the operations of a region as LLVM instructions of a function that is open.

Operations of Numba's are lowered by Numba's implementations. Arrays, tuples and records are written
by :mod:`kerneldsl.ir.value_emission`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from llvmlite import ir
from numba import types

from kerneldsl.ir.operations import Operation, Region, Value
from kerneldsl.ir.value_emission import ValueEmitter
from kerneldsl.lowering.calls import Call

__all__ = ["Emitter"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_QUOTIENTS = (operator.floordiv, operator.ifloordiv)
_implementations: WeakKeyDictionary[Any, dict[tuple[Any, Any], Any]] = WeakKeyDictionary()


class Emitter(ValueEmitter):
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
        }
        self.add_handlers()
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

    def intrinsic(self, operation: Operation) -> None:
        """Write an operation of the language."""
        raise NotImplementedError(operation.name)

    def call_emitter(self, operation: Operation, emit: Callable[[Call], Any], static: Any) -> None:
        """Write an operation by an emitter that takes Numba's values."""
        signature = operation.attributes["signature"]
        pairs = zip(operation.operands, signature.args, strict=True)
        arguments = tuple(self.converted(value, kind) for value, kind in pairs)
        found = emit(Call(self.context, self.builder, signature, arguments, static))
        if operation.results:
            self.set(operation, self.wrapped(found, operation.result.type))

    # -- numbers ----------------------------------------------------------------------------------

    def constant(self, operation: Operation) -> None:
        kind, value = operation.result.type, operation.attributes["value"]
        if kind == types.int64:
            self.set(operation, _I64(value))
        elif isinstance(kind, types.Number | types.Boolean):
            self.set(operation, self.context.get_constant(kind, value))
        else:
            found = self.context.get_constant_generic(self.builder, kind, value)
            self.set(operation, self.wrapped(found, kind))

    def convert(self, value: Any, source: Any, target: Any) -> Any:
        if source == types.int64 and target == types.int32:
            if isinstance(value, ir.Constant):
                number = value.constant & 0xFFFFFFFF
                return _I32(number - (number >> 31 << 32))
            return self.builder.trunc(value, _I32)
        return super().convert(value, source, target)

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
        kinds = signature.args if signature.recvr is None else (signature.recvr, *signature.args)
        pairs = zip(operation.operands, kinds, strict=True)
        arguments = [self.converted(value, kind) for value, kind in pairs]
        found = self.implementation(operation.attributes["function"], signature)
        result = found(self.builder, arguments)
        if operation.results:
            kinds = signature.return_type, operation.result.type
            self.set(operation, self.convert(self.wrapped(result, kinds[0]), *kinds))

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
            self.begin(block)
            found = self.region(region)
            ends.append((builder.block, found))
            builder.branch(end)
        self.begin(end)
        results = []
        for number, value in enumerate(operation.results):
            phi = builder.phi(ends[0][1][number].type, value.name)
            for block, found in ends:
                phi.add_incoming(found[number], block)
            results.append(phi)
        self.set(operation, *results)

    def begin(self, block: ir.Block) -> None:
        """Go on in a block, after all others: LLVM begins with the order of the source."""
        blocks = self.builder.function.blocks
        blocks.remove(block)
        blocks.append(block)
        self.builder.position_at_end(block)

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
