"""Values of uint64 that become int64, if that can be seen in a result.

Numba computes uint64 with a signed integer as int64, and a variable that holds both is an int64.
The bits are the same, so that sums, products and stores in arrays of integers are right. Quotients,
right shifts, conversions to floats and indices are not where the number is 2**63 or more.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator
from typing import NamedTuple

from numba import types

from kerneldsl.contract.findings import Finding, finding_text
from kerneldsl.errors import KernelTypingError
from kerneldsl.frontend.expressions import folded
from kerneldsl.frontend.foreign import is_ufunc_of_numba
from kerneldsl.frontend.operators import BINARY_OPERATORS, SYMBOLS
from kerneldsl.frontend.parts import Part
from kerneldsl.ir.frontend.findings.flow import SAME_BITS, Flow, is_signed
from kerneldsl.ir.frontend.source_names import CHOSEN, RESULT
from kerneldsl.ir.operations import Operation, Value
from kerneldsl.ir.recognize import constant_number, operator_of

__all__ = ["sign_changes"]

_LIMIT = 2**63


class _Written(NamedTuple):
    """An operand, or what a variable is assigned."""

    #: The expression; of a variable the target.
    place: Part
    #: The expression to convert, and which member of it if it is a tuple.
    source: Part
    member: str
    value: Value


def sign_changes(flow: Flow) -> Iterator[Finding]:
    """Yield the conversions, each variable once.

    Raises `KernelTypingError` where bits of a variable of both types are shifted to the right.
    """
    told: set[tuple[int, str]] = set()
    for operation in flow.operations:
        name = operation.attributes.get("variable")
        if operation.name == "numba":
            yield from _of_operation(flow, operation)
        elif name is not None and _is_change(flow, operation):
            stem = name.partition("[")[0]
            if stem == CHOSEN:
                yield from _of_choice(flow, operation, name.removeprefix(CHOSEN))
            elif stem == RESULT:
                yield from _of_result(flow, operation, name)
            elif (key := (id(operation.source.unit), name)) not in told:
                for found in _of_variable(flow, operation, name):
                    told.add(key)
                    yield found


def _is_change(flow: Flow, cast: Operation) -> bool:
    return cast.result.type == types.int64 and _is_wide(flow, *cast.operands)


def _is_wide(flow: Flow, value: Value) -> bool:
    """Return whether a value is a uint64 that may be no int64."""
    return value.type == types.uint64 and not flow.is_below(value, _LIMIT)


# -- variables ------------------------------------------------------------------------------------


def _of_variable(flow: Flow, cast: Operation, name: str) -> Iterator[Finding]:
    wide = _assigned(flow, name, cast.operands[0])
    signed = next(_signed_sources(flow, cast, name), None)
    if wide is None or signed is None:
        return
    kind = signed.value.type
    stem, bracket, _ = name.partition("[")
    what = (
        f"{name} is uint64 where line {{0.line}} assigns it and {kind} where line {{1.line}} "
        "does, so it becomes int64"
    )
    remedy, parts = _remedy(wide, signed), (wide.place, signed.place, wide.source, signed.source)
    merged = [each for each in flow.web(cast.result) if flow.is_merged(each)]
    for operation in flow.operations:
        is_shift = not bracket and operator_of(operation) is operator.rshift
        if (
            is_shift
            and operation.operands[0] in merged
            and flow.is_read(stem, operation.operands[0])
        ):
            where = flow.read_for(stem, merged, operation) or operation.source
            raise _refusal(Finding(where, what, parts), remedy, name)
    where = _first_observed(flow, stem, merged)
    if where is not None:
        yield _finding(where, what, remedy, parts)


def _first_observed(flow: Flow, name: str, values: list[Value]) -> Part | None:
    """Return where the first use is that sees the sign of a variable."""
    places = {place for value in values for place in flow.uses(value) if flow.is_seen(place, value)}
    for operation in flow.operations:
        if any(place.operation is operation for place in places):
            return flow.read_for(name, values, operation) or operation.source
    return None


def _signed_sources(flow: Flow, cast: Operation, name: str) -> Iterator[_Written]:
    for merged in flow.web(cast.result):
        value = _before(merged)
        found = _assigned(flow, name, value) if is_signed(value) else None
        if found is not None:
            yield found


def _assigned(flow: Flow, name: str, value: Value) -> _Written | None:
    found = flow.assigned(name, value)
    if found is None:
        return None
    source = found.place if found.source is None else Part(found.place.unit, found.source)
    return _Written(found.place, source, found.member, value)


def _of_result(flow: Flow, cast: Operation, name: str) -> Iterator[Finding]:
    wide = _assigned(flow, name, cast.operands[0])
    signed = next(_signed_sources(flow, cast, name), None)
    if wide is not None and signed is not None and flow.is_observed(cast.result):
        yield _of_pair(wide.place, wide, signed)


def _of_choice(flow: Flow, cast: Operation, member: str) -> Iterator[Finding]:
    region = flow.region_of[cast]
    holder = flow.holder_of.get(region)
    if holder is None or holder.name != "if" or not flow.is_observed(cast.result):
        return
    unit, node = holder.source
    match node:
        case ast.IfExp(body=body, orelse=other):
            parts = [body, other]
        case ast.BoolOp(values=parts):
            pass
        case _:
            return
    position = next((n for n, each in enumerate(region.yielded) if each is cast.result), None)
    if position is None:
        return
    other_region = next(each for each in holder.regions if each is not region)
    signed = _before(other_region.yielded[position]) if not other_region.is_left else None
    if signed is None or not is_signed(signed):
        return
    is_first = region is holder.regions[0]
    if isinstance(node, ast.BoolOp):
        is_first = is_first is not isinstance(node.op, ast.And)
    value = cast.operands[0]
    pair = [
        _chosen(flow, unit, parts, value, member, at_end=not is_first),
        _chosen(flow, unit, parts, signed, member, at_end=is_first),
    ]
    yield _of_pair(Part(unit, node), *pair)


def _before(value: Value) -> Value:
    """Return a value before it is converted to the type of a variable."""
    made = value.owner
    if isinstance(made, Operation) and "variable" in made.attributes:
        found: Value = made.operands[0]
        return found
    return value


def _chosen(
    flow: Flow, unit: object, parts: list[ast.expr], value: Value, member: str, *, at_end: bool
) -> _Written:
    """Return the part of a conditional expression that has a value."""
    node = parts[-1 if at_end else 0]
    made = value.owner
    own = [made.source.node] if isinstance(made, Operation) else []
    own += [each.node for each in flow.names.reads.get(value, ())]
    node = next((each for each in parts if any(each is one for one in own)), node)
    while member and isinstance(node, ast.Tuple):
        number, _, member = member.removeprefix("[").partition("]")
        node = node.elts[int(number)]
    place = Part(unit, node)  # type: ignore[arg-type]
    return _Written(place, place, member, value)


# -- operations -----------------------------------------------------------------------------------


def _of_operation(flow: Flow, operation: Operation) -> Iterator[Finding]:
    unit, node = operation.source
    function = operator_of(operation)
    if function is sum:
        yield from _of_sum(flow, operation)
        return
    if not any(value.type == types.uint64 for value in operation.operands):
        return
    match node:
        case ast.BinOp(left=left, right=right):
            given = [left, right]
        case ast.AugAssign(target=left, value=right):
            given = [left, right]
        case ast.Call(args=given):
            pass
        case _:
            return
    is_call = isinstance(node, ast.Call) and not (is_ufunc_of_numba(function) or function is pow)
    if not is_call and operation.result.type != types.int64:
        return
    operands, converted = operation.operands, operation.attributes["signature"].args
    pairs = list(zip(given, operands, converted, strict=False))
    places = [Part(unit, each) for each, _, _ in pairs]
    written = [_Written(p, p, "", v) for p, (_, v, _) in zip(places, pairs, strict=True)]
    wide = [
        each
        for each, (_, value, kind) in zip(written, pairs, strict=True)
        if not (is_call and kind != types.int64) and _is_wide(flow, value)
    ]
    signed = [each for each in written if is_signed(each.value)]
    if not wide or not signed:
        return
    is_seen = isinstance(node, ast.Call) or function not in SAME_BITS
    if is_seen or flow.is_observed(operation.result):
        yield _of_pair(operation.source, wide[0], signed[0])


def _of_sum(flow: Flow, operation: Operation) -> Iterator[Finding]:
    unit, node = operation.source
    if operation.result.type != types.int64 or not isinstance(node, ast.Call):
        return
    written = []
    made = operation.operands[0].owner
    members = made.operands if isinstance(made, Operation) and made.name == "tuple.make" else []
    for number, value in enumerate(members):
        given, member = node.args[0], f"[{number}]"
        if isinstance(given, ast.Tuple):
            given, member = given.elts[number], ""
        place = Part(unit, given)
        written.append(_Written(place, place, member, value))
    wide = next((each for each in written if _is_wide(flow, each.value)), None)
    signed = next((each for each in written if is_signed(each.value)), None)
    if wide and signed and flow.is_observed(operation.result):
        yield _of_pair(operation.source, wide, signed)


# -- texts ----------------------------------------------------------------------------------------


def _of_pair(where: Part, wide: _Written, signed: _Written) -> Finding:
    first, second = wide.source.line, signed.source.line
    lines = "{2.line}" if first == second else "{2.line} and {3.line}"
    if first > second:
        lines = "{3.line} and {2.line}"
    what = (
        f"{{2.text}}{wide.member} is uint64 and {{3.text}}{signed.member} is {signed.value.type} "
        f"(line {lines}), so the result is int64"
    )
    remedy = _remedy(wide, signed)
    parts: tuple[Part, ...] = (wide.place, signed.place, wide.source, signed.source)
    node = where.node
    if isinstance(node, ast.AugAssign):
        remedy = _remedy_in_place(node, is_wide=wide.place.node is node.target)
        unit = where.unit
        parts = (*parts, Part(unit, node.target), Part(unit, node.value))
    return _finding(where, what, remedy, parts)


def _finding(where: Part, what: str, remedy: str, parts: tuple[Part, ...]) -> Finding:
    return Finding(where, f"{what}. A uint64 of 2**63 or more becomes negative. {remedy}.", parts)


def _remedy(wide: _Written, signed: _Written) -> str:
    """Return the remedy; the third and fourth part are what it converts."""
    node = signed.source.node
    is_literal = isinstance(node, ast.expr) and folded(node) is not None
    if is_literal and (constant_number(signed.value) or 0) < 0:
        return f"Write np.int64({{2.text}}{wide.member}) where that is meant"
    return (
        f"Write np.uint64({{3.text}}{signed.member}), or np.int64({{2.text}}{wide.member}) where "
        "that is meant"
    )


def _remedy_in_place(node: ast.AugAssign, *, is_wide: bool) -> str:
    """Return the remedy of ``x += y`` with a target that cannot be converted in place."""
    symbol = SYMBOLS[BINARY_OPERATORS[type(node.op)]]
    target, value = "{4.text}", "{5.text}"
    unsigned, signed = (
        (f"{target} {symbol} np.uint64({value})", f"np.int64({target}) {symbol} {value}")
        if is_wide
        else (f"np.uint64({target}) {symbol} {value}", f"{target} {symbol} np.int64({value})")
    )
    return f"Write {target} = {unsigned}, or {target} = {signed} where that is meant"


def _refusal(finding: Finding, remedy: str, variable: str) -> KernelTypingError:
    return KernelTypingError(
        finding_text(finding),
        where=finding.place.unit.locate(finding.place.node),
        value=variable,
        limit="A right shift brings in zeros for uint64 and the sign for int64",
        remedy=finding_text(finding._replace(text=remedy)),
    )
