"""Move a loop of every thread outside the loop over threads, if that makes accesses contiguous.

In a tiled matrix product each thread runs ``for k: acc += a[y, k] * b[k, x]``. With the loop over
``x`` innermost, ``b`` is read along its rows and one instruction serves many threads, without
changing the order in which any thread adds. Threads of one item may run in any order, so the
interchange is always allowed. Whether it pays is judged by how subscripts use the two variables.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from dataclasses import field

from kerneldsl.analysis.expressions import (
    assigned_names,
    base_name,
    does_nothing,
    index_parts,
    loaded_names,
)
from kerneldsl.analysis.uniformity import UniformityResult
from kerneldsl.frontend.syntax import load
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.passes.counted_loops import is_range
from targets.cpu.passes.items import Branch, ForLoop, Item, Threads, WhileLoop
from targets.cpu.passes.liveness import flow_of
from targets.cpu.passes.masked_strips import LANES, MaskedStrips
from targets.cpu.passes.narrowing import narrow
from targets.cpu.passes.rematerialization import Rematerializable, negate
from targets.cpu.passes.strides import Strides

__all__ = ["STRIP", "Interchange", "peel"]

#: Threads that run one step of an interchanged loop together, where each adds up values of its own.
STRIP = 64
#: Elements from a thread's to the next one's at which vectors of both are read at once.
_NEAR = range(1, 9)


def peel(item: Threads, pure: Rematerializable) -> tuple[list[ast.expr], list[ast.stmt]]:
    """Return the conditions around everything an item does, and what it does under them."""
    conditions, body = list(item.guards), item.body
    while len(body) == 1:
        only = body[0]
        if not isinstance(only, ast.If):
            break
        if not only.orelse:
            conditions.append(only.test)
            body = only.body
        elif does_nothing(only.body):
            conditions.append(negate(copy.deepcopy(only.test), pure))
            body = only.orelse
        else:
            break
    return conditions, body


@dataclass
class Interchange:
    """Finds and marks the items that profit.

    `evaluable` says whether an expression can be evaluated outside the loop over threads.
    `local_arrays` are variables that hold a thread's own array; threads use its memory one after
    the other.
    """

    unit: FunctionUnit
    uniformity: UniformityResult
    pure: Rematerializable
    #: The loop variables over threads, innermost first.
    loop_names: tuple[str, ...]
    evaluable: Callable[[ast.expr], bool]
    local_arrays: set[str]
    #: Variables that hold an array with an element for each of the threads.
    spread: frozenset[str]
    #: Finds what a strip of threads runs under a mask.
    lanes: MaskedStrips
    #: Finds loops in which threads take turns.
    strides: Strides
    #: Counters of the loops that were moved outside.
    counters: set[str] = field(default_factory=set)

    @property
    def thread_name(self) -> str:
        """The loop variable of neighbouring threads."""
        return self.loop_names[0]

    def apply(self, items: list[Item]) -> None:
        """Fill ``rows`` of every item that profits."""
        for item in items:
            match item:
                case Threads():
                    conditions, body = peel(item, self.pure)
                    if not self._bounds_rows(conditions):
                        continue
                    item.rows = self.rows(body)
                    if item.rows is not None:
                        item.lanes = STRIP if self._folds(body) else None
                    elif not self.uses_local_arrays(body):
                        item.rows = self.lanes.rows(body)
                        item.lanes = LANES if item.rows is not None else None
                case Branch():
                    self.apply(item.body)
                    self.apply(item.orelse)
                case ForLoop() | WhileLoop():
                    self.apply(item.body)

    def _folds(self, body: list[ast.stmt]) -> bool:
        """Return whether the loops of rows fold values, which registers hold for a strip at most.

        Threads that take turns, or steps that go on where the one before ended, run along whole
        rows: memory is read in its order, which is worth more than values in registers.
        """
        loops = [node for node in body if isinstance(node, ast.For)]
        if any(self.strides.of(node) is not None or self._goes_on(node) for node in loops):
            return False
        return any(self._accumulates(node) for node in loops if self.profits(node))

    def _goes_on(self, loop: ast.For) -> bool:
        """Return whether a step of a loop reads the elements after those of the step before."""
        match loop:
            case ast.For(target=ast.Name(id=counter), iter=ast.Call(args=[_, _, step])):
                if self.pure.constant(step) in range(STRIP):
                    return False
                accesses = (node for node in walk_here(loop) if isinstance(node, ast.Subscript))
                return any(self._advances(node, counter) for node in accesses)
        return False

    def _advances(self, node: ast.Subscript, counter: str) -> bool:
        """Return whether an index grows by one with the thread, and by one with a counter."""
        last = self._unclamped(self.pure.expanded(index_parts(node)[-1]))
        names = self.thread_name, counter
        return all(self.pure.stride(last, name) == 1 for name in names)

    def _bounds_rows(self, conditions: list[ast.expr]) -> bool:
        """Return whether the conditions around a body bound its loops or leave out rows."""
        rest = narrow(conditions, self.loop_names, self.pure).rest
        return all(
            self.pure.is_steady(c) and self.thread_name not in loaded_names(self.pure.expanded(c))
            for c in rest
        )

    def rows(self, body: list[ast.stmt]) -> list[Item] | None:
        """Return the body as items along x, or ``None`` if it stays as it is."""
        loops = [node for node in body if isinstance(node, ast.For)]
        chosen = [node for node in loops if self.profits(node)]
        strided = {node: stride for node in loops if (stride := self.strides.of(node)) is not None}
        if not (chosen or strided) or self.uses_local_arrays(body):
            return None
        items: list[Item] = []
        pending: list[ast.stmt] = []
        for node in body:
            if not isinstance(node, ast.For) or (node not in chosen and node not in strided):
                pending.append(node)
                continue
            if pending:
                items.append(Threads(pending))
                pending = []
            if node in strided:
                items += self.strides.loop(node, strided[node])
                continue
            assert isinstance(node.target, ast.Name)
            self.counters.add(node.target.id)
            inner = self.rows(node.body) or [Threads(node.body)]
            items.append(ForLoop(node.target, node.iter, inner))
        if pending:
            items.append(Threads(pending))
        return items

    def profits(self, loop: ast.For) -> bool:
        """Return whether the loop over threads should run inside this loop."""
        if not isinstance(loop.target, ast.Name) or self.pure.assignments[loop.target.id] != 1:
            return False
        if not self._is_of_row(loop.iter):
            return False
        if any(isinstance(n, ast.Return | ast.Break | ast.Continue) for n in walk_here(loop)):
            return False
        contiguous = own = others = 0
        for node in walk_here(loop):
            if isinstance(node, ast.While):
                return False
            use = self.unit.use_of(node)
            if use is not None and use.intrinsic.effect & Effect.ATOMIC:
                return False
            if isinstance(node, ast.Subscript) and not isinstance(node.value, ast.Attribute):
                verdict = self._judge(node, loop.target.id)
                if verdict is None:
                    return False
                if base_name(node) in self.spread:
                    own += 1  # it was laid out for this, which is no reason to do it
                else:
                    others += 1
                    contiguous += verdict
        return contiguous > 0 or own > others == 0 or self._accumulates(loop)

    def has_contiguous_access(self, items: list[Item], names: frozenset[str]) -> bool:
        """Return whether loops over single threads with some variables access memory contiguously.

        LLVM then vectorizes the loop over threads. Other elements would be gathered and scattered,
        which takes longer than single loads and stores.
        """
        for item in items:
            match item:
                case Threads(rows=None) if names & {*loaded_names(item.body)}:
                    if not all(map(self._is_near, (n for s in item.body for n in walk_here(s)))):
                        return False
                case Branch():
                    if not (
                        self.has_contiguous_access(item.body, names)
                        and self.has_contiguous_access(item.orelse, names)
                    ):
                        return False
                case ForLoop() | WhileLoop():
                    if not self.has_contiguous_access(item.body, names):
                        return False
        return True

    def _is_near(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Subscript) or isinstance(node.value, ast.Attribute):
            return True
        *others, last = index_parts(node)
        for part in (*others, last):
            expanded = self.pure.expanded(part)
            if self.thread_name not in loaded_names(expanded):
                if not (self.uniformity.is_uniform(part) or self.pure.is_steady(part)):
                    return False
            elif part is not last or self.pure.stride(expanded, self.thread_name) not in _NEAR:
                return False
        return True

    def _is_of_row(self, iterable: ast.expr) -> bool:
        """Return whether neighbouring threads go through the same values."""
        if self.uniformity.is_uniform(iterable) and self.evaluable(iterable):
            return True
        if not is_range(iterable, self.unit):
            return False
        assert isinstance(iterable, ast.Call)
        bounds = [self.pure.expanded(bound) for bound in iterable.args]
        if any(self.thread_name in loaded_names(bound) for bound in bounds):
            return False
        return all(map(self.pure.is_steady, iterable.args))

    def _judge(self, node: ast.Subscript, counter: str) -> int | None:
        """Return 1 for an access contiguous in the thread, 0 for a neutral, None for a bad one."""
        indices = index_parts(node)
        expanded = [self.pure.expanded(i) for i in indices]
        by_thread = [self.thread_name in loaded_names(e) for e in expanded]
        by_counter = [counter in loaded_names(e) for e in expanded]
        if not any(by_thread):
            return 0
        if by_thread[-1] and not any(by_thread[:-1]):
            stride = self.pure.stride(self._unclamped(expanded[-1]), self.thread_name)
            if stride == 1:
                return 1
            # Vectors of interleaved elements are read whole, and split.
            return 0 if stride in _NEAR and not by_counter[-1] else None
        # The thread steps over rows: harmless if the row stays the same while the loop runs.
        return None if any(by_counter) else 0

    def _unclamped(self, index: ast.expr) -> ast.expr:
        """Return what an expanded index is within the limits that ``min`` and ``max`` set it."""
        match index:
            case ast.Call(func=ast.Name(id="kd_unsigned"), args=[argument]):
                return self._unclamped(argument)
            case ast.Call(args=[_, _]) if self.pure.called(index.func) in ("min", "max"):
                varying = [a for a in index.args if self.thread_name in loaded_names(a)]
                return self._unclamped(varying[0]) if len(varying) == 1 else index
        return index

    def _accumulates(self, loop: ast.For) -> bool:
        """Return whether threads fold values that all of them read, each into its own variables."""
        own = {
            name
            for name in assigned_names(loop.body)
            if name not in self.pure.definitions and not self.evaluable(load(name))
        }
        return bool(own & flow_of(loop.body).exposed)

    def uses_local_arrays(self, body: list[ast.stmt]) -> bool:
        """Return whether statements use a thread's own array."""
        for node in body:
            for inner in walk_here(node):
                use = self.unit.use_of(inner)
                if use is not None and use.intrinsic.effect & Effect.ALLOCATE_LOCAL:
                    return True
                if isinstance(inner, ast.Name) and inner.id in self.local_arrays:
                    return True
        return False
