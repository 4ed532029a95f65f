"""Write loops in the forms that LLVM unrolls and rotates best.

A ``for`` counts its iterations, as Numba's iterator of a range does. So LLVM knows their number,
also if the last step of the counter wraps around.
A ``while`` tests before the first iteration and at the end of each, as CPython compiles it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from llvmlite import ir

from kerneldsl.ir.emission import Emitter
from kerneldsl.ir.operations import Function, Operation, Region, Value
from kerneldsl.ir.ranges import Interval, interval_in
from kerneldsl.ir.recognize import both_of
from kerneldsl.lowering.calls import join
from kerneldsl.lowering.loop_marks import ITS_OWN, has_marked_loops, mark_loop
from targets.cuda.compile.regions.lane_joins import join_lanes

__all__ = ["LoopEmitter", "conditions"]

_I64 = ir.IntType(64)


class LoopEmitter(Emitter):
    """Writes the loops of a device."""

    def __init__(self, context: Any, builder: ir.IRBuilder) -> None:
        super().__init__(context, builder)
        #: Arguments of loops that a pass keeps in 32 bits.
        self._narrowed: set[Value] = set()
        self.fits_32 = self._narrowed.__contains__
        #: Known intervals of integers.
        self.known: Mapping[Value, Interval] = {}
        #: Conditions by ``and`` and ``or`` that branches alone read, written as branches.
        self.deferred: frozenset[Operation] = frozenset()
        #: Branches and loops before which the lanes of a warp wait for each other.
        self.joins: frozenset[Operation] = frozenset()

    def branch(self, operation: Operation) -> None:
        if operation in self.joins:
            join_lanes(self.builder)
        if operation not in self.deferred:
            super().branch(operation)

    def branch_on(self, condition: Value, yes: ir.Block, no: ir.Block) -> None:
        made = condition.owner
        if made not in self.deferred:
            super().branch_on(condition, yes, no)
            return
        assert isinstance(made, Operation)
        first, (one, two) = made.operands[0], made.regions
        rest = self.builder.append_basic_block(f"and{len(self.builder.function.blocks)}")
        is_and = _is_and(made)
        self.branch_on(first, *((rest, no) if is_and else (yes, rest)))
        self.begin(rest)
        second = one if is_and else two
        self.operations(second.operations[:-1])
        self.branch_on(second.yielded[0], yes, no)

    def for_loop(self, operation: Operation) -> None:
        (body,) = operation.regions
        self._narrowed.update(operation.attributes.get("narrow", ()))
        builder = self.builder
        start, stop, step, *given = (self.get(value) for value in operation.operands)
        by_one = _is_number(start, 0) and _is_number(step, 1)
        # LLVM would divide the counter in 16 bits after a comparison with a number.
        is_open = not isinstance(stop, ir.Constant)
        is_left_early = is_open and operation.may_be_left()
        # The number of a tile plus the blocks of a grid does not overflow. To count iterations
        # is a division, for which the first copies would wait.
        is_of_tiles = "tiles" in operation.attributes
        is_compared = is_of_tiles or (by_one and is_open and _is_read(body.arguments[0], body))
        is_compared = is_compared and not is_left_early
        is_near = self._is_near(*operation.operands[:2])
        turns, ends = stop, ">"
        if not is_compared:
            turns = (_turns if is_near else _many_turns)(builder, start, stop, step)
            ends = ">" if is_near else "!="
        entry = builder.block
        head, inner, end = self._blocks("for", "do", "done")
        builder.branch(head)
        builder.position_at_end(head)
        (counter,), *phis = self._phis(body.arguments, [start, *given], entry)
        left = None
        if is_compared:
            test = builder.icmp_signed("<", counter, stop)
        else:
            left = builder.phi(start.type, "left")
            left.add_incoming(turns, entry)
            test = builder.icmp_signed(ends, left, left.type(0))
        one, by = counter.type(1), step
        if is_left_early:
            # The next values are computed before the test. So only the early exit reads the
            # counter's phi, and LLVM also moves the test before that exit to the end of an
            # iteration.
            one, by = builder.zext(test, one.type), builder.select(test, step, step.type(0))
        else:
            builder.cbranch(test, inner, end)
            builder.position_at_end(inner)
        rest = None if left is None else builder.sub(left, one, flags=["nsw"] if is_near else [])
        following = builder.add(counter, by, flags=["nsw"] if is_compared else [])
        if is_left_early:
            builder.cbranch(test, inner, end)
            builder.position_at_end(inner)
        if self.part_of_control(body) is not None:
            self.end_of_body(operation)
            self._mark(operation)
            if left is not None:
                left.add_incoming(rest, builder.block)
            counter.add_incoming(following, builder.block)
            self._next_iteration(phis, body.arguments[1:], body)
            builder.branch(head)
        self.begin(end)
        self.set(operation, *(self.values[value] for value in body.arguments[1:]))

    def _is_near(self, start: Value, stop: Value) -> bool:
        """Return whether the distance of a range fits in the type of its counter."""
        (first, last), (low, high) = (interval_in(self.known, each) for each in (start, stop))
        least, most = start.type.minval, start.type.maxval
        return bool(least <= low - last and high - first <= most)

    def while_loop(self, operation: Operation) -> None:
        before, body = operation.regions
        self._narrowed.update(operation.attributes.get("narrow", ()))
        builder = self.builder
        given = [self.get(value) for value in operation.operands]
        inner, end = self._blocks("do", "done")
        for value, found in zip(before.arguments, given, strict=True):
            self.values[value] = found
        condition = self._test(operation)
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

    def _test(self, operation: Operation) -> ir.Value:
        """Write the test of a ``while`` loop."""
        (condition,) = self.region(operation.regions[0])
        if operation in self.joins:
            join_lanes(self.builder)
        return condition

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
        condition = self._test(operation)
        last = builder.block
        for phi_parts, found in zip(phis, following, strict=True):
            given = self.parts(found, last, in_any_memory=True)
            for phi, part in zip(phi_parts, given, strict=True):
                phi.add_incoming(part, last)
        wide = [
            builder.zext(found, _I64) if argument in self.narrow else found
            for argument, found in zip(body.arguments, following, strict=True)
        ]
        self._mark(operation)
        builder.cbranch(condition, *targets)
        return last, wide

    def set_narrow(self, value: Value, argument: Value, found: Any) -> None:
        """Bind a value to what the argument of a loop becomes, also if that has 32 bits."""
        if argument in self.narrow:
            found = self.builder.zext(found, _I64)
        self.values[value] = found

    def _mark(self, operation: Operation) -> None:
        """Mark the loop with the iteration that ends here, as a pass wishes."""
        if "unroll" in operation.attributes:
            mark_loop(self.builder, operation.attributes["unroll"])
        elif has_marked_loops(self.builder.module):
            mark_loop(self.builder, ITS_OWN)

    def _blocks(self, *names: str) -> list[ir.Block]:
        function = self.builder.function
        number = len(function.blocks)
        return [self.builder.append_basic_block(f"{name}{number}") for name in names]


def conditions(function: Function, joins: frozenset[Operation]) -> frozenset[Operation]:
    """Return the conditions by ``and`` and ``or`` that one branch or such condition reads.

    The branches at which lanes wait for each other have one test.
    """
    uses = Counter(value for each in function.body.walk() for value in each.operands)
    found: set[Operation] = set()

    def take(value: Value, own_uses: int) -> None:
        made = value.owner
        if not (isinstance(made, Operation) and _is_condition(made) and uses[value] == own_uses):
            return
        if made in joins:
            return
        found.add(made)
        one, two = made.regions
        rest, second = (two, one) if _is_and(made) else (one, two)
        first = made.operands[0]
        # The first is also what the condition yields without the second.
        take(first, 1 + (rest.yielded[0] is first))
        take(second.yielded[0], 1)

    for each in function.body.walk():
        if each.name == "if" and each not in joins:
            take(each.operands[0], 1)
    return frozenset(found)


def _is_condition(made: Operation) -> bool:
    """Return whether an operation is ``and`` or ``or`` of two conditions."""
    if made.name != "if" or len(made.results) != 1:
        return False
    is_or = both_of(made.result, truth=False) is not None and _is_constant(made.regions[0])
    return is_or or _is_and(made)


def _is_and(made: Operation) -> bool:
    """Return whether a condition is false without its second part; `made` is a branch."""
    return both_of(made.result) is not None and _is_constant(made.regions[1])


def _is_constant(region: Region) -> bool:
    return all(each.name in ("const", "yield") for each in region.operations)


def _is_number(value: ir.Value, number: int) -> bool:
    return isinstance(value, ir.Constant) and bool(value.constant == number)


def _is_read(value: Value, region: Region) -> bool:
    """Return whether an operation of a region reads a value."""
    return any(value in operation.operands for operation in region.walk())


def _turns(builder: ir.IRBuilder, start: ir.Value, stop: ir.Value, step: ir.Value) -> ir.Value:
    """Return the number of iterations of a range; 0 or less if there is none.

    The distance from start to stop does not overflow.
    """
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
    return join(builder, (zero, before), (count, inside))


def _many_turns(builder: ir.IRBuilder, start: ir.Value, stop: ir.Value, step: ir.Value) -> ir.Value:
    """Return the number of iterations of any range, without a sign."""
    zero, one = step.type(0), step.type(1)
    is_up = builder.icmp_signed(">", step, zero)
    up, down = builder.icmp_signed("<", start, stop), builder.icmp_signed(">", start, stop)
    has_any = builder.select(is_up, up, builder.and_(down, builder.icmp_signed("<", step, zero)))
    before = builder.block
    with builder.if_then(has_any):
        distance = builder.select(is_up, builder.sub(stop, start), builder.sub(start, stop))
        size = builder.select(is_up, step, builder.neg(step))
        count = builder.add(builder.udiv(builder.sub(distance, one), size), one)
        inside = builder.block
    return join(builder, (zero, before), (count, inside))
