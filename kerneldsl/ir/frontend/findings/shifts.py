"""Right shifts of variables that began as a narrower unsigned number.

A variable that begins as a uint32 and is multiplied is not reduced modulo 2**32. So a right shift
of it, as in a hash, brings in bits that C has dropped.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator

from numba import types

from kerneldsl.contract.findings import Finding
from kerneldsl.ir.frontend.findings.flow import Flow, is_unsigned, is_whole
from kerneldsl.ir.frontend.source_names import Assignment
from kerneldsl.ir.operations import Operation, Value
from kerneldsl.ir.recognize import constant_number, operator_of, reached

__all__ = ["widened_shifts"]

#: Operators from which hashes and random numbers are computed.
_OF_BITS = (operator.xor, operator.or_, operator.lshift)
#: Factors from which on a product is assumed to be meant modulo the number's width.
_LARGE_FACTOR = 1 << 16


def widened_shifts(flow: Flow) -> Iterator[Finding]:
    """Yield such shifts, one for each variable."""
    seen: set[tuple[int, str]] = set()
    for operation in flow.operations:
        if operator_of(operation) is operator.rshift:
            name = _shifted(operation.source.node)
            key = id(operation.source.unit), name
            if name and key not in seen:
                for found in _of_variable(flow, operation, name):
                    seen.add(key)
                    yield found
                    break


def _shifted(node: ast.AST) -> str:
    match node:
        case ast.BinOp(left=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
            return name
    return ""


def _of_variable(flow: Flow, operation: Operation, name: str) -> Iterator[Finding]:
    unit = operation.source.unit
    stores = [
        each
        for each in flow.assignments
        if each.name == name
        and each.source is not None
        and each.place.unit is unit
        and each.caller == operation.place.caller
    ]
    narrow = [each for each in stores if _is_narrow(each.value)]
    if not narrow:
        return
    first = narrow[0]
    limit, bits = int(first.value.type.maxval) + 1, first.value.type.bitwidth
    reached = set(flow.sources(operation.operands[0]))
    for each in stores:
        is_wider = (
            each.value in reached
            and not _is_narrow(each.value)
            and is_whole(each.value)
            and not flow.is_below(each.value, limit)
        )
        if is_wider and any(_mixes_bits(flow, store.value) for store in stores):
            yield Finding(
                operation.source,
                f"{name} is {first.value.type} where line {{0.line}} assigns it and "
                f"{each.value.type} where line {{1.line}} does, so that it is not reduced modulo "
                f"2**{bits} and the right shift brings in its upper bits. If {bits} bits are "
                f"meant, write {name} = np.{first.value.type}({_assigned(each)}) in line "
                "{1.line}.",
                (first.place, each.place),
            )


def _is_narrow(value: Value) -> bool:
    return is_unsigned(value) and value.type != types.uint64


def _assigned(store: Assignment) -> str:
    """Return what an assignment assigns, also in place."""
    assert store.source is not None
    made, target = store.value.owner, store.place.node
    node = made.source.node if isinstance(made, Operation) else None
    if isinstance(node, ast.AugAssign) and node.target is target:
        assert isinstance(target, ast.Name)
        old = ast.Name(target.id, ast.Load())
        return ast.unparse(ast.BinOp(old, node.op, node.value))
    return ast.unparse(store.source)


def _mixes_bits(flow: Flow, value: Value) -> bool:
    """Return whether a value is computed as those of hashes and random numbers are."""

    def operands(each: Value) -> Iterator[Value]:
        made = each.owner
        if isinstance(made, Operation):
            inner = flow.sources(each) if made.name == "if" else made.operands
            yield from (v for v in inner if not flow.is_read_by_name(v))

    makers = (each.owner for each in reached([value], operands))
    return any(isinstance(made, Operation) and _is_of_hashes(made) for made in makers)


def _is_of_hashes(made: Operation) -> bool:
    function = operator_of(made)
    if function is operator.mul:
        numbers = map(constant_number, made.operands)
        return any(number is not None and number >= _LARGE_FACTOR for number in numbers)
    return function in _OF_BITS
