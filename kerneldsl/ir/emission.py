"""Write the operations of a region as LLVM instructions of a function that is open.

Operations of Numba's are lowered by Numba's implementations. Arrays, tuples and records are written
by :mod:`kerneldsl.ir.value_emission`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from llvmlite import ir
from numba import errors, types

from kerneldsl.ir.operations import Label, Operation, Region, SourcePlace, Value
from kerneldsl.ir.recognize import OPERATORS, operator_of
from kerneldsl.ir.refusals import as_refusal
from kerneldsl.ir.value_emission import ValueEmitter
from kerneldsl.lowering.calls import Call

__all__ = ["Emitter"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_LARGEST = 2**31 - 1
#: Instructions of updates in 32 bits.
_UPDATES = {
    operator.floordiv: "udiv",
    operator.mul: "mul",
    operator.lshift: "shl",
    operator.rshift: "lshr",
}
_implementations: WeakKeyDictionary[Any, dict[tuple[Any, Any], Any]] = WeakKeyDictionary()


class Emitter(ValueEmitter):
    """Writes regions; a target extends :attr:`handlers` by its own operations."""

    def __init__(self, context: Any, builder: ir.IRBuilder) -> None:
        self.context = context
        self.builder = builder
        self.values: dict[Value, Any] = {}
        #: Arguments of loops that are kept in 32 bits, with their values of 32 bits.
        self.narrow: dict[Value, ir.Value] = {}
        #: Returns whether an argument is known to fit 32 bits.
        self.fits_32: Callable[[Value], bool] = lambda value: False
        #: Marks the written instructions with a place in the source.
        self.mark: Callable[[SourcePlace], None] | None = None
        #: Maps each label to the block after its operation, and to the predecessors of that block
        #: with the values that each of them passes.
        self.labels: dict[Label, tuple[Any, list[tuple[Any, list[Any]]]]] = {}
        self.handlers: dict[str, Callable[[Operation], None]] = {
            "const": self.constant,
            "cast": self.cast,
            "numba": self.numba,
            "undefined": self.undefined,
            "if": self.branch,
            "labeled": self.labeled,
            "leave": self.leave,
            "unreachable": self.unreachable,
            "while": self.while_loop,
            "for": self.for_loop,
            "for_each": self.for_each,
        }
        self.add_handlers()
        known = _implementations.get(context)
        self._implementations = _implementations.setdefault(context, {}) if known is None else known

    # -- regions ----------------------------------------------------------------------------------

    def region(self, region: Region) -> list[Any]:
        """Write a region that control does not leave; return what it yields."""
        found = self.part_of_control(region)
        assert found is not None
        return found

    def part_of_control(self, region: Region) -> list[Any] | None:
        """Write a region; return what it yields, ``None`` if control never gets to its end."""
        if region.is_left:
            self.operations(region.operations)
            return None
        self.operations(region.operations[:-1])
        return [self.get(value) for value in region.yielded]

    def operations(self, operations: Sequence[Operation]) -> None:
        for operation in operations:
            if self.mark is not None and operation.place is not None:
                self.mark(operation.place)
            try:
                self.handlers.get(operation.name, self.intrinsic)(operation)
            except errors.NumbaError as error:
                refusal = as_refusal(error)
                refusal.place = refusal.place or operation.place
                raise refusal from (error if refusal is not error else error.__cause__)

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
        found = self.emitted(operation, operation.operands, emit, static)
        if operation.results:
            self.set(operation, self.wrapped(found, operation.result.type))

    def emitted(
        self,
        operation: Operation,
        operands: Sequence[Value],
        emit: Callable[[Call], Any],
        static: Any,
    ) -> Any:
        """Write what an emitter writes of an operation, for its operands or none of them."""
        signature = operation.attributes["signature"]
        from kerneldsl.lowering.groups import WrittenOperation  # many kernels call none

        values, regions = iter(operands), iter(operation.regions)
        kinds, arguments = list(signature.args), []
        for position, kind in enumerate(kinds):
            if isinstance(kind, WrittenOperation):
                kinds[position] = WrittenOperation(partial(self.combined, next(regions)))
                arguments.append(self.context.get_dummy_value())
            elif operands:
                arguments.append(self.converted(next(values), kind))
        signature = signature.replace(args=tuple(kinds))
        found = emit(Call(self.context, self.builder, signature, tuple(arguments), static))
        return self.context.get_dummy_value() if found is None else found

    def combined(self, region: Region, *values: ir.Value) -> ir.Value:
        """Write a region of some values; return the one that it yields."""
        self.values.update(zip(region.arguments, values, strict=True))
        (found,) = self.region(region)
        return found

    # -- numbers ----------------------------------------------------------------------------------

    def constant(self, operation: Operation) -> None:
        kind, value = operation.result.type, operation.attributes["value"]
        if kind == types.int64:
            self.set(operation, _I64(value))
        elif isinstance(kind, types.Number | types.Boolean):
            self.set(operation, self.context.get_constant(kind, value))
        elif isinstance(kind, types.StringLiteral):
            self.nothing(operation)  # its type is what implementations read
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

    def implementation(self, function: Any, signature: Any, call: Any = None) -> Any:
        """Return Numba's implementation of an operation, looked up once in a process.

        `call` has the types by which a call is typed: arguments, and those of keywords.
        """
        key = (function, signature)
        found = self._implementations.get(key)
        if found is None:
            typing = self.context.typing_context
            if function in OPERATORS:
                function, call = typing.resolve_value_type(function), (signature.args, {})
            if call is not None:
                # Numba finds what was compiled for a call when it was typed last, by any target.
                typing.resolve_function_type(function, *call)
            found = self.context.get_function(function, signature)
            self._implementations[key] = found
        return found

    def numba(self, operation: Operation) -> None:
        signature = operation.attributes["signature"]
        kinds = signature.args if signature.recvr is None else (signature.recvr, *signature.args)
        pairs = zip(operation.operands, kinds, strict=True)
        arguments = [self.converted(value, kind) for value, kind in pairs]
        function, call = (operation.attributes.get(each) for each in ("function", "call"))
        found = self.implementation(function, signature, call)
        result = found(self.builder, arguments)
        if operation.results:
            if result is None:  # as of a program's intrinsic
                raise errors.LoweringError("non-void function returns None from implementation")
            kinds = signature.return_type, operation.result.type
            self.set(operation, self.convert(self.wrapped(result, kinds[0]), *kinds))

    # -- control ----------------------------------------------------------------------------------

    def branch(self, operation: Operation) -> None:
        yes, no = operation.regions
        builder = self.builder
        name = f"{len(builder.function.blocks)}"
        has_no = len(no.operations) > 1 or no.is_left or bool(operation.results)
        then = builder.append_basic_block(f"then{name}")
        other = builder.append_basic_block(f"else{name}") if has_no else None
        end = builder.append_basic_block(f"end{name}")
        self.branch_on(operation.operands[0], then, other or end)
        ends = []
        for block, region in ((then, yes), (other, no)):
            if block is None:
                continue
            self.begin(block)
            found = self.part_of_control(region)
            if found is not None:
                ends.append((builder.block, found))
                builder.branch(end)
        self.begin(end)
        self.join(operation, ends)

    def branch_on(self, condition: Value, yes: ir.Block, no: ir.Block) -> None:
        """Go to one of two blocks, which have no phi nodes for this."""
        self.builder.cbranch(self.get(condition), yes, no)

    def begin(self, block: ir.Block) -> None:
        """Go on in a block, after all others: LLVM begins with the order of the source."""
        blocks = self.builder.function.blocks
        blocks.remove(block)
        blocks.append(block)
        self.builder.position_at_end(block)

    def join(self, operation: Operation, ends: list[tuple[Any, list[Any]]]) -> None:
        """Set the results of an operation to phis of what several blocks give."""
        if not ends:
            return
        results = []
        for number, value in enumerate(operation.results):
            given = [self.parts(found[number], block) for block, found in ends]
            if len({parts[0].type for parts in given}) > 1:
                given = [
                    self.parts(found[number], block, in_any_memory=True) for block, found in ends
                ]
            made = []
            for position, first in enumerate(given[0]):
                phi = self.builder.phi(first.type, value.name)
                for (block, _), parts in zip(ends, given, strict=True):
                    phi.add_incoming(parts[position], block)
                made.append(phi)
            results.append(self.of_parts(ends[0][1][number], iter(made)))
        self.set(operation, *results)

    def labeled(self, operation: Operation) -> None:
        builder = self.builder
        end = builder.append_basic_block(f"after{len(builder.function.blocks)}")
        ends: list[tuple[Any, list[Any]]] = []
        self.labels[operation.attributes["label"]] = end, ends
        found = self.part_of_control(operation.regions[0])
        if found is not None:
            ends.append((builder.block, found))
            builder.branch(end)
        self.begin(end)
        self.join(operation, ends)

    def leave(self, operation: Operation) -> None:
        end, ends = self.labels[operation.attributes["label"]]
        ends.append((self.builder.block, [self.get(value) for value in operation.operands]))
        self.builder.branch(end)

    def unreachable(self, operation: Operation) -> None:
        if not self.builder.block.is_terminated:
            self.builder.unreachable()

    def undefined(self, operation: Operation) -> None:
        kind = operation.result.type
        if kind is None:  # a variable that no path assigns
            self.nothing(operation)
            return
        nothing = ir.Constant(self.context.get_value_type(kind), ir.Undefined)
        self.set(operation, self.wrapped(nothing, kind))

    def _phis(self, values: list[Value], given: list[Any], before: Any) -> list[list[Any]]:
        """Begin a loop: bind its arguments to phi nodes, one for each part of a value."""
        builder, phis = self.builder, []
        for value, first in zip(values, given, strict=True):
            if self.fits_32(value):
                first = (
                    _I32(first.constant)
                    if isinstance(first, ir.Constant)
                    else self._cut(first, before)
                )
            entering = self.parts(first, before, in_any_memory=True)
            parts = [builder.phi(part.type, value.name) for part in entering]
            for phi, part in zip(parts, entering, strict=True):
                phi.add_incoming(part, before)
            phis.append(parts)
            self.values[value] = self.of_parts(first, iter(parts))
        for value, parts in zip(values, phis, strict=True):
            if value.type == types.int64 and parts[0].type == _I32:
                self.narrow[value] = parts[0]
                self.values[value] = builder.zext(parts[0], _I64)
        return phis

    def _next_iteration(self, phis: list[list[Any]], arguments: list[Value], body: Region) -> None:
        """Give the values at the end of a body to the phis."""
        for parts, argument, yielded in zip(phis, arguments, body.yielded, strict=True):
            last = self._next(parts[0], argument, yielded)
            found = self.parts(last, self.builder.block, in_any_memory=True)
            for phi, part in zip(parts, found, strict=True):
                phi.add_incoming(part, self.builder.block)

    def _cut(self, value: Any, block: Any) -> Any:
        with self.builder.goto_block(block):
            return self.builder.trunc(value, _I32)

    def _next(self, phi: Any, argument: Value, yielded: Value) -> Any:
        """Return the value of a loop's argument in the next iteration."""
        if argument not in self.narrow:
            return self.get(yielded)
        made = yielded.owner
        if isinstance(made, Operation) and made.operands and made.operands[0] is argument:
            update = _UPDATES.get(operator_of(made))
            factor = self.get(made.operands[1]) if update else None
            if update and isinstance(factor, ir.Constant) and 0 < factor.constant <= _LARGEST:
                # LLVM would compute it in 64 bits if it were cut.
                return getattr(self.builder, update)(phi, _I32(factor.constant))
        return self.builder.trunc(self.get(yielded), _I32)

    def _begin_loop(self, kind: str) -> list[Any]:
        """Begin the head of a loop; return the blocks before it, of it, of its body and after."""
        builder, number = self.builder, len(self.builder.function.blocks)
        before = builder.block
        blocks = [builder.append_basic_block(f"{part}{number}") for part in (kind, "do", "done")]
        builder.branch(blocks[0])
        builder.position_at_end(blocks[0])
        return [before, *blocks]

    def while_loop(self, operation: Operation) -> None:
        before, body = operation.regions
        builder = self.builder
        given = [self.get(value) for value in operation.operands]
        entry, head, inner, end = self._begin_loop("while")
        phis = self._phis(before.arguments, given, entry)
        (condition,) = self.region(before)
        for one, two in zip(before.arguments, body.arguments, strict=True):
            self.values[two] = self.values[one]
            if one in self.narrow:
                self.narrow[two] = self.narrow[one]
        builder.cbranch(condition, inner, end)
        self.begin(inner)
        if self.part_of_control(body) is not None:
            self.end_of_body(operation)
            self._next_iteration(phis, body.arguments, body)
            builder.branch(head)
        self.begin(end)
        self.set(operation, *(self.values[value] for value in before.arguments))

    def end_of_body(self, operation: Operation) -> None:
        """Do what a target does at the end of a loop's body."""

    def for_loop(self, operation: Operation) -> None:
        (body,) = operation.regions
        builder = self.builder
        start, stop, step, *given = (self.get(value) for value in operation.operands)
        entry, head, inner, end = self._begin_loop("for")
        wraps = not _is_without_overflow(stop, step)
        is_next = builder.phi(ir.IntType(1)) if wraps else None
        counter, *phis = self._phis(body.arguments, [start, *given], entry)
        if is_next is None:
            is_next = builder.icmp_signed("<", counter[0], stop)
        else:
            with builder.goto_block(entry):
                # An iteration follows one with a smaller counter than this.
                last = _saturating_sub(builder, stop, step)
                is_next.add_incoming(_is_before(builder, start, stop, step), entry)
        builder.cbranch(is_next, inner, end)
        self.begin(inner)
        if self.part_of_control(body) is not None:
            self.end_of_body(operation)
            if wraps:
                is_next.add_incoming(_is_before(builder, counter[0], last, step), builder.block)
            counter[0].add_incoming(builder.add(counter[0], step), builder.block)
            self._next_iteration(phis, body.arguments[1:], body)
            builder.branch(head)
        self.begin(end)
        self.set(operation, *(self.values[value] for value in body.arguments[1:]))

    def for_each(self, operation: Operation) -> None:
        """Write the body once for each element."""
        (body,) = operation.regions
        given = [self.get(value) for value in operation.operands]
        if "values" in operation.attributes:
            items, carried = [[_I64(each)] for each in operation.attributes["values"]], given
        else:
            count, width = operation.attributes["count"], operation.attributes["width"]
            items = [given[n * width : (n + 1) * width] for n in range(count)]
            carried = given[count * width :]
        for item in items:
            for argument, value in zip(body.arguments, [*item, *carried], strict=True):
                self.values[argument] = value
            found = self.part_of_control(body)
            if found is None:
                # The next iterations, and what follows, are not reached.
                return
            carried = found
        self.set(operation, *carried)


def _is_without_overflow(stop: ir.Value, step: ir.Value) -> bool:
    """Return whether the counter of a range surely does not overflow after the last iteration."""
    if not isinstance(step, ir.Constant) or step.constant <= 0:
        return False
    largest = 2 ** (step.type.width - 1) - 1
    is_known = isinstance(stop, ir.Constant)
    return bool(step.constant == 1 or (is_known and stop.constant <= largest - step.constant))


def _saturating_sub(builder: ir.IRBuilder, one: ir.Value, two: ir.Value) -> ir.Value:
    """Return a difference of signed integers, or the limit of their type that is nearest to it."""
    kind = ir.FunctionType(one.type, [one.type, one.type])
    return builder.call(
        builder.module.declare_intrinsic("llvm.ssub.sat", [one.type], kind), [one, two]
    )


def _is_before(builder: ir.IRBuilder, one: ir.Value, two: ir.Value, step: ir.Value) -> ir.Value:
    """Return whether a number is before another one, in the direction of a step."""
    is_less = builder.icmp_signed("<", one, two)
    is_greater = builder.icmp_signed(">", one, two)
    if isinstance(step, ir.Constant):
        return is_less if step.constant > 0 else is_greater
    zero = step.type(0)
    up = builder.and_(is_less, builder.icmp_signed(">", step, zero))
    return builder.or_(up, builder.and_(is_greater, builder.icmp_signed("<", step, zero)))
