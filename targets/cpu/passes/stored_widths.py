"""Narrow slots whose only use is a narrower store.

Numba types ``value = sums[t] + sums[t - step]`` as int64. If a barrier follows, and the value is
then stored in an array of int32 alone, only its lower half counts. A slot of int32 takes half of
the memory, and vectors hold twice as many.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence

from kerneldsl.analysis.expressions import index_parts
from kerneldsl.frontend.trees import walk_here
from kerneldsl.language.element_types import ELEMENT_TYPES
from targets.cpu.passes.items import Item, Threads, Vote, items_of_threads
from targets.cpu.passes.liveness import Liveness

__all__ = ["stored_widths"]


def stored_widths(
    items: Sequence[Item], liveness: Liveness, arrays: Mapping[str, tuple[str, int]]
) -> dict[str, str]:
    """Return the dtype of the elements that each such variable is stored in.

    `arrays` are variables that hold one array, with its dtype and rank.
    """
    found: dict[str, set[str | None]] = {}
    for item in items_of_threads(items):
        for name in liveness.loads(item):
            found.setdefault(name, set()).update(_uses(name, item, arrays))
    return {
        name: dtype
        for name, dtypes in found.items()
        if len(dtypes) == 1
        for dtype in dtypes
        if dtype is not None and ELEMENT_TYPES[dtype].is_integer
    }


def _uses(
    name: str, item: Threads | Vote, arrays: Mapping[str, tuple[str, int]]
) -> Iterable[str | None]:
    """Yield the dtypes of elements that a variable is stored in, and ``None`` for another use."""
    if isinstance(item, Vote):
        yield None
        return
    stored: set[ast.expr] = set()
    nodes = list(walk_here((*item.body, *item.guards)))
    for node in nodes:
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id=array)) as target],
                value=ast.Name(id=used) as value,
            ) if used == name and array in arrays:
                dtype, rank = arrays[array]
                parts = index_parts(target)
                if len(parts) == rank and not any(isinstance(p, ast.Slice) for p in parts):
                    stored.add(value)
                    yield dtype
    if any(isinstance(n, ast.Name) and n.id == name and n not in stored for n in nodes):
        yield None
