"""Lay threads' own arrays out with the elements of neighbouring threads side by side.

An array that has to stay one (:mod:`~targets.cpu.passes.local_elements`) is indexed by something
that is known at run time alone. If that is the same for all threads, as in ``acc[k % 8]`` with
the counter ``k`` of a loop that all make together, such a loop can run outside the loop over
threads: what the threads of a row or a strip then read and write is together. Each of them has its
own element in what becomes ``acc[k % 8, lane]``.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Sequence

from kerneldsl.analysis.expressions import loaded_names
from kerneldsl.analysis.hoisting import place_at
from kerneldsl.frontend.syntax import call, load
from kerneldsl.frontend.trees import Transformer, walk_here
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.language.element_types import ELEMENT_TYPES
from targets.cpu.passes.element_writer import element_of
from targets.cpu.passes.ids import BlockSpace, ElementSpace, Space, WarpSpace
from targets.cpu.passes.interchange import STRIP
from targets.cpu.passes.items import Branch, ForLoop, Item, Threads, WhileLoop

__all__ = ["SPREAD_START", "SpreadElements", "all_interchanged", "spread_use"]

#: The first thread of a strip, whose element is the first one: what :class:`SpreadElements` counts
#: from in a row of elements. Where a thread runs alone it is that thread.
SPREAD_START = "kd_strip"
#: Bytes of an array for all threads that run together: more are not kept in the fastest cache.
_MOST_BYTES = 32 * 1024


def spread_use(use: IntrinsicUse, space: Space) -> IntrinsicUse | None:
    """Return the array for all threads that run together, or ``None`` if it is too large."""
    if isinstance(space, WarpSpace):
        return None
    extents = (STRIP,) if isinstance(space, ElementSpace) else tuple(reversed(space.extents))
    shape = (*use.static["shape"], *extents)
    nbytes = math.prod(shape) * ELEMENT_TYPES[use.static["dtype"]].nbytes
    if nbytes > _MOST_BYTES:
        return None
    return IntrinsicUse(use.intrinsic, {**use.static, "shape": shape})


class SpreadElements(Transformer):
    """Adds this thread's place to the indices of arrays, in place."""

    def __init__(self, names: Collection[str], space: Space) -> None:
        self.names = names
        self.space = space

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        found = element_of(node)
        if found is None or found[0] not in self.names:
            return self.generic_visit(node)
        name, parts = found
        whole = ast.Tuple([*map(self.visit, parts), *self._place()], ast.Load())
        return place_at(ast.Subscript(load(name), whole, node.ctx), node)

    def _place(self) -> list[ast.expr]:
        places: list[ast.expr]
        if isinstance(self.space, BlockSpace):
            places = [load(name) for name in reversed(self.space.thread_names)]
        else:
            places = [ast.BinOp(load("kd_x"), ast.Sub(), load(SPREAD_START))]
        return [call("kd_unsigned", each) for each in places]


def all_interchanged(items: Sequence[Item], names: Collection[str]) -> bool:
    """Return whether all loops with one of these variables are interchanged."""
    for item in items:
        match item:
            case Threads(rows=None):
                if loaded_names([*item.body, *item.guards]) & set(names):
                    return False
            case Threads(rows=rows) if rows is not None:
                if not all(_is_interchanged(each, names) for each in rows):
                    return False
            case Branch():
                if not (
                    all_interchanged(item.body, names) and all_interchanged(item.orelse, names)
                ):
                    return False
            case ForLoop() | WhileLoop():
                if not all_interchanged(item.body, names):
                    return False
    return True


def _is_interchanged(item: Item, names: Collection[str]) -> bool:
    match item:
        case Threads():
            return not any(
                isinstance(inner, ast.For | ast.While) and loaded_names(inner) & set(names)
                for node in item.body
                for inner in walk_here(node)
            )
        case ForLoop() | WhileLoop():
            return all(_is_interchanged(each, names) for each in item.body)
    return True
