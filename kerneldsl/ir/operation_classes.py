"""The class of each operation that computes a value: what the planner and `explain` count.

Operators have the names of :data:`kerneldsl.analysis.operations.OPERATIONS`, functions their own
name without that of their module. Constants, conversions, extents, accesses, parts of arrays and
control are in no class.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from numba import types

from kerneldsl.analysis.operations import CONVERSIONS, OPERATORS, SELECTIONS
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.ir.operations import Effect, Operation, Value
from kerneldsl.ir.recognize import is_false, operands_of, operator_of
from kerneldsl.language.intrinsics.intrinsic import Effect as LanguageEffect
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Scope, Typing
from kerneldsl.utilities.operators import BINARY_OPERATORS, COMPARISONS

__all__ = ["OperationClass", "class_of"]


class OperationClass(NamedTuple):
    """What an operation computes."""

    #: Name of an operator or a function, ``"compare"``, ``"select"`` or ``"intrinsic"``.
    name: str
    #: Operations of this name: ``min(a, b, c)`` takes two.
    times: int = 1


_COMPARED = OperationClass("compare")
_INTRINSIC = OperationClass("intrinsic")


def _in_place(function: Callable[..., Any]) -> Any:
    return getattr(operator, f"i{function.__name__.strip('_')}")


#: Classes of operators, also of those in place; ``None`` for what is not counted.
_OPERATORS: dict[Any, OperationClass | None] = {
    **{
        each: OperationClass(OPERATORS[node])
        for node, function in BINARY_OPERATORS.items()
        for each in (function, _in_place(function))
    },
    **dict.fromkeys(COMPARISONS.values(), _COMPARED),
    **dict.fromkeys((operator.is_, operator.is_not, operator.contains), _COMPARED),
    **dict.fromkeys((operator.neg, operator.pos, operator.invert, operator.not_)),
    **dict.fromkeys((operator.getitem, operator.setitem, bool, slice, range, len, print)),
}


def class_of(operation: Operation) -> OperationClass | None:
    """Return the class of an operation, ``None`` if it computes no value to count."""
    use = operation.attributes.get("use")
    if isinstance(use, IntrinsicUse):
        return _INTRINSIC if _gives_value(use.intrinsic) else None
    if operation.name == "if":
        return _selection(operation)
    if operation.name == "linked":
        return OperationClass(operation.attributes["name"])
    return _of_function(operation) if operation.name == "numba" else None


def _gives_value(intrinsic: Intrinsic) -> bool:
    """Return whether each thread executes an instruction for it that gives a value.

    Atomic operations are counted as accesses.
    """
    depends = intrinsic.uniform_in is None or intrinsic.scope is Scope.WARP
    is_atomic = LanguageEffect.ATOMIC in intrinsic.effect
    return depends and not is_atomic and intrinsic.typing is not Typing.NOTHING


def _of_function(operation: Operation) -> OperationClass | None:
    function = operator_of(operation)
    if function in _OPERATORS:
        return _OPERATORS[function]
    if isinstance(operation.attributes["function"], types.NumberClass):
        return None  # a conversion
    name = str(getattr(function, "__name__", function)).rpartition(".")[2]
    if name in CONVERSIONS:
        return None
    # A selection takes an instruction for each two arguments; `abs` changes a sign.
    count = len(operands_of(operation)) - 1 if name in SELECTIONS else 1
    return OperationClass(name, count) if count else None


def _selection(operation: Operation) -> OperationClass | None:
    """Return the class of a branch that only chooses one of two values."""
    yes, no = operation.regions
    if not operation.results or operation.effects() & ~Effect.READ:
        return None
    pairs = zip(operation.results, yes.yielded, no.yielded, strict=True)
    count = sum(
        one is not two and not _is_joined(operation.operands[0], result, one, two)
        for result, one, two in pairs
    )
    return OperationClass("select", count) if count else None


def _is_joined(condition: Value, result: Value, one: Value, two: Value) -> bool:
    """Return whether a result is ``a and b`` or ``a or b`` of two conditions."""
    if result.type != types.boolean:
        return False
    return two is condition or one is condition or is_false(two)
