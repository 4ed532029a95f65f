"""The class of each operation that computes a value: what the planner and `explain` count.

Operators have the names of :data:`kerneldsl.analysis.operations.OPERATORS`, functions their own
name without that of their module. Constants, conversions, extents, accesses, parts of arrays and
control are in no class.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

from numba import types

from kerneldsl.analysis.operations import CONVERSIONS, OPERATORS, SELECTIONS
from kerneldsl.frontend.operators import COMPARISONS
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.ir.operations import Operation
from kerneldsl.ir.recognize import both_of, operands_of, operator_of
from kerneldsl.language.intrinsics.intrinsic import Effect as LanguageEffect
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Scope, Typing

__all__ = ["OperationClass", "class_of", "joins_conditions"]


class OperationClass(NamedTuple):
    """Class of the arithmetic that an operation computes."""

    #: Name of an operator or a function, ``"compare"``, ``"select"`` or ``"intrinsic"``.
    name: str
    #: Operations of this name: ``min(a, b, c)`` takes two.
    times: int = 1


_COMPARED = OperationClass("compare")
_INTRINSIC = OperationClass("intrinsic")


#: Classes of operators; ``None`` for operators that are not counted.
_OPERATORS: dict[Any, OperationClass | None] = {
    **{function: OperationClass(name) for function, name in OPERATORS.items()},
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
    is_conversion = isinstance(operation.attributes["function"], types.NumberClass)
    if is_conversion or any(isinstance(each.type, types.Array) for each in operation.results):
        return None
    name = str(getattr(function, "__name__", function)).rpartition(".")[2]
    if name in CONVERSIONS:
        return None
    # A selection takes an instruction for each two arguments; `abs` changes a sign.
    count = len(operands_of(operation)) - 1 if name in SELECTIONS else 1
    return OperationClass(name, count) if count else None


def joins_conditions(operation: Operation) -> bool:
    """Return whether a branch is ``a and b`` or ``a or b`` of two conditions."""
    return len(operation.results) == 1 and any(
        both_of(operation.result, truth=truth) is not None for truth in (True, False)
    )


def _selection(operation: Operation) -> OperationClass | None:
    """Return the class of a branch that only chooses one of two values, and reads no memory."""
    yes, no = operation.regions
    if operation.effects() or joins_conditions(operation):
        return None
    count = sum(one is not two for one, two in zip(yes.yielded, no.yielded, strict=True))
    return OperationClass("select", count) if count else None
