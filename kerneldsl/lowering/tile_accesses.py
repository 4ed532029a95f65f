"""Find the memory that operations on tiles read and write, whatever it is called there.

Two parameters may be given one array, or arrays that overlap: they are one memory unless the code
is promised that they are not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from kerneldsl.analysis.aliases import Root, is_own
from kerneldsl.analysis.effects import Accesses
from kerneldsl.analysis.tile_shapes import is_tile_use
from kerneldsl.contract.abi import array_parameters
from kerneldsl.contract.promises import Promises
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.language.kinds import Kind

__all__ = ["Access", "TileAccesses"]

#: Memory that is read, and that is written.
Access: TypeAlias = tuple[frozenset[Root], frozenset[Root]]
#: Owner of all arguments that may be the same memory.
_ARGUMENTS = "arguments"


class TileAccesses:
    """Memory that the statements of one kernel read and write.

    Parameters
    ----------
    unit : FunctionUnit
        The kernel, whose tile operations are separated.
    kinds : sequence of Kind
        Of its arguments.
    promises : Promises
        What holds of them.
    """

    def __init__(self, unit: FunctionUnit, kinds: Sequence[Kind], promises: Promises) -> None:
        self._unit = unit
        self._accesses = Accesses(unit)
        self._owners = _owners(kinds, promises)

    def operations(self) -> Iterator[ast.Call]:
        """Yield the operations on tiles."""
        for node in walk_here(self._unit.tree):
            use = self._unit.use_of(node)
            if use is not None and is_tile_use(use) and use.intrinsic.is_barrier:
                assert isinstance(node, ast.Call)
                yield node

    def of(self, node: ast.AST) -> Access:
        """Return what one node reads and writes, apart from the nodes below it."""
        if self._is_view(node):
            return frozenset(), frozenset()
        read, written = self._accesses.of(node)
        if self._is_fence(node):
            read = written = frozenset(self._owners.values())
        return self._shared(read), self._shared(written)

    def of_operation(self, node: ast.Call) -> Access:
        """Return what an operation reads and writes, with the functions that it calls."""
        read, written = set[Root](), set[Root]()
        for inner in walk_here(node):
            found = self.of(inner)
            read |= found[0]
            written |= found[1]
        return frozenset(read), frozenset(written)

    def is_store(self, operation: ast.Call) -> bool:
        use = self._unit.use_of(operation)
        return use is not None and use.intrinsic.name == "tile.store"

    def stores_of_itself(self) -> dict[str, frozenset[Root]]:
        """Return stores that may read what they write, by the reserved names that they call.

        Functions that compute the elements read it: all of them are computed before one is written,
        unless what they read, which each name stands for, turns out to be other memory.
        """
        found = {}
        for node in self.operations():
            read, _ = self.of_operation(node)
            _, written = self.of(node)
            if self.is_store(node) and read & written:
                assert isinstance(node.func, ast.Name)
                inner = [each for each in walk_here(node) if not self._is_view(each)]
                parts = [self._accesses.of(each)[0] for each in inner]
                found[node.func.id] = frozenset[Root]().union(*parts)
        return found

    def _shared(self, roots: frozenset[Root]) -> frozenset[Root]:
        """Return memory by its owner, without a thread's own."""
        return frozenset(self._owners.get(root, root) for root in roots if not is_own(root))

    def _is_view(self, node: ast.AST) -> bool:
        """Return whether a subscript reads no element, but is a row or part of an array."""
        if not isinstance(node, ast.Subscript) or isinstance(node.ctx, ast.Store):
            return False
        return self._accesses.views(node) == self._accesses.roots(node)

    def _is_fence(self, node: ast.AST) -> bool:
        """Return whether other blocks may look for what was written before, and the reverse."""
        use = self._unit.use_of(node)
        if use is None:
            return False
        is_ordered = use.static.get("order", "relaxed") != "relaxed"
        return Effect.FENCE in use.intrinsic.effect or is_ordered


def _owners(kinds: Sequence[Kind], promises: Promises) -> dict[Root, Root]:
    """Return the owner of each parameter's arrays."""
    arrays = array_parameters(kinds)
    if not promises.is_disjoint:
        return {array.position: _ARGUMENTS for array in arrays}
    owners: dict[Root, Root] = {array.position: array.position for array in arrays}
    for number, array in enumerate(arrays):
        same = promises.array(number).same_as
        if same is not None:
            one, two = owners[array.position], owners[arrays[same].position]
            owners = {each: two if owner == one else owner for each, owner in owners.items()}
    return owners
