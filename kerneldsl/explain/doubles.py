"""Findings about arithmetic in float64 where no argument is, with all that makes it so."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from kerneldsl.analysis.expressions import assigned_names
from kerneldsl.errors import SourceLocation
from kerneldsl.explain.accesses import source_text
from kerneldsl.explain.explanation import Finding
from kerneldsl.explain.tally import Tallies
from kerneldsl.explain.text import short_number
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.frontend.user_places import user_place
from kerneldsl.language.element_types import ELEMENT_TYPES, ElementType
from kerneldsl.language.kinds import Kind, ScalarKind, leaf_kinds

__all__ = ["double_arithmetic"]


def double_arithmetic(
    typed: TypedUnit, kinds: Sequence[Kind], tallies: Tallies
) -> Iterator[Finding]:
    """Yield where a kernel computes in float64 whose arguments hold none.

    Operations that share a cause are one finding, which names all their causes: only where each of
    them is a float32 are the operations in float32.
    """
    leaves = [part for each in leaf_kinds(kinds) for part in _numbers(each.element)]
    if any(each.is_double for each in leaves) or not any(each.is_float for each in leaves):
        return
    roots: dict[TypedUnit, _Roots] = {}
    roots.update((each, _Roots(each, roots)) for each in typed.reachable())
    groups: list[tuple[dict[ast.AST, TypedUnit], set[ast.AST], float]] = []
    units: dict[ast.AST, TypedUnit] = {}
    for (unit, node, dtype, _), count in tallies.floats.items():
        if dtype != "float64":
            continue
        units[node] = unit
        causes = dict(roots[unit].of_operation(node, set())) or {node: unit}
        nodes = {node}
        for group in [each for each in groups if causes.keys() & each[0].keys()]:
            groups.remove(group)
            causes, nodes, count = group[0] | causes, group[1] | nodes, group[2] + count
        groups.append((causes, nodes, count))
    for causes, nodes, count in groups:
        yield _finding(typed.unit, causes, {node: units[node] for node in nodes}, count)


def _numbers(element: ElementType) -> Iterator[ElementType]:
    """Yield an element type, or those of a record's fields."""
    if not element.is_record:
        yield element
    for each in element.fields if element.is_record else ():
        yield from _numbers(ELEMENT_TYPES[each.dtype])


def _finding(
    kernel: FunctionUnit,
    causes: dict[ast.AST, TypedUnit],
    nodes: dict[ast.AST, TypedUnit],
    count: float,
) -> Finding:
    places = sorted(
        (_cause(cause, unit.unit, kernel) for cause, unit in causes.items()),
        key=lambda each: (each[0].filename, each[0].lineno, each[0].col_offset or 0),
    )
    where = places[0][0]
    written: list[str] = []
    for line, group in itertools.groupby(places, key=lambda each: each[0].lineno):
        texts = dict.fromkeys(f"np.float32({cause})" for _, cause in group)
        written.append(" and ".join(texts) + (f" in line {line}" if line != where.lineno else ""))
    lines_of = {user_place(u.unit.locate(n), kernel).lineno for n, u in nodes.items()}
    others = sorted(lines_of - {where.lineno})
    lines = f" in line{'s' * (len(others) > 1)} {', '.join(map(str, others))}" if others else ""
    return Finding(
        "float64",
        where,
        count,
        f"{short_number(count)} operations{lines} are in float64, and no argument is",
        "A Python float is a float64, and so is what it, or an integer of 32 bits or more, makes "
        "with a float32; GPUs compute in float64 at half the rate of float32 or, most of them, at "
        "a 64th",
        f"Write {', '.join(written)}, or name constants of that type",
        weight=64 * count,
    )


def _cause(node: ast.AST, unit: FunctionUnit, kernel: FunctionUnit) -> tuple[SourceLocation, str]:
    """Return the place of a cause and its text; of one in our files those of the user's call."""
    where = unit.locate(node)
    shown = user_place(where, kernel)
    return shown, ast.unparse(node) if shown is where else source_text(shown)


#: A node that makes operations float64, and its function.
_Root: TypeAlias = tuple[ast.AST, TypedUnit]


class _Roots:
    """Causes of float64 in one function: constants, integers, and functions that are called.

    Each has to be a float32 for the operation to be in float32.
    """

    def __init__(self, typed: TypedUnit, others: Mapping[TypedUnit, _Roots]) -> None:
        self._typed, self._others = typed, others
        self._givers: dict[str, list[ast.stmt]] = {}
        self._results: list[ast.expr] = []
        for node in ast.walk(typed.unit.tree):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
                for name in assigned_names(node):
                    self._givers.setdefault(name, []).append(node)
            elif isinstance(node, ast.Return) and node.value is not None:
                self._results.append(node.value)

    def of_operation(self, node: ast.AST, asked: set[ast.AST]) -> Iterator[_Root]:
        """Yield what makes an operation float64; what was `asked` before is left out."""
        operands: list[ast.expr] = []
        match node:
            case ast.BinOp(left=left, right=right):
                operands = [left, right]
            case ast.AugAssign(target=target, value=value):
                operands = [target, value]
            case ast.Call(args=args):
                operands = args
        if node in asked:
            return
        asked.add(node)
        for each in operands:
            yield from self._of_value(each, asked)

    def _of_value(self, node: ast.expr, asked: set[ast.AST]) -> Iterator[_Root]:
        """Yield what makes a value something else than a float32."""
        kind = self._typed.type_of(node)
        element = kind.element if isinstance(kind, ScalarKind) else None
        if element is not None and element.is_float and not element.is_double:
            return
        match node:
            case _ if element is not None and element.is_integer:
                yield node, self._typed
            case ast.Call() if (callee := self._typed.calls.get(node)) is not None:
                inner = self._others[callee]
                for each in inner._results:
                    yield from inner._of_value(each, asked)
            case ast.BinOp() | ast.Call() if self._typed.operations.get(node):
                yield from self.of_operation(node, asked)
            case ast.UnaryOp(operand=operand):
                yield from self._of_value(operand, asked)
            case ast.IfExp(body=body, orelse=orelse):
                yield from self._of_value(body, asked)
                yield from self._of_value(orelse, asked)
            case ast.Name(id=name) if name in self._givers:
                yield from self._of_variable(name, asked)
            case _:
                yield node, self._typed

    def _of_variable(self, name: str, asked: set[ast.AST]) -> Iterator[_Root]:
        for each in self._givers[name]:
            if isinstance(each, ast.AugAssign):
                yield from self.of_operation(each, asked)
            elif isinstance(each, ast.Assign | ast.AnnAssign) and each not in asked:
                asked.add(each)
                if each.value is not None:
                    yield from self._of_value(each.value, asked)
