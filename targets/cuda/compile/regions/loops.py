"""Write loops in the forms that LLVM unrolls and rotates best.

A ``for`` counts its iterations, as Numba's iterator of a range does. So LLVM knows their number,
also if the last step of the counter wraps around.
A ``while`` tests before the first iteration and at the end of each, as CPython compiles it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.ir.emission import Emitter
from kerneldsl.ir.operations import Operation, Value

__all__ = ["LoopEmitter"]

_I64 = ir.IntType(64)


class LoopEmitter(Emitter):
    """Writes the loops of a device."""

    def for_loop(self, operation: Operation) -> None:
        (body,) = operation.regions
        builder = self.builder
        start, stop, step, *given = (self.get(value) for value in operation.operands)
        turns = _turns(builder, start, stop, step)
        entry = builder.block
        head, inner, end = self._blocks("for", "do", "done")
        builder.branch(head)
        builder.position_at_end(head)
        (counter,), *phis = self._phis(body.arguments, [start, *given], entry)
        left = builder.phi(start.type, "left")
        left.add_incoming(turns, entry)
        builder.cbranch(builder.icmp_signed(">", left, left.type(0)), inner, end)
        builder.position_at_end(inner)
        rest = builder.sub(left, left.type(1), flags=["nsw"])
        following = builder.add(counter, step)
        if self.part_of_control(body) is not None:
            self.end_of_body(operation)
            left.add_incoming(rest, builder.block)
            counter.add_incoming(following, builder.block)
            self._next_iteration(phis, body.arguments[1:], body)
            builder.branch(head)
        self.begin(end)
        self.set(operation, *(self.values[value] for value in body.arguments[1:]))

    def while_loop(self, operation: Operation) -> None:
        before, body = operation.regions
        builder = self.builder
        given = [self.get(value) for value in operation.operands]
        inner, end = self._blocks("do", "done")
        for value, found in zip(before.arguments, given, strict=True):
            self.values[value] = found
        (condition,) = self.region(before)
        entry = builder.block
        builder.cbranch(condition, inner, end)
        builder.position_at_end(inner)
        phis = self._phis(body.arguments, given, entry)
        ends = [(entry, given)]
        if self.part_of_control(body) is not None:
            self.end_of_body(operation)
            ends.append(self._test_again(operation, phis, (inner, end)))
        self.begin(end)
        self.join(operation, ends)

    def _test_again(
        self, operation: Operation, phis: list[list[Any]], targets: tuple[ir.Block, ir.Block]
    ) -> tuple[ir.Block, list[Any]]:
        """Write the test at the end of an iteration; return its block, and the variables there."""
        before, body = operation.regions
        builder = self.builder
        following = [
            self._next(parts[0], argument, yielded)
            for parts, argument, yielded in zip(phis, body.arguments, body.yielded, strict=True)
        ]
        for value, argument, found in zip(before.arguments, body.arguments, following, strict=True):
            self.set_narrow(value, argument, found)
        (condition,) = self.region(before)
        last = builder.block
        for phi_parts, found in zip(phis, following, strict=True):
            given = self.parts(found, last, in_any_memory=True)
            for phi, part in zip(phi_parts, given, strict=True):
                phi.add_incoming(part, last)
        wide = [
            builder.zext(found, _I64) if argument in self.narrow else found
            for argument, found in zip(body.arguments, following, strict=True)
        ]
        builder.cbranch(condition, *targets)
        return last, wide

    def set_narrow(self, value: Value, argument: Value, found: Any) -> None:
        """Bind a value to what the argument of a loop becomes, also if that has 32 bits."""
        if argument in self.narrow:
            found = self.builder.zext(found, _I64)
        self.values[value] = found

    def _blocks(self, *names: str) -> list[ir.Block]:
        function = self.builder.function
        number = len(function.blocks)
        return [self.builder.append_basic_block(f"{name}{number}") for name in names]


def _turns(builder: ir.IRBuilder, start: ir.Value, stop: ir.Value, step: ir.Value) -> ir.Value:
    """Return the number of iterations of a range; 0 or less if there is none."""
    zero, one = step.type(0), step.type(1)
    distance = builder.sub(stop, start)
    if isinstance(step, ir.Constant) and step.constant == 1:
        return distance
    is_up = builder.icmp_signed(">", distance, zero)
    differs = builder.xor(is_up, builder.icmp_signed(">", step, zero))
    differs = builder.or_(differs, builder.icmp_signed("==", step, zero))
    before = builder.block
    with builder.if_then(builder.not_(differs)):
        rest = builder.srem(distance, step)
        rest = builder.select(is_up, rest, builder.neg(rest))
        is_uneven = builder.icmp_signed(">", rest, zero)
        count = builder.add(builder.sdiv(distance, step), builder.select(is_uneven, one, zero))
        inside = builder.block
    turns = builder.phi(step.type, "turns")
    turns.add_incoming(zero, before)
    turns.add_incoming(count, inside)
    return turns
