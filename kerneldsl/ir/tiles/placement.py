"""Decide where the tiles of a function are: in registers, or in shared memory.

A tile is in shared memory if other threads read its elements. They do if it is repeated along an
axis, if its axes are exchanged, or if elements are taken by their places. What an operation gives
along an axis is there, too.

Tiles that branches and loops hand on share one memory if none is alive while the other one is.
Otherwise elements are copied. Shared memory is used again for tiles of the same size that are not
alive at the same time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

from kerneldsl.ir.operations import Function, Operation, Value, handed_on
from kerneldsl.ir.tiles.live_ranges import LiveRanges, is_tile
from kerneldsl.ir.tiles.shapes import OF_BLOCK, Shape
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Layouts", "Place", "Placement"]


class Layouts:
    """Layouts of tiles in the registers of threads: all are linear."""

    def of_tile(self, value: Value) -> Any:
        """Return the layout of a tile, ``None`` if it is linear."""
        return None

    def has_instruction(self, operation: Operation) -> bool:
        """Return whether a product is computed by an instruction, which has its own factors."""
        return False

    def is_row(self, operation: Operation, value: Value) -> bool:
        """Return whether a tile has an element for each row of an operation's registers."""
        return False

    def crossed(self, operation: Operation) -> Iterable[Value]:
        """Return the tiles that an operation reads or writes in another layout than its own."""
        return ()


_LINEAR = Layouts()


@dataclass(frozen=True)
class Place:
    """The memory of tiles."""

    #: Tiles of one number share memory.
    number: int
    shape: Shape
    #: Type of the elements.
    kind: Any
    is_shared: bool
    #: Elements in shared memory after which one is skipped, or 0.
    columns: int
    #: Layout of the elements in registers, ``None`` if it is linear.
    layout: Any = None

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


class Placement:
    """Places of the tiles of one function.

    - `function`: with its tiles as values; branches and loops hand on those that are read.
    - `threads`: threads of the block.
    - `layouts`: layouts of the tiles in registers.
    - `in_registers`: whether tiles that other threads do not read are in registers. Otherwise all
      are in memory of the block, one element after the other, and all memory is used again.
    """

    def __init__(
        self,
        function: Function,
        threads: int,
        layouts: Layouts = _LINEAR,
        *,
        in_registers: bool = True,
    ) -> None:
        self._threads = threads
        self._layouts = layouts
        self._in_registers = in_registers
        self._parents: dict[Value, Value] = {}
        self._ranges = LiveRanges(function)
        operations = list(function.body.walk())
        self._shared: set[Value] = set()
        #: Tiles that are read with their axes exchanged.
        self._padded: set[Value] = set()
        for operation in operations:
            self._find_shared(operation)
        self._tiles = list(self._ranges.intervals)
        self._members = {value: [value] for value in self._tiles}
        for operation in operations:
            self._join_arguments(operation)
        for operation in operations:
            for targets, sources in handed_on(operation):
                for value in filter(is_tile, sources):
                    self._join(value, targets[0])
        self._places = self._number()

    def __getitem__(self, value: Value) -> Place:
        return self._places[self._root(value)]

    def shape(self, shape: Shape) -> Shape:
        """Return a shape in which the block's size is a number."""
        return (self._threads,) if shape == OF_BLOCK else shape

    # -- which are in shared memory ---------------------------------------------------------------

    def _find_shared(self, operation: Operation) -> None:
        attributes = operation.attributes
        if "transposed" in attributes:
            shape, first = self.shape(attributes["shape"]), attributes["first"]
            tiles = operation.operands[first:]
            for tile, is_transposed in zip(tiles, attributes["transposed"], strict=True):
                if is_transposed:
                    self._padded.add(tile)
                is_repeated = self.shape(tile.type.shape) != shape
                if is_transposed or (is_repeated and not self._layouts.is_row(operation, tile)):
                    self._shared.add(tile)
        if operation.name == "tile.take":
            self._shared.add(operation.operands[0])
        if operation.name == "tile.mma" and not self._layouts.has_instruction(operation):
            factors = operation.operands[:2]
            self._shared.update(factors)
            self._padded.update(itertools.compress(factors, attributes["exchanged"]))
        if attributes.get("axis") is not None and operation.name in ("tile.fold", "tile.scan"):
            is_in_registers = self._layouts.is_row(operation, operation.result)
            self._shared.update(() if is_in_registers else operation.results)
        self._shared.update(self._layouts.crossed(operation))

    # -- which are in one memory ------------------------------------------------------------------

    def _root(self, value: Value) -> Value:
        while value in self._parents:
            value = self._parents[value]
        return value

    def _unite(self, one: Value, two: Value) -> None:
        one, two = self._root(one), self._root(two)
        if one is two:
            return
        self._parents[two] = one
        self._members[one] += self._members.pop(two)
        for group in (self._shared, self._padded):
            if two in group:
                group.add(one)

    def _join_arguments(self, operation: Operation) -> None:
        """Let the arguments and results of a loop have one memory."""
        for (result, *arguments), _ in handed_on(operation):
            for argument in arguments if is_tile(result) else ():
                self._unite(result, argument)

    def _join(self, one: Value, two: Value) -> None:
        """Let two tiles have one memory if they are not alive at the same time.

        In registers an operation may read the one while it writes the other. A thread reads its
        own element of a place before it writes it.
        """
        one, two = self._root(one), self._root(two)
        may_touch = one not in self._shared and two not in self._shared
        if self._layouts.of_tile(one) != self._layouts.of_tile(two):
            return
        if not self._meet(self._members[one], self._members[two], may_touch=may_touch):
            self._unite(one, two)

    def _meet(self, some: list[Value], others: list[Value], *, may_touch: bool) -> bool:
        return any(
            self._ranges.meet(one, two, may_touch=may_touch) for one in some for two in others
        )

    def _number(self) -> dict[Value, Place]:
        """Give each memory a number; shared memory is used again."""
        found: dict[Value, Place] = {}
        used: list[tuple[Place, list[Value]]] = []
        for root in [value for value in self._tiles if value in self._members]:
            members = self._members[root]
            shape = self.shape(root.type.shape)
            is_shared = root in self._shared
            columns = shape[-1] if root in self._padded and len(shape) > 1 else 0
            layout = self._layouts.of_tile(root)
            same = (shape, root.type.dtype, is_shared, columns, layout)
            for place, others in used if is_shared or not self._in_registers else ():
                own = (place.shape, place.kind, place.is_shared, place.columns, place.layout)
                is_same = own == same
                may_touch = not is_shared
                if not self._in_registers:
                    is_same = place.count == math.prod(shape) and place.kind == root.type.dtype
                    may_touch &= all(self._root(other) not in self._shared for other in others)
                if is_same and not self._meet(members, others, may_touch=may_touch):
                    others += members
                    found[root] = place
                    break
            else:
                found[root] = Place(len(used), *same)
                used.append((found[root], list(members)))
        return found
