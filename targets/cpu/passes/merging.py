"""Run two items that a barrier parts strip by strip, where no strip needs what a later one does.

The threads of a scan in shared memory read, wait, and write::

    value = sums[t] + sums[t - step]
    syncthreads()
    sums[t] = value

As two loops over threads that is a round trip of every value through memory. A strip of threads
may go through both where nobody needs anything else of what it overwrites. If a thread `t` reads
and a thread `u` writes one element, their indices show how far they are apart: ``t - u`` is `step`
here, for every such pair. If it is never negative, strips run from the last to the first one; if
it is never positive, from the first to the last. What is known at run time alone is tested then.
Within a strip the items still run one after the other, and what a thread keeps for the second one
stays in a register. A strip has so few threads that LLVM finds what one of them stored last
among what it looks at.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from kerneldsl.analysis.expressions import index_parts, loaded_names
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.trees import Transformer, copy_tree, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.language.kinds import ArrayKind
from kerneldsl.lowering.passes.mark_nonnegative_indices import UNSIGNED
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.passes.block_variables import BlockVariables
from targets.cpu.passes.interchange import STRIP
from targets.cpu.passes.items import Branch, ForLoop, Item, Threads, WhileLoop
from targets.cpu.passes.liveness import Liveness
from targets.cpu.passes.narrowing import simplified
from targets.cpu.passes.rematerialization import Rematerializable

__all__ = ["Merging"]

_THREAD = "kd_tx"


class _Access(NamedTuple):
    """An access to an element."""

    #: Variable that holds the array.
    array: str
    #: The element's indices, without marks.
    indices: list[ast.expr]
    is_write: bool


class _Order(NamedTuple):
    """Order in which strips may follow one another."""

    is_descending: bool
    #: Must hold for that; the block can decide.
    tests: list[ast.expr]


@dataclass
class Merging:
    """Finds such items of one kernel with threads along x alone, and merges them."""

    unit: FunctionUnit
    pure: Rematerializable
    names: FreshNames
    variables: BlockVariables
    #: Threads of a block.
    threads: int
    #: Variables that hold different arrays of the block, with their ranks.
    shared: Mapping[str, int]
    #: Of the items as they are.
    liveness: Liveness
    #: Variables of each thread that were added here.
    made: set[str] = field(default_factory=set)

    def apply(self, items: list[Item]) -> bool:
        """Replace pairs of items, in place; return whether there were any."""
        if self.threads % STRIP or self.threads <= STRIP:
            return False
        found = False
        for position, item in enumerate(items):
            match item:
                case Branch():
                    found |= self.apply(item.body)
                    found |= self.apply(item.orelse)
                case ForLoop() | WhileLoop():
                    found |= self.apply(item.body)
                case Threads() if position + 1 < len(items):
                    following = items[position + 1]
                    if isinstance(following, Threads):
                        merged = self.merged(item, following)
                        if merged is not None:
                            items[position : position + 2] = [merged]
                            found = True
        return found

    def merged(self, first: Threads, second: Threads) -> Item | None:
        """Return two items as one that runs strips, or ``None``."""
        kept = self.liveness.saves(first) & self.liveness.loads(second)
        if not kept or not (_is_plain(first) and _is_plain(second)):
            return None
        order = self._order(first, second)
        if order is None:
            return None
        # Of its own in each version: a value that only the strips use never goes to memory.
        outside = self.liveness.loads(first) | self.liveness.after[second]
        new = {name: self.names.make(name) for name in sorted(kept - outside)}
        self.made |= set(new.values())
        rename = _Renaming(new)
        rows: list[Item] = [
            Threads([rename.visit(node) for node in copy_tree(item.body)])
            for item in (first, second)
        ]
        body = [node for row in rows if isinstance(row, Threads) for node in row.body]
        strips = Threads(body, rows=rows, lanes=STRIP, is_descending=order.is_descending)
        if not order.tests:
            return strips
        test = order.tests[0] if len(order.tests) == 1 else ast.BoolOp(ast.And(), order.tests)
        return Branch(test, [strips], [first, second])

    def _order(self, first: Threads, second: Threads) -> _Order | None:
        """Return an order of strips in which no thread finds what it should not."""
        before, after = self._accesses(first), self._accesses(second)
        if before is None or after is None:
            return None
        distances: list[ast.expr] = []
        for one in before:
            for other in after:
                if one.array != other.array and {one.array, other.array} & self.shared.keys():
                    continue
                if not (one.is_write or other.is_write):
                    continue
                distance = self._distance(one, other)
                if distance is None:
                    return None
                distances.append(distance)
        known = [d.value for d in distances if isinstance(d, ast.Constant)]
        unknown = [d for d in distances if not isinstance(d, ast.Constant)]
        signs = [int(value) for value in known]  # type: ignore[arg-type]
        signs += [_with_ones(d) for d in unknown]
        is_descending = all(sign >= 0 for sign in signs)
        if not is_descending and any(sign > 0 for sign in signs):
            return None
        operator = ast.GtE if is_descending else ast.LtE
        different = {ast.dump(d): d for d in unknown}.values()
        tests: list[ast.expr] = [
            ast.Compare(copy.deepcopy(d), [operator()], [ast.Constant(0)]) for d in different
        ]
        return _Order(is_descending, tests)

    def _distance(self, one: _Access, other: _Access) -> ast.expr | None:
        """Return how far a thread is from another one that meets it at an element, ``t - u``.

        The first access is that of `t`. An element has one number: both indices are known not to
        count from the end.
        """
        if one.array != other.array or one.array not in self.shared:
            return None
        for mine, yours in zip(one.indices, other.indices, strict=True):
            a, b = self.pure.affine(mine, _THREAD), self.pure.affine(yours, _THREAD)
            if a is None or b is None or not (a.coefficient == b.coefficient == 1):
                continue
            if self._is_of_block(a.rest) and self._is_of_block(b.rest):
                if ast.dump(a.rest) == ast.dump(b.rest):
                    return ast.Constant(0)
                return simplified(ast.BinOp(b.rest, ast.Sub(), a.rest))
        return None

    def _is_of_block(self, node: ast.expr) -> bool:
        inner = (n for n in walk_here(node) if isinstance(n, ast.expr))
        return (
            all(isinstance(n, ast.BinOp | ast.UnaryOp | ast.Name | ast.Constant) for n in inner)
            and self.pure.is_integer(node)
            and self.pure.is_steady(node)
            and self.variables.evaluable(node)
            and _THREAD not in loaded_names(node)
        )

    def _accesses(self, item: Threads) -> list[_Access] | None:
        """Return the accesses of an item, or ``None`` if it may do more than is seen."""
        found: list[_Access] = []
        for node in (inner for statement in item.body for inner in walk_here(statement)):
            match node:
                case ast.Call():
                    if not self._only_computes(node):
                        return None
                case ast.Subscript() if not self.pure.is_pure(node):
                    access = self._access(node)
                    if access is None:
                        return None
                    found.append(access)
        return found

    def _access(self, node: ast.Subscript) -> _Access | None:
        if not isinstance(node.value, ast.Name):
            return None
        name, kind = node.value.id, self.pure.kinds.get(node.value.id)
        rank = self.shared.get(name)
        if isinstance(kind, ArrayKind) and self.pure.assignments[name] == 0:
            rank = kind.ndim
        if rank != len(index_parts(node)):
            return None
        indices: list[ast.expr] = []
        for part in index_parts(node):
            match part:
                case ast.Call(func=ast.Name(id=function), args=[index]) if function == UNSIGNED:
                    indices.append(self.pure.expanded(index))
                case ast.Constant(value=int(value)) if value >= 0:
                    indices.append(part)
                case _:
                    return None
        return _Access(name, indices, isinstance(node.ctx, ast.Store))

    def _only_computes(self, node: ast.Call) -> bool:
        use = self.unit.use_of(node)
        if use is not None:
            return use.intrinsic.effect is Effect.NONE and not use.intrinsic.is_barrier
        return self.pure.is_pure(ast.Call(node.func, [], []))


def _is_plain(item: Threads) -> bool:
    """Return whether an item is statements without loops that all threads run."""
    loops = ast.For | ast.While | ast.Return
    return (
        not item.guards
        and item.rows is None
        and item.alternative is None
        and not any(isinstance(n, loops) for node in item.body for n in walk_here(node))
    )


def _with_ones(node: ast.expr) -> int:
    """Return what an integer expression would be, were all its variables 1: a guess of its sign."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub()):
            return -_with_ones(node.operand)
        case ast.BinOp(op=ast.Add()):
            return _with_ones(node.left) + _with_ones(node.right)
        case ast.BinOp(op=ast.Sub()):
            return _with_ones(node.left) - _with_ones(node.right)
        case ast.BinOp(op=ast.Mult()):
            return _with_ones(node.left) * _with_ones(node.right)
    return 1


class _Renaming(Transformer):
    def __init__(self, new: dict[str, str]) -> None:
        self.new = new

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.new:
            return node
        return ast.copy_location(ast.Name(self.new[node.id], node.ctx), node)
