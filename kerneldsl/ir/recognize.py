"""Recognize what made a value: constants, Numba's operators, Python's functions, conditions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

from numba import types

from kerneldsl.frontend.operators import COMPARISONS, IN_PLACE
from kerneldsl.frontend.operators import OPPOSITES as OPPOSITE_NODES
from kerneldsl.ir.operations import Operation, Value

__all__ = [
    "ACCESSES",
    "BINARY",
    "MIRRORED",
    "OPERATORS",
    "OPPOSITES",
    "both_of",
    "comparison_of",
    "constant_number",
    "constant_range",
    "indices_of",
    "is_shared_array",
    "operands_of",
    "operator_of",
    "parts_of",
    "reached",
    "slice_bounds",
    "sources_of",
    "takes_all",
]

T = TypeVar("T", bound=Hashable)
#: Operators of two operands.
BINARY = frozenset(IN_PLACE)
#: All functions of Python's module of operators.
OPERATORS = frozenset(value for value in vars(operator).values() if callable(value))
#: Comparisons that hold where another one does not, unless a NaN is compared.
OPPOSITES = {COMPARISONS[one]: COMPARISONS[other] for one, other in OPPOSITE_NODES.items()}
#: Comparisons by those with swapped operands.
MIRRORED = {
    operator.lt: operator.gt,
    operator.le: operator.ge,
    operator.gt: operator.lt,
    operator.ge: operator.le,
    operator.eq: operator.eq,
    operator.ne: operator.ne,
}


def constant_number(value: Value) -> int | None:
    """Return the number of an integer constant, also of one that was converted."""
    made, kinds = value.owner, [value.type]
    while isinstance(made, Operation) and made.name == "cast":
        (source,) = made.operands
        kinds.append(source.type)
        made = source.owner
    if isinstance(made, Operation) and made.name == "const":
        number = made.attributes["value"]
        is_integer = type(number) is int or (hasattr(number, "dtype") and number.dtype.kind in "iu")
        if is_integer and all(map(partial(_holds, int(number)), kinds)):
            return int(number)
    return None


def constant_range(loop: Operation) -> range | None:
    """Return the values of the counter of a ``for``, ``None`` if they are not constants."""
    start, stop, step = map(constant_number, loop.operands[:3])
    return None if start is None or stop is None or not step else range(start, stop, step)


def _holds(number: int, kind: Any) -> bool:
    return isinstance(kind, types.Integer) and bool(kind.minval <= number <= kind.maxval)


def _is_false(value: Value) -> bool:
    """Return whether a value is the constant ``False``."""
    made = value.owner
    return (
        isinstance(made, Operation) and made.name == "const" and made.attributes["value"] is False
    )


def operator_of(operation: Operation) -> Any:
    """Return the operator or function that an operation of Numba's applies, else ``None``.

    It is that of ``a + b`` also for ``a += b``.
    """
    if operation.name != "numba":
        return None
    function = operation.attributes["function"]
    key = getattr(function, "typing_key", function)
    return _FUNCTIONS.get(key, key)


def operands_of(operation: Operation) -> list[Value]:
    """Return the operands of an operator or function, also if it takes them as one tuple."""
    operands = operation.operands
    if len(operands) == 1:
        made = operands[0].owner
        if isinstance(made, Operation) and made.name == "tuple.make":
            return made.operands
    return operands


#: Accesses of arrays, and the last of their operands that is an index.
ACCESSES = {
    **dict.fromkeys(("array.load", "array.part", "array.view", "packed.load")),
    "array.store": -1,
}


def indices_of(operation: Operation) -> list[Value]:
    """Return the indices of an access of an array; other operations have none."""
    if operation.name not in ACCESSES:
        return []
    return operation.operands[1 : ACCESSES[operation.name]]


def is_shared_array(value: Value) -> bool:
    """Return whether a value is an array in shared memory, and no part of one."""
    return isinstance(value.owner, Operation) and value.owner.name == "shared.array"


def slice_bounds(index: Value) -> list[Value]:
    """Return the bounds of a slice; there are none of another index, and of a slice in a branch."""
    made = index.owner
    return made.operands if isinstance(made, Operation) and operator_of(made) is slice else []


def takes_all(index: Value) -> bool:
    """Return whether an index takes its axis whole: ``:``."""
    bounds = slice_bounds(index)
    return bool(bounds) and all(each.type == types.none for each in bounds)


def _operands_of_arithmetic(made: Operation) -> list[Value]:
    return [] if made.regions else made.operands


def reached(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> list[T]:
    """Return places and all that follow them, in the order in which they are found.

    Examples
    --------
    >>> reached([6], lambda n: (d for d in range(1, n) if n % d == 0))
    [6, 1, 2, 3]
    """
    found = dict.fromkeys(starts)
    pending = list(found)
    while pending:
        for each in following(pending.pop()):
            if each not in found:
                found[each] = None
                pending.append(each)
    return list(found)


def sources_of(
    values: Iterable[Value],
    operands: Callable[[Operation], Iterable[Value]] = _operands_of_arithmetic,
) -> list[Value]:
    """Return values and what they are computed from, each once.

    `operands` says of an operation what to go on with; by default what is computed without regions.
    """

    def made_of(value: Value) -> Iterable[Value]:
        return operands(value.owner) if isinstance(value.owner, Operation) else ()

    return reached(values, made_of)


def both_of(condition: Value, *, truth: bool = True) -> tuple[Value, Value] | None:
    """Return two conditions that both have to be true for another to be: ``and`` joins them.

    Without `truth`, two that both have to be false for it to be: ``or`` joins them.
    """
    made = condition.owner
    if not isinstance(made, Operation) or made.name != "if" or condition.type != types.boolean:
        return None
    first, (yes, no) = made.operands[0], made.regions
    if yes.is_left or no.is_left:
        return None
    number = made.results.index(condition)
    one, two = yes.yielded[number], no.yielded[number]
    if truth:
        return (first, one) if two is first or _is_false(two) else None
    return (first, two) if one is first else None


def parts_of(
    condition: Value, truth: bool, is_one: Callable[[Value], bool] | None = None
) -> Iterator[tuple[Value, bool]]:
    """Yield the parts of a condition that all must be so for it to be true, or false.

    They are joined by ``and``, ``or`` and ``not``. `is_one` says of a condition that it is not to
    be divided.
    """
    made = condition.owner
    if not isinstance(made, Operation) or (is_one is not None and is_one(condition)):
        yield condition, truth
    elif operator_of(made) is operator.not_:
        yield from parts_of(made.operands[0], not truth, is_one)
    elif (both := both_of(condition, truth=truth)) is not None:
        for each in both:
            yield from parts_of(each, truth, is_one)
    else:
        yield condition, truth


def comparison_of(condition: Value, truth: bool) -> tuple[Any, list[Value]] | None:
    """Return the operator and the operands that hold where a comparison is true, or false."""
    made = condition.owner
    function = operator_of(made) if isinstance(made, Operation) else None
    if not isinstance(made, Operation) or function not in OPPOSITES:
        return None
    return function if truth else OPPOSITES[function], operands_of(made)


#: Functions that the lowering types by its own rules, by the names that it gives them, and
#: operators by those in place.
_FUNCTIONS: dict[Any, Any] = {
    "kerneldsl.min": min,
    "kerneldsl.max": max,
    "kerneldsl.sum": sum,
    **{f"kerneldsl.{each.__name__}": each for each in COMPARISONS.values()},
    **{in_place: function for function, in_place in IN_PLACE.items()},
}
