"""Write the operations that rewrites of loops add to a region."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.ir.operations import Effect, Operation, Value
from kerneldsl.ir.recognize import constant_number
from kerneldsl.ir.rewriter import Builder
from kerneldsl.ir.typing import Typing
from kerneldsl.lowering.numba_internals.host_code import kernel_typing
from targets.cpu.regions.emitter import CpuEmitter

__all__ = ["HANDLERS", "LoopWriter"]

_I64 = ir.IntType(64)
_BOOL = types.boolean
_MAX = 2**63 - 1


class LoopWriter(Builder):
    """Appends operations to a list, on int64 and on values that each lane keeps."""

    def __init__(self, operations: list[Operation] | None = None) -> None:
        super().__init__(Typing.of(kernel_typing()), operations)

    def smaller(self, one: Value, two: Value) -> Value:
        return self.add("int.min", one, two)

    def larger(self, one: Value, two: Value) -> Value:
        return self.add("int.max", one, two)

    def difference(self, one: Value, two: Value) -> Value:
        """Return a difference, or the end of int64 that is nearest to it."""
        return self.add("int.saturating_sub", one, two)

    def following(self, value: Value) -> Value:
        """Return the next number, or the greatest one."""
        number = constant_number(value)
        if number is not None:
            return self.constant(min(number + 1, _MAX))
        return self.add("int.saturating_add", value, self.constant(1))

    def select(self, condition: Value, one: Value, two: Value) -> Value:
        return one if one is two else self.add("int.select", condition, one, two, kind=one.type)

    def all(self, conditions: Sequence[Value]) -> Value:
        first, *others = conditions
        for each in others:
            first = self.add("bool.and", first, each, kind=_BOOL)
        return first

    def opposite(self, condition: Value) -> Value:
        """Return whether a condition does not hold."""
        return self.add("bool.not", condition, kind=_BOOL)

    def is_within(self, value: Value, most: int) -> Value:
        """Return whether the magnitude of a number is at most so large."""
        low = self.numba(operator.le, self.constant(-most), value)
        return self.all([low, self.numba(operator.le, value, self.constant(most))])

    def truth(self, value: bool) -> Value:
        return self.constant(value, types.boolean)

    def load(self, place: Value, *lane: Value, kind: Any = None) -> Value:
        """Load what a lane has kept; a row gives the operation the lane's index."""
        kinds = (kind or place.type,)
        return self.operation("lane.load", [place, *lane], kinds, effect=Effect.READ).result

    def store(self, place: Value, value: Value, *lane: Value) -> None:
        """Keep a value of a lane."""
        self.operation("lane.store", [place, value, *lane], effect=Effect.WRITE)

    def end(self, *values: Value) -> None:
        self.operation("yield", list(values))


Handler = Callable[[CpuEmitter, Operation], None]


def _of_values(write: Callable[..., Any]) -> Handler:
    def handler(emitter: CpuEmitter, operation: Operation) -> None:
        values = (emitter.get(value) for value in operation.operands)
        emitter.set(operation, write(emitter, *values))

    return handler


def _saturating(name: str) -> Handler:
    def write(emitter: CpuEmitter, one: Any, two: Any) -> Any:
        kind = ir.FunctionType(_I64, [_I64, _I64])
        function = emitter.builder.module.declare_intrinsic(f"llvm.{name}.sat", [_I64], kind)
        return emitter.builder.call(function, [one, two])

    return _of_values(write)


HANDLERS: dict[str, Handler] = {
    "int.min": _of_values(CpuEmitter.smaller),
    "int.max": _of_values(CpuEmitter.larger),
    "int.saturating_sub": _saturating("ssub"),
    "int.saturating_add": _saturating("sadd"),
    "int.select": _of_values(lambda emitter, *values: emitter.builder.select(*values)),
    "bool.and": _of_values(lambda emitter, *values: emitter.builder.and_(*values)),
    "bool.not": _of_values(lambda emitter, value: emitter.builder.not_(value)),
}
