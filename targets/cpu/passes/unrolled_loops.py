"""Find the loops that are written out so that indices of small arrays are known."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import field

from kerneldsl.analysis.expressions import assigned_names, loaded_names, names_read
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import ARRAY_ACCESS
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.passes.counted_loops import is_range
from targets.cpu.passes.known_integers import KnownIntegers
from targets.cpu.passes.liveness import flow_of

__all__ = ["UnrolledLoops", "leaves"]

#: Rounds of a loop that is written out.
_MOST_ROUNDS = 64


@dataclass
class UnrolledLoops:
    """Judges the loops of one function.

    `indexed` yields the arrays below a node with accessed elements, and the index of each.
    """

    unit: FunctionUnit
    indexed: Callable[[ast.AST], Iterator[tuple[str, ast.expr]]]
    _arrays: dict[ast.For, frozenset[str]] = field(default_factory=dict)
    _own: dict[ast.For, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [node for node in walk_here(self.unit.tree) if isinstance(node, ast.Name)]
        #: How often each name occurs in the function.
        self._occurrences = Counter(node.id for node in names)
        self._counters = self._counters_of_loops()

    def rounds(self, loop: ast.For, known: KnownIntegers) -> range | None:
        """Return the values of a loop's variable, or ``None`` where the loop stays one."""
        if not self.arrays(loop):
            return None
        assert isinstance(loop.iter, ast.Call)
        bounds = [known.integer(argument) for argument in loop.iter.args]
        if None in bounds or bounds[2:] == [0]:
            return None
        found = range(*bounds)  # type: ignore[arg-type]
        return found if len(found) <= _MOST_ROUNDS else None

    def arrays(self, loop: ast.For) -> frozenset[str]:
        """Return the arrays in whose indices a loop's variable enters, if it can be written out."""
        found = self._arrays.get(loop)
        if found is None:
            found = frozenset(self._entered(loop) if self._can_be_written_out(loop) else ())
            self._arrays[loop] = found
        return found

    def own_names(self, loop: ast.For) -> tuple[str, ...]:
        """Return the variables that each round has for itself: no other, and nobody else."""
        if loop not in self._own:
            inside = Counter(n.id for n in walk_here(loop.body) if isinstance(n, ast.Name))
            exposed = flow_of(loop.body).exposed
            self._own[loop] = tuple(
                name
                for name in sorted(assigned_names(loop.body))
                if inside[name] == self._occurrences[name] and name not in exposed
            )
        return self._own[loop]

    def _counters_of_loops(self) -> frozenset[str]:
        """Return the variables that are counters of loops, and nothing outside of these."""
        loops = [
            node
            for node in walk_here(self.unit.tree)
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name)
        ]
        inside: Counter[str] = Counter()
        for loop in loops:
            assert isinstance(loop.target, ast.Name)
            name = loop.target.id
            stores = name in assigned_names(loop.body)
            inside[name] += 0 if stores else 1 + names_read(loop.body).count(name)
        return frozenset(name for name in inside if inside[name] == self._occurrences[name])

    def _entered(self, loop: ast.For) -> Iterator[str]:
        """Return the arrays whose indices depend on a loop's variable."""
        assert isinstance(loop.target, ast.Name)
        depending, before = {loop.target.id}, 0
        while len(depending) > before:
            before = len(depending)
            for node in walk_here(loop.body):
                match node:
                    case ast.Assign(value=value) | ast.AugAssign(value=value):
                        enters = loaded_names(value) & depending
                        targets = assigned_names(node)
                    case ast.For(target=target, iter=value):
                        enters = loaded_names(value) & depending
                        targets = assigned_names(target)
                    case _:
                        continue
                if enters:
                    depending |= targets
        for statement in loop.body:
            for name, index in self.indexed(statement):
                if loaded_names(index) & depending:
                    yield name

    def _can_be_written_out(self, loop: ast.For) -> bool:
        if not isinstance(loop.target, ast.Name) or loop.orelse:
            return False
        if loop.target.id not in self._counters or not is_range(loop.iter, self.unit):
            return False
        if leaves(loop.body):
            return False
        for node in walk_here(loop.body):
            use = self.unit.use_of(node)
            if use is not None and use.intrinsic.effect & ~ARRAY_ACCESS:
                return False
        return True


def leaves(body: list[ast.stmt]) -> bool:
    """Return whether statements leave the loop that they are the body of, or its round."""
    for node in body:
        match node:
            case ast.Break() | ast.Continue():
                return True
            case ast.For() | ast.While():
                if any(isinstance(inner, ast.Return) for inner in walk_here(node)):
                    return True
                if leaves(node.orelse):
                    return True
            case ast.If():
                if leaves(node.body) or leaves(node.orelse):
                    return True
            case ast.Return():
                return True
    return False
