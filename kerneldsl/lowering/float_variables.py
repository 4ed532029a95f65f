"""Find the assignment that makes a variable a float, where an operator takes integers alone."""

from __future__ import annotations

import ast

from kerneldsl.analysis.bindings import bindings
from kerneldsl.analysis.inferred_types import InferredTypes
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import Kind

__all__ = ["float_operand"]

_OF_INTEGERS = ast.BitAnd | ast.BitOr | ast.BitXor | ast.LShift | ast.RShift


def float_operand(unit: FunctionUnit, kinds: tuple[Kind, ...], line: int) -> str | None:
    """Return which variable of a bitwise operation or shift in a line is a float, and since where.

    The answer is part of a message; ``None`` where no such variable is known.
    """
    for types in InferredTypes(unit, kinds).of_calls():
        names = set[str]()
        for node in walk_here(types.unit.tree):
            match node:
                case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _OF_INTEGERS):
                    parts: list[ast.expr] = [left, right]
                case ast.AugAssign(target=target, op=op, value=value) if isinstance(
                    op, _OF_INTEGERS
                ):
                    parts = [target, value]
                case _:
                    continue
            if node.lineno == line:
                names |= {part.id for part in parts if isinstance(part, ast.Name)}
        for binding in bindings(types.unit.tree):
            found = types.of(binding.value)
            if (
                isinstance(binding.target, ast.Name)
                and binding.target.id in names
                and found is not None
                and (ELEMENT_TYPES[found].is_float or ELEMENT_TYPES[found].is_complex)
            ):
                where = types.unit.locate(binding.node)
                name = types.unit.spellings.get(binding.target.id, binding.target.id)
                return f"{name} is {found} where line {where.lineno} assigns it"
    return None
