"""Findings about a kernel's branches and arithmetic, with places and what to write instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kerneldsl.analysis.expressions import assigned_names, index_parts
from kerneldsl.analysis.ranges import nonnegative_indices
from kerneldsl.explain.explanation import BranchReport, Finding
from kerneldsl.explain.symbols import record_of
from kerneldsl.explain.tally import Tallies
from kerneldsl.explain.text import short_number
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.language.element_types import ELEMENT_TYPES, ElementType
from kerneldsl.language.kinds import Kind, ScalarKind, leaf_kinds
from kerneldsl.language.types import DtypeType

__all__ = ["divergence", "double_arithmetic", "index_arithmetic", "integer_division"]

#: Lanes at work, below which a branch or a loop is told of, and the warps that it must concern.
_AT_WORK, _CONCERNED = 0.9, 0.05


def divergence(branches: Sequence[BranchReport]) -> Iterator[Finding]:
    """Yield the branches and loops in which lanes of a warp wait for others."""
    for each in branches:
        if each.depends_on_data or not each.warps:
            continue
        idle = 1.0 - each.share
        if each.is_loop:
            if each.share >= _AT_WORK:
                continue
            what = f"{100 * each.share:.3g} % of lanes are at work in the rounds of their warps"
            why = "A warp makes as many rounds as the lane with the most"
            remedy = "Give the threads of a warp loops of equal length, or sort by length"
        else:
            if each.divergent < _CONCERNED * each.warps or each.share >= _AT_WORK:
                continue
            what = (
                f"the lanes of {100 * each.divergent / each.warps:.3g} % of the warps part here, "
                f"and {100 * each.share:.3g} % of them are at work"
            )
            why = "A warp executes both sides, one after the other"
            remedy = "Let whole warps take one side: compare kd.threadIdx.x // 32, or compact first"
        yield Finding(
            "divergence", each.where, each.share, what, why, remedy, weight=32 * idle * each.warps
        )


def double_arithmetic(
    typed: TypedUnit, kinds: Sequence[Kind], tallies: Tallies
) -> Iterator[Finding]:
    """Yield where a kernel computes in float64 whose arguments hold none."""
    leaves = [part for each in leaf_kinds(kinds) for part in _numbers(each.element)]
    if any(each.is_double for each in leaves) or not any(each.is_float for each in leaves):
        return
    found: dict[tuple[TypedUnit, ast.AST], _Doubles] = {}
    statements = {each: _statements(each) for each in typed.reachable()}
    for (unit, node, dtype, _), count in tallies.floats.items():
        statement = statements[unit].get(node)
        if dtype != "float64" or statement is None:
            continue
        cause = _cause(unit, statement)
        key = unit, statement if cause is None else cause
        doubles = found.setdefault(key, _Doubles(node if cause is None else cause))
        doubles.count += count
        doubles.lines.add(unit.unit.locate(statement).lineno)
    for (unit, place), each in found.items():
        where = unit.unit.locate(each.shown)
        remedy = "Convert the operands by np.float32(…), integers before they are divided"
        if each.shown is place:
            text = ast.unparse(place)
            remedy = f"Write np.float32({text}), or name it as a constant of that type"
        others = sorted(each.lines - {where.lineno})
        lines = f" in line{'s' * (len(others) > 1)} {', '.join(map(str, others))}" if others else ""
        yield Finding(
            "float64",
            where,
            each.count,
            f"{short_number(each.count)} operations{lines} are in float64, and no argument is",
            "A Python float is a float64, and so is what it is added to or multiplied by; GPUs "
            "compute in float64 at half the rate of float32 or, most of them, at a 64th",
            remedy,
            weight=64 * each.count,
        )


def _numbers(element: ElementType) -> Iterator[ElementType]:
    """Yield an element type, or those of a record's fields."""
    if not element.is_record:
        yield element
    for each in element.fields if element.is_record else ():
        yield from _numbers(ELEMENT_TYPES[each.dtype])


@dataclass
class _Doubles:
    """Operations in float64 that one place causes."""

    shown: ast.AST
    count: float = 0.0
    lines: set[int] = field(default_factory=set)


def _statements(typed: TypedUnit) -> dict[ast.AST, ast.stmt]:
    """Return the innermost statement of each node."""
    found: dict[ast.AST, ast.stmt] = {}
    for node in ast.walk(typed.unit.tree):  # outer statements come first
        if isinstance(node, ast.stmt):
            found.update(dict.fromkeys(ast.walk(node), node))
    return found


def _cause(typed: TypedUnit, statement: ast.stmt) -> ast.expr | None:
    """Return the float that makes a statement compute in float64.

    It is written into the statement, or into one that gave a variable of the statement its value.
    """
    waiting = [statement]
    looked: set[ast.stmt] = set()
    while waiting:
        one = waiting.pop(0)
        looked.add(one)
        names = set()
        header = one.test if isinstance(one, ast.If | ast.While) else one
        converted = {
            each
            for node in ast.walk(header)
            if isinstance(node, ast.Call) and isinstance(typed.type_of(node.func), DtypeType)
            for each in node.args
        }
        for node in ast.walk(header):
            if isinstance(node, ast.Constant) and isinstance(node.value, float):
                if node not in converted:
                    return node
            elif isinstance(node, ast.Name) and typed.type_of(node) == ScalarKind("float64"):
                if node.id in typed.unit.constants:
                    return node
                names.add(node.id)
        waiting += [
            each
            for each in ast.walk(typed.unit.tree)
            if isinstance(each, ast.Assign | ast.AugAssign | ast.AnnAssign)
            if each not in looked and names & set(assigned_names(each))
        ]
    return None


def integer_division(tallies: Tallies) -> Iterator[Finding]:
    """Yield divisions and remainders of integers by what is no constant."""
    for each in tallies.divisions.values():
        remedy = (
            "Divide by a constant that the kernel captures, a power of two best, or let the grid's "
            "axes give the quotient and the remainder"
        )
        if each.fits and not each.is_narrow:
            remedy = (
                "Both are from 0 to 2**32 - 1 in this launch: np.uint32(…) around each of them "
                f"divides in 32 bits. {remedy}"
            )
        count = short_number(each.count)
        yield Finding(
            "integer division",
            each.where,
            each.count,
            f"{count} divisions or remainders of {each.dtype} by what is no constant",
            "GPUs have no instruction for it: each takes some tens of them, and in 64 bits more",
            remedy,
            weight=32 * each.count,
        )


def index_arithmetic(typed: TypedUnit, tallies: Tallies) -> Iterator[Finding]:
    """Yield, for each function, the indices that count from the end where they are negative.

    None of them is negative in the launch, but the code does not show it.
    """
    for unit in typed.reachable():
        proven = nonnegative_indices(unit.unit)
        places: dict[ast.AST, float] = {}
        for each in tallies.accesses.values():
            node = each.node
            while (base := record_of(unit, node)) is not None:
                node = base
            if each.unit is not unit or each.wraps or not isinstance(node, ast.Subscript):
                continue
            parts = [p for p in index_parts(node) if p not in proven and _wraps(unit, p)]
            if parts:  # what is read and written at one place has one index
                places[node] = len(parts) * each.lanes
        if not places:
            continue
        count = sum(places.values())
        many = f" at {len(places)} places" if len(places) > 1 else ""
        yield Finding(
            "index arithmetic",
            unit.unit.locate(max(places, key=lambda place: places[place])),
            count,
            f"{short_number(count)} indices{many} may be negative, for all that the code shows",
            "Each is compared with 0 to count from the end: some four 64-bit instructions, eight "
            "of a GPU's",
            "Where none ever is, as in this launch, promise it: @kd.kernel(wraparound=False)",
            weight=8 * count,
        )


def _wraps(typed: TypedUnit, index: ast.expr) -> bool:
    """Return whether an index is of a type that can be negative, and no constant."""
    kind = typed.type_of(index)
    if not isinstance(kind, ScalarKind) or isinstance(index, ast.Constant):
        return False
    return kind.element.is_integer and not kind.element.is_unsigned
