"""Say where a kernel's uint64 values become int64, when it is made for arguments."""

from __future__ import annotations

import ast

from kerneldsl.analysis.expressions import folded, written
from kerneldsl.analysis.sign_changes import SignChange, sign_changes
from kerneldsl.contract import Compiler, Specialization
from kerneldsl.errors import KernelTypingError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.launch.value_warnings import warn_at

__all__ = ["warn_of_sign_changes"]


def warn_of_sign_changes(compiler: Compiler, specialization: Specialization) -> bool:
    """Warn of each conversion with a result that may differ, with the places of both values.

    Returns whether there is any.

    Raises
    ------
    KernelTypingError
        Where bits of a variable of both types are shifted to the right.
    """
    typed = compiler.typed_unit(specialization.unit, specialization.kinds)
    changes = list(sign_changes(typed))
    for change in changes:
        if change.is_shifted:
            raise KernelTypingError(
                _what(change),
                where=change.unit.locate(change.node),
                value=change.variable,
                limit="A right shift brings in zeros for uint64 and the sign for int64",
                remedy=_remedy(change),
            )
        text = f"{_what(change)}. {_consequence(change)}. {_remedy(change)}."
        warn_at(specialization.unit, change.unit, change.node, text)
    return bool(changes)


def _what(change: SignChange) -> str:
    unit, kind = change.unit, change.signed_type
    if change.variable is not None:
        return (
            f"{change.variable} is uint64 where line {_line(unit, change.wide)} assigns it and "
            f"{kind} where line {_line(unit, change.signed)} does, so it becomes int64"
        )
    wide, signed = written(change.wide, unit), written(change.signed, unit)
    places = sorted({_line(unit, change.wide), _line(unit, change.signed)})
    lines = "line " + " and ".join(map(str, places))
    return f"{wide} is uint64 and {signed} is {kind} ({lines}), so the result is int64"


def _consequence(change: SignChange) -> str:
    return "A uint64 of 2**63 or more becomes negative"


def _remedy(change: SignChange) -> str:
    unit = change.unit
    if isinstance(change.node, ast.AugAssign):
        return _remedy_in_place(change, change.node)
    signed, wide = _value(change.signed, unit), _value(change.wide, unit)
    number = folded(change.signed) if isinstance(change.signed, ast.expr) else None
    if number is not None and (unit.literal(number) or 0) < 0:
        return f"Write np.int64({wide}) where that is meant"
    return f"Write np.uint64({signed}), or np.int64({wide}) where that is meant"


def _remedy_in_place(change: SignChange, node: ast.AugAssign) -> str:
    """Return the remedy of ``x += y`` with a target that cannot be converted in place."""
    target, value = written(node.target, change.unit), written(node.value, change.unit)
    operation = ast.unparse(ast.BinOp(ast.Name("x"), node.op, ast.Name("y")))
    symbol = operation.removeprefix("x").removesuffix("y").strip()
    unsigned, signed = (
        (f"{target} {symbol} np.uint64({value})", f"np.int64({target}) {symbol} {value}")
        if change.wide is node.target
        else (f"np.uint64({target}) {symbol} {value}", f"{target} {symbol} np.int64({value})")
    )
    return f"Write {target} = {unsigned}, or {target} = {signed} where that is meant"


def _value(node: ast.AST, unit: FunctionUnit) -> str:
    """Return what is to be converted, as written: the value that a variable is assigned."""
    for statement in ast.walk(unit.tree):
        match statement:
            case ast.Assign(targets=targets, value=value) if node in targets:
                return written(value, unit)
            case ast.AugAssign(target=target, value=value) if node is target:
                return written(value, unit)
    return node.arg if isinstance(node, ast.arg) else written(node, unit)


def _line(unit: FunctionUnit, node: ast.AST) -> int:
    return unit.locate(node).lineno
