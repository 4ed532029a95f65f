"""Variables that belong to a block as a whole, and the statements that have to be cut for them.

A variable that only uniform statements of the block itself assign needs one value for all threads,
kept outside the loops over them, and can steer the branches and loops that hold a barrier. Every
other one belongs to a thread.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from kerneldsl.analysis.effects import syncs_grid
from kerneldsl.analysis.expressions import assigned_names, augmented_value
from kerneldsl.analysis.uniformity import UniformityResult
from kerneldsl.frontend.trees import children_of, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Effect, Scope
from targets.cpu.passes.rematerialization import Rematerializable

__all__ = ["BlockVariables", "assigned_value"]


class BlockVariables:
    """The variables of one kernel that have one value for a block.

    Block-level functions of `unit` are inlined; in `tree` ids are replaced and barriers are in
    their own statements.
    """

    def __init__(
        self,
        unit: FunctionUnit,
        tree: ast.FunctionDef,
        uniformity: UniformityResult,
        pure: Rematerializable,
    ) -> None:
        self.unit = unit
        self.uniformity = uniformity
        self.pure = pure
        #: Variables with one value for the block, kept outside the loops over threads.
        self.block_names: set[str] = set()
        #: Counters of loops that all threads run together.
        self.loop_names: set[str] = set()
        self._find(tree.body)

    def cuts(self, node: ast.AST, *, leaves_loop: bool) -> bool:
        """Return whether a statement has to be split.

        So does a ``break`` in it, if it leaves a loop that is itself split.
        """
        for inner in walk_here(node):
            use = self.unit.use_of(inner)
            if use is not None and use.intrinsic.is_barrier:
                return True
        return leaves_loop and _leaves_loop(node)

    def _find(self, body: list[ast.stmt]) -> None:
        """Collect variables that are only assigned by uniform statements of the block itself."""
        block: dict[str, list[ast.stmt]] = {}
        private: set[str] = set()
        loops: set[str] = set()
        self._classify(body, block, private, loops, in_loop=False)
        # A block that waits for others keeps nothing: its threads do, in their slots.
        names = set() if syncs_grid(self.unit) else set(block) - private - loops
        self.loop_names = loops - private - set(block)
        while True:
            self.block_names = names
            keep = {
                name
                for name in names
                if all(self.evaluable(assigned_value(s)) for s in block[name])
            }
            if keep == names:
                break
            names = keep
        self.block_names = names

    def _classify(
        self,
        body: Iterable[ast.stmt],
        block: dict[str, list[ast.stmt]],
        private: set[str],
        loops: set[str],
        *,
        in_loop: bool,
    ) -> None:
        for node in body:
            if self.cuts(node, leaves_loop=in_loop):
                match node:
                    case ast.If():
                        self._classify(node.body, block, private, loops, in_loop=in_loop)
                        self._classify(node.orelse, block, private, loops, in_loop=in_loop)
                    case ast.For():
                        names = assigned_names(node.target)
                        (private if loops & names else loops).update(names)
                        self._classify(node.body, block, private, loops, in_loop=True)
                    case ast.While():
                        self._classify(node.body, block, private, loops, in_loop=True)
                    case ast.Assign(targets=[ast.Name() as target]) if self._is_vote(node.value):
                        block.setdefault(target.id, [])  # whatever its predicate
                    case _:
                        private |= assigned_names(node)
            elif self.is_uniform_assignment(node):
                block.setdefault(next(iter(assigned_names(node))), []).append(node)
            else:
                private |= assigned_names(node)

    def _is_vote(self, node: ast.expr) -> bool:
        """Return whether a barrier gives all threads of the block one result."""
        use = self.unit.use_of(node)
        if use is None or use.intrinsic.uniform_in is None:
            return False
        return use.intrinsic.synchronizes(Scope.BLOCK) and use.intrinsic.uniform_in >= Scope.BLOCK

    def is_uniform_assignment(self, node: ast.stmt) -> bool:
        """Return whether a statement sets one variable alike for all threads: it can run once."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                pass
            case _:
                return False
        if name in self.pure.definitions:
            return False  # computed wherever it is needed
        for inner in walk_here(value):
            if isinstance(inner, ast.Call):
                use = self.unit.use_of(inner)
                if self.unit.callee_of(inner) is not None or (
                    use is not None
                    and use.intrinsic.effect & (Effect.ATOMIC | Effect.ALLOCATE_LOCAL)
                ):
                    return False
        return self.uniformity.is_uniform_place(node) and self.uniformity.is_uniform(value)

    def evaluable(self, node: ast.expr) -> bool:
        """Return whether an expression can be evaluated once for the block."""
        for inner in walk_here(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                name = inner.id
                if name in self.pure.definitions:
                    if not self.evaluable(self.pure.expanded(inner)):
                        return False
                elif not self._is_known_to_block(name):
                    return False
        return True

    def _is_known_to_block(self, name: str) -> bool:
        if name in self.unit.parameters:
            return self.pure.assignments[name] == 0 or name in self.block_names
        return (
            name in self.block_names
            or name in self.loop_names
            or name in self.unit.constants
            or name in self.unit.namespace
            or name in self.unit.uses
            or self.pure.assignments[name] == 0
        ) and name not in ("kd_tx", "kd_ty", "kd_tz", "kd_x", "kd_y", "kd_z")


def assigned_value(node: ast.stmt) -> ast.expr:
    """Return what an assignment computes from; an augmented one reads its target as well."""
    if isinstance(node, ast.AugAssign):
        return augmented_value(node)
    assert isinstance(node, ast.Assign)
    return node.value


def _leaves_loop(node: ast.AST) -> bool:
    """Return whether a ``break`` or ``continue`` below belongs to a loop around the node."""
    if isinstance(node, ast.Break | ast.Continue):
        return True
    if isinstance(node, ast.For | ast.While | ast.expr):
        return False
    return any(_leaves_loop(child) for child in children_of(node))
