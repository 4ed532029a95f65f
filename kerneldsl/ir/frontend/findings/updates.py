"""Elements that many threads update without an atomic function, as in ``total[0] += x[i]``.

A thread reads the element, and writes back the element with its change. What another thread has
written in the meantime is lost. A finding needs certainty that many threads update one element:

- Its index is made of constants, scalar arguments and counters of loops over such ranges.
- The new value, or a condition around the update, depends on the thread.
- No condition around it may select one thread, as ``i == 0``, ``i < 1`` and votes do.

A kernel that locks by atomic functions, or returns inside a loop, has no such finding.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterable, Iterator

from kerneldsl.contract.findings import Finding
from kerneldsl.frontend.parts import Part
from kerneldsl.ir.frontend.findings.flow import Flow, is_whole
from kerneldsl.ir.operations import Operation, Region, Value
from kerneldsl.ir.recognize import constant_number, operator_of, sources_of

__all__ = ["lost_updates"]

_LOCKS = ("atomic.cas", "atomic.exch")
#: Coordinates that all threads of a launch share.
_COMMON = ("blockDim", "gridDim", "gridsize", "warpsize")
_EQUAL = (operator.eq, operator.ne)
_ORDERED = (operator.lt, operator.le, operator.gt, operator.ge)
_TRUTH = (bool, operator.not_)
_ATOMIC = {ast.Add: "add", ast.Sub: "sub", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor"}


def lost_updates(flow: Flow) -> Iterator[Finding]:
    """Yield such updates."""
    if any(each.name in _LOCKS or _ends_thread(each) for each in flow.operations):
        return
    for operation in flow.operations:
        if operation.name == "array.store" and _is_update(flow, operation):
            tests = list(_conditions(flow, operation))
            depends = any(_has_id(_made_of([each])) for each in (operation.operands[-1], *tests))
            if depends and not any(map(_may_select, tests)):
                yield _finding(operation)


def _ends_thread(operation: Operation) -> bool:
    return operation.name == "leave" and bool(operation.attributes["label"].ends_kernel)


def _is_update(flow: Flow, store: Operation) -> bool:
    """Return whether a store changes what an element has that all threads share."""
    array, *index, value = store.operands
    made = array.owner
    if isinstance(made, Operation) and made.name != "shared.array":
        return False
    if not all(_is_common(flow, each) for each in index):
        return False
    return any(
        each.name == "array.load"
        and each.operands[0] is array
        and all(map(flow.are_same, each.operands[1:], index))
        for each in _made_of([value])
    )


def _is_common(flow: Flow, value: Value) -> bool:
    """Return whether a value is certainly the same for all threads."""
    made = value.owner
    if isinstance(made, Region):
        holder = flow.holder_of.get(made)
        if holder is None:
            return True  # an argument of the kernel
        is_counter = holder.name == "for" and made.arguments[0] is value
        return is_counter and all(_is_common(flow, each) for each in holder.operands[:3])
    if made is None or made.name not in ("const", "cast"):
        return False
    return all(_is_common(flow, each) for each in made.operands)


def _conditions(flow: Flow, operation: Operation) -> Iterator[Value]:
    region = flow.region_of[operation]
    while (holder := flow.holder_of.get(region)) is not None:
        if holder.name == "if":
            yield holder.operands[0]
        elif holder.name == "while":
            yield from holder.regions[0].yielded[:1]
        region = flow.region_of[holder]


def _made_of(values: Iterable[Value], *, through_loads: bool = True) -> set[Operation]:
    """Return the operations that values are computed by, those of inner regions included."""

    def operands(made: Operation) -> Iterator[Value]:
        if through_loads or made.name != "array.load":
            yield from made.operands
            yield from (each for region in made.regions for each in region.yielded)

    owners = (value.owner for value in sources_of(values, operands))
    return {made for made in owners if isinstance(made, Operation)}


def _has_id(operations: Iterable[Operation]) -> bool:
    """Return whether operations give the place of a thread."""
    return any(
        "use" in each.attributes
        and each.attributes["use"].intrinsic.is_index
        and not each.name.startswith(_COMMON)
        for each in operations
    )


def _may_select(condition: Value) -> bool:
    """Return whether a condition may hold for one thread alone."""
    for made in _made_of([condition]):
        function, operands = operator_of(made), made.operands
        if "use" in made.attributes and not made.attributes["use"].intrinsic.is_index:
            return True
        if (function in _TRUTH and is_whole(operands[0])) or function in _EQUAL:
            selects = True
        else:
            selects = function in _ORDERED and any(constant_number(v) is not None for v in operands)
        if selects and _has_id(_made_of(operands, through_loads=False)):
            return True
    return False


def _finding(store: Operation) -> Finding:
    unit, node = store.source
    target = node.target if isinstance(node, ast.AugAssign) else node.targets[0]
    parts, remedy = [Part(unit, target)], "Use a function of kd.atomic"
    name = _ATOMIC.get(type(node.op)) if isinstance(node, ast.AugAssign) else None
    if name is not None and isinstance(target, ast.Subscript):
        parts += (Part(unit, each) for each in (target.value, target.slice, node.value))
        remedy = f"Write kd.atomic.{name}({{1.text}}, {{2.text}}, {{3.text}})"
    return Finding(
        parts[0],
        "{0.text} is one element that many threads update (line {0.line}): each writes what it has "
        f"read and changed, so that changes of others are lost. {remedy}, or let each thread have "
        "an element.",
        tuple(parts),
    )
