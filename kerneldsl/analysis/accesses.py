"""How often a kernel reads and writes each of its arrays: what a launch moves, for the planner.

Counted are the places in the kernel's own text, once for each different index: ``x[i]`` twice is
one access, ``x[i - 1] + x[i + 1]`` are two. What is behind a condition counts once, and so does
what is in a loop, which is said. Device functions that a parameter is handed to count as one access
of the kind that :mod:`~kerneldsl.analysis.effects` finds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from kerneldsl.analysis.effects import array_effects
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics import Effect

__all__ = ["ArrayAccess", "array_accesses"]


@dataclass(frozen=True, slots=True)
class ArrayAccess:
    """How one parameter's array is accessed.

    Parameters
    ----------
    position : int
        Of the parameter; that of a tuple stands for all its arrays together.
    loads, stores : int
        Different places that are read and written by one run of the body; an update in place is
        both. At least 1 where the analysis cannot exclude it.
    in_loop : bool
        Whether one of them is in a loop, so that there may be more.
    is_atomic : bool
        Whether it is updated atomically.
    """

    position: int
    loads: int
    stores: int
    in_loop: bool = False
    is_atomic: bool = False


def array_accesses(unit: FunctionUnit) -> tuple[ArrayAccess, ...]:
    """Count the accesses of a kernel's arrays.

    Parameters
    ----------
    unit : FunctionUnit
        The kernel.

    Returns
    -------
    tuple of ArrayAccess
        For each parameter that may be read or written, in their order.
    """
    read, written = array_effects(unit)
    loads: dict[int, set[str]] = {position: set() for position in read}
    stores: dict[int, set[str]] = {position: set() for position in written}
    looped: set[int] = set()
    atomic: set[int] = set()
    for node, in_loop in _with_loops(unit.tree):
        for position, index, is_load, is_store in _accesses(unit, node):
            if is_load and position in loads:
                loads[position].add(index)
            if is_store and position in stores:
                stores[position].add(index)
            if in_loop:
                looped.add(position)
            if isinstance(node, ast.Call):
                atomic.add(position)
    return tuple(
        ArrayAccess(
            position,
            max(len(loads[position]), 1) if position in loads else 0,
            max(len(stores[position]), 1) if position in stores else 0,
            position in looped,
            position in atomic,
        )
        for position in sorted(read | written)
    )


def _with_loops(tree: ast.AST, *, in_loop: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Every node, and whether it is repeated."""
    for child in ast.iter_child_nodes(tree):
        repeated = in_loop or isinstance(tree, ast.For | ast.While | ast.comprehension)
        yield child, repeated
        yield from _with_loops(child, in_loop=repeated)


def _accesses(unit: FunctionUnit, node: ast.AST) -> Iterator[tuple[int, str, bool, bool]]:
    """Parameter, index, whether read, whether written, of one node's own access."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
        base = _parameter(unit, node.target.value)
        if base is not None:
            yield base, ast.dump(node.target.slice), True, True
    elif isinstance(node, ast.Subscript):
        base = _parameter(unit, node.value)
        if base is not None:
            is_load = isinstance(node.ctx, ast.Load)
            yield base, ast.dump(node.slice), is_load, not is_load
    elif isinstance(node, ast.Call):
        use = unit.use_of(node)
        if use is not None and use.intrinsic.effect & Effect.ATOMIC:
            base = _parameter(unit, node.args[0])
            if base is not None:
                yield base, ast.dump(node.args[1]), True, True


def _parameter(unit: FunctionUnit, node: ast.expr) -> int | None:
    """The parameter that an expression is, or is an element of."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name) and node.id in unit.parameters:
        return unit.parameters.index(node.id)
    return None
