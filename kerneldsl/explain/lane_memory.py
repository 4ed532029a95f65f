"""Memory as many threads see it: arrays that a kernel makes, elements, and accesses."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kerneldsl.analysis.expressions import index_parts
from kerneldsl.analysis.tile_shapes import OF_BLOCK
from kerneldsl.errors import SourceLocation
from kerneldsl.explain.arrangements import arrangements_of, moved_addresses
from kerneldsl.explain.requests import WARP_LANES
from kerneldsl.explain.subscripts import element_addresses, field_of, subscript, view_of
from kerneldsl.explain.tally import AccessTally, Tallies
from kerneldsl.explain.threads import Threads
from kerneldsl.explain.tiles import tile_requests, tile_starts
from kerneldsl.explain.values import UNKNOWN, Memory, Part, Space, Value, View
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.language.element_types import ELEMENT_TYPES, ElementType
from kerneldsl.language.kinds import ArrayKind, ScalarKind
from kerneldsl.language.types import Type

__all__ = ["ARRAY_GAP", "ActiveLanes", "LaneMemory", "record_type"]

#: Addresses that two arrays are apart, at least.
ARRAY_GAP = 1 << 40


class ActiveLanes:
    """Lanes at work, with how many threads and warps of the grid they stand for."""

    def __init__(self, mask: NDArray[np.bool_], threads: Threads) -> None:
        self.mask = mask
        at_work = mask.reshape(-1, WARP_LANES).sum(axis=1)
        self.threads = float(at_work @ threads.warp_weights)
        self.warps = float((at_work > 0) @ threads.warp_weights)
        self.is_empty = not at_work.any()

    def __bool__(self) -> bool:
        return not self.is_empty


class LaneMemory:
    """State of one function's walk: its names, and the lanes that are `active`."""

    def __init__(
        self, typed: TypedUnit, threads: Threads, tallies: Tallies, *, wraps: bool
    ) -> None:
        self.typed, self.unit = typed, typed.unit
        self.threads, self.tallies, self.wraps = threads, tallies, wraps
        self.names: dict[str, Value] = {}
        #: The user's call through which a function of kerneldsl is walked.
        self.called_at: SourceLocation | None = None
        self.active = ActiveLanes(threads.exists, threads)
        #: How often what is done now is done.
        self.weight = 1.0
        #: Conditions around that depend on data.
        self.uncertain = 0
        self.random = np.random.default_rng(1)
        #: Indices that ``grid`` gives, if it is not the launch's own.
        self.indices: tuple[NDArray[np.int64], ...] | None = None
        self.shared_bytes = 0
        #: Whether it is looked at what other arrangements of shared arrays would change.
        self.rearranges = False
        #: Whether the last element that was found has an index that may be negative.
        self.wrapped = False

    def locate(self, node: ast.AST) -> SourceLocation:
        """Return the place of a node, or of the call by which a user comes to it."""
        return self.called_at or self.unit.locate(node)

    def value(self, node: ast.expr) -> Value:
        """Return the value of an expression; what it does is counted."""
        raise NotImplementedError

    def constant_array(self, node: ast.AST, name: str, value: NDArray[Any]) -> View:
        """Return a constant array with its elements."""
        return view_of(self.made(name, Space.CONSTANT, node, value.dtype.name, value.shape, value))

    def made(
        self,
        name: str,
        space: Space,
        node: ast.AST,
        dtype: str,
        shape: tuple[int, ...],
        contents: NDArray[Any] | None = None,
    ) -> Memory:
        """Return an array that the kernel makes; the same at each call of a place."""
        key = (self.unit.name, self.unit.first_line, name)
        if key not in self.tallies.made:
            itemsize = ScalarKind(dtype).element.nbytes
            strides: list[int] = []
            step = itemsize
            for extent in reversed(shape):
                strides.insert(0, step)
                step *= extent
            self.tallies.made[key] = Memory(
                name,
                space,
                dtype,
                tuple(shape),
                tuple(strides),
                itemsize,
                base=(len(self.tallies.made) + 1) * ARRAY_GAP // 2,
                contents=contents,
                node=node,
            )
        return self.tallies.made[key]

    def element(self, base: ast.expr, index: ast.expr) -> Value:
        """Return the view that a subscript is, or an element of a tuple."""
        value = self.value(base)
        match index:
            case ast.Constant(value=str() as name):
                return self.field(value, base, name)
        parts = [self.value(each) for each in index_parts(ast.Subscript(base, index, ast.Load()))]
        if isinstance(value, View):
            lanes = self.threads.lane_count
            self.wrapped = self.wraps and any(map(self._is_negative, parts))
            return subscript(value, parts, self.random, lanes, wraps=self.wraps)
        if isinstance(value, tuple) and len(parts) == 1 and not isinstance(parts[0], np.ndarray):
            try:
                return value[parts[0]]
            except (IndexError, TypeError):
                return UNKNOWN
        return UNKNOWN

    def field(self, value: Value, base: ast.expr, name: str) -> Value:
        """Return the view that a field of a record is, or of records; counting nothing."""
        record = record_type(self.typed.type_of(base))
        found = None
        if record is not None and isinstance(value, View):
            found = field_of(value, record, name)
        return UNKNOWN if found is None else found

    def _is_negative(self, index: Value) -> bool:
        """Return whether an index is negative in some lane at work, or may be, since it is data."""
        if isinstance(index, int | np.integer | np.ndarray):
            return bool(np.any(np.less(index, 0) & self.active.mask))
        return index is UNKNOWN

    def access(
        self, node: ast.AST, view: View, *, is_store: bool = False, is_atomic: bool = False
    ) -> None:
        """Count an access of the lanes at work."""
        if not self.active:
            return
        if view.part is None and ELEMENT_TYPES[view.memory.dtype].is_record:
            view = replace(view, part=Part(view.itemsize, 0, is_aligned=False))
        tally = self._tally_of(node, view, is_store=is_store, is_atomic=is_atomic)
        lanes = self.threads.lane_count
        addresses = element_addresses(view, lanes)
        tally.depends_on_data |= view.is_unknown
        tally.is_uncertain |= self.uncertain > 0
        tally.wraps |= self.wrapped
        mask = self.active.mask
        nbytes = view.itemsize if view.part is None or view.part.is_aligned else 1
        for place in range(0, view.itemsize, nbytes):
            tally.add(addresses + place, mask, self.threads, self.weight, nbytes, is_more=place > 0)
            self.tallies.steps += self.weight
        if view.memory.space is Space.GLOBAL:
            tally.widen(None if view.is_unknown else view.chosen, mask, self.threads)
        if self.rearranges and view.memory.space is Space.SHARED and not view.is_unknown:
            for each in arrangements_of(view.memory):
                moved = moved_addresses(view, lanes, each)
                if moved is not None:
                    tally.add_moved(each, moved, mask, self.threads, self.weight)

    def tile_access(
        self,
        node: ast.AST,
        view: View,
        at: Sequence[Value],
        shape: tuple[int, ...],
        *,
        is_store: bool,
    ) -> None:
        """Count the accesses by which a block takes a tile, from an index of an array on."""
        if not self.active:
            return
        threads = self.threads
        shape = (math.prod(threads.block_dim),) if shape == OF_BLOCK else shape
        tally = self._tally_of(node, view, is_store=is_store)
        tally.tile_share = Fraction(math.prod(shape), math.prod(threads.block_dim))
        starts, is_unknown = tile_starts(view, at, threads, self.random)
        tally.depends_on_data |= is_unknown
        tally.is_uncertain |= self.uncertain > 0
        for each in tile_requests(view, starts, shape, threads, self.active.mask):
            tally.add(each.addresses, each.mask, threads, self.weight, each.nbytes)
            self.tallies.steps += self.weight

    def _tally_of(
        self, node: ast.AST, view: View, *, is_store: bool, is_atomic: bool = False
    ) -> AccessTally:
        key = (node, is_store, view.memory)
        tally = self.tallies.accesses.get(key)
        if tally is None:
            text = ast.unparse(node)
            where = self.locate(node)
            tally = self.tallies.accesses[key] = AccessTally(
                view.memory,
                node,
                self.typed,
                text,
                where,
                is_store,
                is_atomic,
                view.itemsize,
                part=view.part,
            )
        return tally


def record_type(kind: Type | None) -> ElementType | None:
    """Return the element type of records, or of arrays of them; ``None`` of others."""
    element = kind.element if isinstance(kind, ScalarKind | ArrayKind) else None
    return element if element is not None and element.is_record else None
