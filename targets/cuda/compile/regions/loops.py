"""Write loops in the forms that LLVM unrolls and rotates best.

A ``for`` counts its iterations, as Numba's iterator of a range does. So LLVM knows their number,
also if the last step of the counter wraps around.
A ``while`` tests before the first iteration and at the end of each, as CPython compiles it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.ir.emission import Emitter
from kerneldsl.ir.operations import Operation, Region, Value

__all__ = ["LoopEmitter"]


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
        counter, *phis = self._phis(body.arguments, [start, *given], entry)
        left = builder.phi(start.type, "left")
        left.add_incoming(turns, entry)
        builder.cbranch(builder.icmp_signed(">", left, left.type(0)), inner, end)
        builder.position_at_end(inner)
        rest = builder.sub(left, left.type(1), flags=["nsw"])
        following = builder.add(counter, step)
        self.operations(body.operations[:-1])
        self.end_of_body(operation)
        left.add_incoming(rest, builder.block)
        counter.add_incoming(following, builder.block)
        self._continue(body, phis, body.arguments[1:])
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
        self.operations(body.operations[:-1])
        self.end_of_body(operation)
        following = [
            self._next(phi, argument, yielded)
            for phi, argument, yielded in zip(phis, body.arguments, body.yielded, strict=True)
        ]
        for value, argument, found in zip(before.arguments, body.arguments, following, strict=True):
            self.set_narrow(value, argument, found)
        (condition,) = self.region(before)
        last = builder.block
        for phi, found in zip(phis, following, strict=True):
            phi.add_incoming(found, last)
        builder.cbranch(condition, inner, end)
        self.begin(end)
        results = []
        for argument, first, phi, found in zip(body.arguments, given, phis, following, strict=True):
            merged = builder.phi(first.type, argument.name)
            if phi.type != first.type:
                with builder.goto_block(last):
                    found = builder.zext(found, first.type)
            merged.add_incoming(first, entry)
            merged.add_incoming(found, last)
            results.append(merged)
        self.set(operation, *results)

    def set_narrow(self, value: Value, argument: Value, found: Any) -> None:
        """Bind a value to what the argument of a loop becomes, also if that has 32 bits."""
        if argument in self.narrow:
            found = self.builder.zext(found, ir.IntType(64))
        self.values[value] = found

    def _blocks(self, *names: str) -> list[ir.Block]:
        function = self.builder.function
        number = len(function.blocks)
        return [self.builder.append_basic_block(f"{name}{number}") for name in names]

    def _continue(self, body: Region, phis: list[Any], arguments: list[Value]) -> None:
        """Give the phi nodes of a loop what its body yields."""
        for phi, argument, yielded in zip(phis, arguments, body.yielded, strict=True):
            phi.add_incoming(self._next(phi, argument, yielded), self.builder.block)


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
