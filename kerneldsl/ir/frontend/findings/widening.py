"""float64 arithmetic with results that are stored as float32.

By Numba's rules a Python float is float64, and so is what comes of float32 with float64 or with an
int64. On most GPUs that is 2 to 64 times slower, and on all it moves more registers. LLVM narrows
what it can, so a reader of these notes looks whether the compiled code does compute in float64.

References
----------
Numba documentation, "Numba Enhancement Proposals", NBEP 1 ("Changes in integer typing"); NumPy,
"Data type promotion".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from numba import types

from kerneldsl.contract.findings import Finding
from kerneldsl.frontend.expressions import written
from kerneldsl.frontend.parts import Part
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.frontend.findings.flow import Flow, is_whole
from kerneldsl.ir.operations import Function, Operation, Value
from kerneldsl.language.reserved import RESERVED_PREFIX

__all__ = ["wide_stores"]


def wide_stores(flow: Flow, function: Function) -> Iterator[Finding]:
    """Yield the kernel's stores to float32 arrays of what it computes in float64.

    There is at most one for each statement and cause.
    """
    seen: set[tuple[int, str]] = set()
    targets: dict[ast.AST, Iterator[ast.expr]] = {}
    for operation in flow.operations:
        if operation.name != "array.store" or operation.source.unit is not function.unit:
            continue
        node = operation.source.node
        stores = targets.setdefault(node, _targets(node))
        target, value = next(stores, None), _before(operation.operands[-1])
        kinds = operation.operands[0].type.dtype, value.type
        if target is None or kinds != (types.float32, types.float64):
            continue
        text = _shown(function.unit, target)
        for cause, remedy in _Causes(flow, function).of(node.value, value):
            if (id(target), cause) not in seen:
                seen.add((id(target), cause))
                place = Part(function.unit, target)
                yield Finding(
                    place,
                    f"{text} is float32 and is computed in float64 (line {{0.line}}), because "
                    f"{cause}. {remedy}.",
                    (place,),
                )


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Assign(targets=targets):
            return (each for each in targets if isinstance(each, ast.Subscript))
        case ast.AugAssign(target=ast.Subscript() as target):
            return iter([target])
    return iter(())


def _before(value: Value) -> Value:
    """Return a value before it is converted, unless the program writes the conversion."""
    made = value.owner
    if isinstance(made, Operation) and made.name == "cast" and "written" not in made.attributes:
        found: Value = made.operands[0]
        return found
    return value


def _shown(unit: FunctionUnit, node: ast.AST) -> str:
    """Return an expression as Python prints it; what a rewrite has made, as it is written."""
    text = ast.unparse(node)
    return written(node, unit) if RESERVED_PREFIX in text else text


class _Operand(NamedTuple):
    """A value that makes another one float64, with its expression."""

    node: ast.AST
    value: Value


_Cause: TypeAlias = tuple[str, str]


class _Causes:
    """Sources of float64 values."""

    def __init__(self, flow: Flow, function: Function) -> None:
        self._flow = flow
        self._unit: FunctionUnit = function.unit
        self._arguments = function.body.arguments
        self._seen: set[Value] = set()

    def of(self, node: ast.AST, value: Value) -> Iterator[_Cause]:
        """Yield what makes an expression float64, and what to write instead."""
        # A chain of values may be longer than Python's limit of nested calls.
        pending = [self._direct(node, value)]
        while pending:
            found = next(pending[-1], None)
            if found is None:
                pending.pop()
            elif isinstance(found, _Operand):
                pending.append(self._direct(*found))
            else:
                yield found

    def _direct(self, node: ast.AST, value: Value) -> Iterator[_Cause | _Operand]:
        """Yield causes of an expression, and the operands that have others."""
        if value in self._seen:
            return
        self._seen.add(value)
        if self._flow.is_merged(value):
            for each in map(_before, self._flow.sources(value)):
                if each.type == types.float64:
                    yield _Operand(node, each)
            return
        made = value.owner
        own = made.source if isinstance(made, Operation) else None
        if own is not None and isinstance(own.node, ast.expr | ast.AugAssign):
            node = own.node
        text = _shown(self._unit, node)
        match node:
            case ast.UnaryOp(operand=operand) if isinstance(made, Operation):
                inner = made.operands[0] if made.operands else None
                if inner is None:
                    yield from self._of_literal(operand)
                else:
                    yield _Operand(operand, inner)
            case ast.Constant():
                yield from self._of_literal(node)
            case ast.Name(id=name) if value in self._arguments:
                yield (
                    f"the argument {name} is float64, as every Python float is",
                    f"Pass np.float32({name})",
                )
            case ast.Name(id=name) if name in self._unit.constants:
                yield (
                    f"the captured constant {self._unit.constants[name].path} is float64, as every "
                    "Python float is",
                    "Define it as np.float32(…)",
                )
            case ast.Subscript() if isinstance(made, Operation) and made.name == "array.load":
                yield (
                    f"{text} is an element of a float64 array",
                    f"Use np.float32({text}), or a float32 array",
                )
            case ast.BinOp(left=left, right=right) if isinstance(made, Operation):
                yield from self._of_pair(node, made, left, right)
            case ast.AugAssign(target=left, value=right) if isinstance(made, Operation):
                yield from self._of_pair(node, made, left, right)
            case ast.Call(args=arguments) if isinstance(made, Operation):
                given = list(zip(arguments, made.operands, strict=False))
                if any(each.type == types.float64 for _, each in given):
                    yield from self._among(given)
                else:
                    yield f"{text} is float64", f"Write np.float32({text})"
            case ast.Call() | ast.Subscript():
                yield f"{text} is float64", f"Write np.float32({text})"

    def _of_literal(self, node: ast.expr) -> Iterator[_Cause]:
        text = _shown(self._unit, node)
        yield f"the literal {text} is float64", f"Write np.float32({text})"

    def _among(self, pairs: list[tuple[ast.expr, Value]]) -> Iterator[_Operand]:
        for node, value in pairs:
            if value.type == types.float64:
                yield _Operand(node, value)

    def _of_pair(
        self, node: ast.BinOp | ast.AugAssign, made: Operation, left: ast.expr, right: ast.expr
    ) -> Iterator[_Cause | _Operand]:
        pairs = list(zip((left, right), made.operands, strict=False))
        if any(value.type == types.float64 for _, value in pairs):
            yield from self._among(pairs)
            return
        whole = [(_shown(self._unit, each), value) for each, value in pairs if is_whole(value)]
        if len(whole) == 2:
            one, two = (text for text, _ in whole)
            quotient = (
                f"{one} / {two}" if isinstance(node, ast.AugAssign) else _shown(self._unit, node)
            )
            yield (
                f"{quotient} divides integers, which gives float64",
                f"Write np.float32({one}) / np.float32({two})",
            )
        elif whole:
            ((text, value),) = whole
            yield (
                f"{text} is {value.type}, and with float32 that gives float64",
                f"Write np.float32({text})",
            )
