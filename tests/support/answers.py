"""Every answer of the analyses of one kernel as text, for tests that compare it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from numba.core.errors import NumbaError

from kerneldsl.analysis.analyze import analyze
from kerneldsl.contract.findings import BarrierProblem
from kerneldsl.errors import KernelError
from kerneldsl.frontend.effects.effects import Writes, augmented_values, written_parameters
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.barriers import analyze_barriers
from kerneldsl.ir.frontend.reader import NotReadError
from kerneldsl.language.kinds import Kind
from tests.support.read_kernels import read_unit

__all__ = ["ANALYSES", "answers"]

Lines = Iterator[str]


def answers(unit: FunctionUnit, kinds: Sequence[Kind] | None = None) -> dict[str, str]:
    """Return what each analysis says of a kernel.

    Parameters
    ----------
    unit : FunctionUnit
        The kernel, as the front end made it.
    kinds : sequence of Kind, optional
        Kinds of its arguments, for the analyses that need them.
    """
    found = {}
    for name, analysis in ANALYSES.items():
        try:
            found[name] = "\n".join(analysis(unit, kinds))
        except KernelError as error:
            found[name] = f"{type(error).__name__}: {error.args[0]}"
    return found


def _place(node: ast.AST, unit: FunctionUnit) -> str:
    """The place of a node by its line in its function, and its text."""
    where = unit.locate(node)
    text = ast.unparse(node).partition("\n")[0]
    return f"{unit.name}:{where.lineno - unit.first_line}:{where.col_offset} {text}"


def _in_order(unit: FunctionUnit) -> Iterator[ast.AST]:
    """Expressions and statements of a function from its first line to its last."""

    def below(node: ast.AST) -> Iterator[ast.AST]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr | ast.stmt):
                yield child
            yield from below(child)

    for statement in unit.tree.body:
        yield statement
        yield from below(statement)


def _names(values: Iterable[Any]) -> str:
    return " ".join(sorted(map(str, values))) or "-"


def _problems(found: Iterable[BarrierProblem], unit: FunctionUnit) -> Lines:
    for problem in found:
        line = (problem.where.lineno or 0) - unit.first_line
        yield f"  barrier {line}:{problem.where.col_offset} provable={problem.is_provable}"
        for link in (problem.what, *problem.chain):
            yield f"    {link.rpartition('  (')[0] or link}"


def _traits(unit: FunctionUnit, kinds: Sequence[Kind] | None) -> Lines:
    found = analyze(unit)
    yield f"writes {_names(found.written)}"
    yield f"uses_block={found.uses_block} grid_only={found.uses_grid_only}"
    yield f"grid {_names(found.grid_ndims)} shared {found.static_shared_bytes}"


def _barriers(unit: FunctionUnit, kinds: Sequence[Kind] | None) -> Lines:
    """What is found on the values of a kernel for its arguments."""
    if kinds is None:
        return
    try:
        found = analyze_barriers(*read_unit(unit, kinds))
    except (NumbaError, NotReadError) as error:
        yield f"not read: {type(error).__name__}"
        return
    yield "problems"
    yield from _problems(found.problems, unit)
    yield "problems if arguments overlap"
    yield from _problems(found.problems_if_overlapping, unit)


def _memory(unit: FunctionUnit, kinds: Sequence[Kind] | None) -> Lines:
    """Effects of each expression."""
    for reached in sorted(unit.reachable(), key=lambda each: (each is not unit, each.name)):
        yield f"{reached.name} writes {_names(written_parameters(reached))}"
        for each in augmented_values(reached):
            yield f"  augmented {each.position} {each.index_count}"
        writes = Writes(reached)
        for node in _in_order(reached):
            parts = [f"writes {_names(writes.of(node))}"]
            if isinstance(node, ast.expr):
                roots, views = writes.roots(node), writes.views(node)
                parts += [f"of {_names(roots)}", f"view {_names(views)}"]
            parts = [part for part in parts if not part.endswith(" -")]
            if parts:
                yield f"{_place(node, reached)}  # {'; '.join(parts)}"


#: What asks each analysis, by a short name.
ANALYSES: dict[str, Callable[[FunctionUnit, Sequence[Kind] | None], Lines]] = {
    "traits": _traits,
    "barriers": _barriers,
    "memory": _memory,
}
