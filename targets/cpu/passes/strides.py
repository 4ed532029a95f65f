"""Run loops in which threads take turns for all of them at once, one turn after the other.

``for j in range(threadIdx.x + a, n, blockDim.x)`` gives each thread every so many elements. Run
thread by thread it walks memory with that stride; written as ::

    for base in range(a, n, blockDim.x):
        room = n - base
        for each thread x with x < room:
            j = base + x

neighbouring threads have neighbouring elements, and what each of them adds up has a place of its
own. Each thread goes through the same elements in the same order. Where ``base`` is not negative,
no ``j`` is, and indices need no test of whether they count from the end of an array.

Array elements in the range of such a loop get names before.
``for k in range(starts[row] + lane, starts[row + 1], 32)`` becomes ::

    bound = starts[row]
    bound_1 = starts[row + 1]
    for k in range(bound + lane, bound_1, 32):

If all threads share them, they are variables of the block, and the loop can be run for all threads
at once.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import field, replace
from typing import NamedTuple

from kerneldsl.analysis.expressions import loaded_names, names_read
from kerneldsl.analysis.hoisting import place_at
from kerneldsl.analysis.uniformity import UniformityResult
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, call, load, store
from kerneldsl.frontend.trees import Transformer, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.lowering.passes.mark_nonnegative_indices import MarkNonnegativeIndices
from kerneldsl.lowering.passes.tuple_names import tuple_arguments
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.passes.counted_loops import is_range
from targets.cpu.passes.items import ForLoop, Item, Once, Threads
from targets.cpu.passes.rematerialization import Rematerializable

__all__ = ["Stride", "Strides", "name_loaded_bounds"]

#: Stands for a counter that is not negative.
_COUNTER = "kd_counter"
#: Extents of the grid and of what an element kernel runs over: no thread runs where one is 0.
_EXTENTS = frozenset({"kd_gx", "kd_gy", "kd_gz", "kd_nx", "kd_ny", "kd_nz"})


class Stride(NamedTuple):
    """The range of a loop in which threads take turns."""

    #: Where the first thread of a row begins.
    start: ast.expr
    #: End of the range.
    stop: ast.expr
    #: Elements between two turns of a thread.
    step: ast.expr


@dataclass
class Strides:
    """Finds such loops of one kernel, and writes them as items of rows of threads."""

    unit: FunctionUnit
    uniformity: UniformityResult
    pure: Rematerializable
    names: FreshNames
    #: The loop variable of neighbouring threads.
    thread_name: str
    #: Whether an expression can be evaluated once for the block.
    evaluable: Callable[[ast.expr], bool]
    #: How often each name is read in the whole kernel.
    reads: Counter[str]
    #: Variables of the loops, which belong to the block.
    counters: set[str] = field(default_factory=set)

    def of(self, node: ast.For) -> Stride | None:
        """Return the range of a loop that can be run so."""
        if not isinstance(node.target, ast.Name) or not is_range(node.iter, self.unit):
            return None
        assert isinstance(node.iter, ast.Call)
        arguments = node.iter.args
        if len(arguments) != 3 or node.orelse:
            return None
        if any(isinstance(n, ast.Return | ast.Break | ast.Continue) for n in walk_here(node)):
            return None
        begin, stop, step = arguments
        name = node.target.id
        form = None
        if self.pure.is_steady(begin):
            form = self.pure.affine(self.pure.expanded(begin), self.thread_name)
        if (
            form is None
            or form.coefficient != 1
            or self.thread_name in loaded_names(form.rest)
            or not self.pure.is_integer(form.rest)
            or not self._is_of_block(stop)
            or not self._is_positive(self.pure.expanded(step))
            or self.pure.assignments[name] != 1
            or self.reads[name] > names_read(node).count(name)
        ):
            return None
        return Stride(form.rest, self.pure.expanded(stop), self.pure.expanded(step))

    def _is_of_block(self, node: ast.expr) -> bool:
        return (
            self.uniformity.is_uniform(node)
            and self.evaluable(node)
            and self.pure.is_steady(node)
            and self.pure.is_integer(self.pure.expanded(node))
        )

    def _is_positive(self, node: ast.expr) -> bool:
        match node:
            case ast.Constant(value=int(value)):
                return value > 0
            case ast.Name(id=name):
                captured = self.unit.constants.get(name)
                value = captured.value if captured is not None else 0
                return name in _EXTENTS or (isinstance(value, int) and value > 0)
            case ast.BinOp(op=ast.Mult()):
                return self._is_positive(node.left) and self._is_positive(node.right)
        return False

    def loop(self, node: ast.For, stride: Stride) -> list[Item]:
        """Return the items of a loop."""
        assert isinstance(node.target, ast.Name)
        base, room = self.names.make("base"), self.names.make("room")
        self.counters |= {base, room}
        self.pure.add_integers({base, room})
        bounds = [copy.deepcopy(part) for part in stride]
        left = call("kd_saturating_sub", copy.deepcopy(stride.stop), load(base))
        place = ast.BinOp(load(base), ast.Add(), load(self.thread_name))
        first = place_at(assign(node.target.id, place), node)
        marked = self._marked(node)
        above = ast.Compare(load(base), [ast.GtE()], [ast.Constant(0)])
        alternative = (place_at(above, node), [first, *marked]) if marked is not None else None
        guard = ast.Compare(load(self.thread_name), [ast.Lt()], [load(room)])
        return [
            ForLoop(
                place_at(store(base), node),
                place_at(call("kd_range", *bounds), node),
                [
                    Once(place_at(assign(room, left), node)),
                    Threads(
                        [first, *node.body],
                        (place_at(guard, node),),
                        is_masked=True,
                        alternative=alternative,
                    ),
                ],
            )
        ]

    def _marked(self, node: ast.For) -> list[ast.stmt] | None:
        """Return a loop's body with what is no negative index where its counter is not negative.

        ``None`` says that nothing more is known of them then.
        """
        assert isinstance(node.target, ast.Name)
        kinds = tuple(self.pure.kinds.values())
        tuples = tuple_arguments(self.unit, kinds)[self.unit]
        mark = MarkNonnegativeIndices.for_unit(self.unit, wraparound=True, tuples=tuples)
        mark = replace(mark, nonnegative_calls=_is_counter)
        counter = place_at(assign(node.target.id, call(_COUNTER)), node)
        tree = copy.copy(self.unit.tree)
        tree.body = [counter, *node.body]
        marked = mark(tree).body[1:]
        is_new = any(map(_differ, marked, node.body))
        return marked if is_new else None


def _is_counter(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == _COUNTER


def _differ(one: ast.stmt, other: ast.stmt) -> bool:
    return ast.dump(one) != ast.dump(other)


def name_loaded_bounds(
    tree: ast.FunctionDef,
    unit: FunctionUnit,
    pure: Rematerializable,
    names: FreshNames,
    thread_names: tuple[str, ...],
) -> None:
    """Rewrite the loops of a kernel in place; ids in the tree are replaced."""
    _Naming(unit, pure, names, frozenset(thread_names)).visit(tree)


class _Naming(Transformer):
    def __init__(
        self,
        unit: FunctionUnit,
        pure: Rematerializable,
        names: FreshNames,
        thread_names: frozenset[str],
    ) -> None:
        self.unit = unit
        self.pure = pure
        self.names = names
        self.thread_names = thread_names

    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        if not is_range(node.iter, self.unit):
            return node
        assert isinstance(node.iter, ast.Call)
        if len(node.iter.args) != 3 or not self._varies(node.iter.args[0]):
            return node
        before: list[ast.stmt] = []
        node.iter.args = [self._named(argument, before) for argument in node.iter.args]
        return [*(place_at(each, node) for each in before), node]

    def _varies(self, node: ast.expr) -> bool:
        return bool(loaded_names(self.pure.expanded(node)) & self.thread_names)

    def _named(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Return a bound with names for the elements in its sums that threads may share."""
        match node:
            case ast.BinOp():
                node.left = self._named(node.left, before)
                node.right = self._named(node.right, before)
            case ast.Subscript() if not (self.pure.is_pure(node) or self._varies(node)):
                name = self.names.make("bound")
                before.append(assign(name, node))
                return place_at(load(name), node)
        return node
