"""Findings about a kernel's branches and arithmetic, with places and what to write instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from kerneldsl.explain.explanation import BranchReport, Finding
from kerneldsl.explain.tally import Tallies
from kerneldsl.explain.text import short_number
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.language.kinds import Kind, ScalarKind, leaf_kinds

__all__ = ["divergence", "double_arithmetic", "integer_division"]

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
    leaves = [each.element for each in leaf_kinds(kinds)]
    if any(each.is_double for each in leaves) or not any(each.is_float for each in leaves):
        return
    found: dict[tuple[TypedUnit, ast.stmt], tuple[ast.AST, float]] = {}
    statements = {each: _statements(each) for each in typed.reachable()}
    for (unit, node, dtype, _), count in tallies.floats.items():
        statement = statements[unit].get(node)
        if dtype != "float64" or statement is None:
            continue
        first, total = found.get((unit, statement), (node, 0.0))
        found[unit, statement] = first, total + count
    for (unit, statement), (node, count) in found.items():
        cause = _cause(unit, statement)
        shown = node if cause is None else cause
        remedy = "Convert the operands by np.float32(…), integers before they are divided"
        if cause is not None:
            text = ast.unparse(cause)
            remedy = f"Write np.float32({text}), or name it as a constant of that type"
        yield Finding(
            "float64",
            unit.unit.locate(shown),
            count,
            f"{short_number(count)} operations are in float64, and no argument is",
            "A Python float is a float64, and so is what it is added to or multiplied by; GPUs "
            "compute in float64 at half the rate of float32 or, most of them, at a 64th",
            remedy,
            weight=64 * count,
        )


def _statements(typed: TypedUnit) -> dict[ast.AST, ast.stmt]:
    """Return the innermost statement of each node."""
    found: dict[ast.AST, ast.stmt] = {}
    for node in ast.walk(typed.unit.tree):  # outer statements come first
        if isinstance(node, ast.stmt):
            found.update(dict.fromkeys(ast.walk(node), node))
    return found


def _cause(typed: TypedUnit, statement: ast.stmt) -> ast.expr | None:
    """Return the first float that is written into a statement, or a constant that is one."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            return node
        is_captured = isinstance(node, ast.Name) and node.id in typed.unit.constants
        if is_captured and typed.type_of(node) == ScalarKind("float64"):
            return node  # type: ignore[return-value]
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
