"""Memory as many threads see it: arrays that a kernel makes, elements, accesses, and tiles.

Elements of tiles belong to threads as :class:`~kerneldsl.ir.tiles.layout.Layout` says. Elements
are accessed one by one, or neighbours by one access of up to 16 bytes. The tile then has one axis,
and is within the array, at a multiple of a group's size.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kerneldsl.explain.arrangements import arrangements_of, moved_addresses
from kerneldsl.explain.requests import WARP_LANES
from kerneldsl.explain.sites import Site, site_of
from kerneldsl.explain.subscripts import element_addresses, field_of, subscript
from kerneldsl.explain.tally import AccessTally, Tallies
from kerneldsl.explain.threads import Threads
from kerneldsl.explain.values import UNKNOWN, Memory, Part, Space, Value, View
from kerneldsl.ir.operations import Operation, Region
from kerneldsl.ir.operations import Value as Result
from kerneldsl.ir.tiles.layout import Layout
from kerneldsl.ir.tiles.shapes import OF_BLOCK
from kerneldsl.language.element_types import ELEMENT_TYPES, ElementType
from kerneldsl.language.kinds import ArrayKind, ScalarKind
from kerneldsl.language.types import Type

__all__ = [
    "ARRAY_GAP",
    "ActiveLanes",
    "LaneMemory",
    "TileRequest",
    "parts_of",
    "record_type",
    "tile_requests",
    "tile_starts",
]

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


class LaneMemory(ABC):
    """State of a run: values, memory, and the lanes that are `active`."""

    def __init__(self, threads: Threads, *, wraps: bool) -> None:
        self.threads, self.tallies = threads, Tallies()
        #: Whether negative indices count from the end.
        self.wraps = wraps
        self.active = ActiveLanes(threads.exists, threads)
        #: Executions that the current operation represents.
        self.weight = 1.0
        #: Conditions around that depend on data.
        self.uncertain = 0
        self.random = np.random.default_rng(1)
        #: Whether the effect of other layouts of shared arrays is examined.
        self.rearranges = False
        #: Whether the index of the last element that was found may be negative.
        self.wrapped = False
        self.values: dict[Result, Value] = {}
        #: Indices that ``grid`` returns, if they are not the launch's own.
        self.indices: tuple[NDArray[np.int64], ...] | None = None
        #: Bytes of dynamic shared memory.
        self.shared_bytes = 0
        #: The start of the statement that was begun last.
        self.statement: Any = None

    def get(self, value: Result) -> Value:
        """Return what is known of a value."""
        return self.values.get(value, UNKNOWN)

    @abstractmethod
    def run(self, region: Region) -> list[Value] | None:
        """Run the operations of a region; return what it yields to lanes that get to its end."""

    def made(
        self,
        key: Any,
        name: str,
        space: Space,
        dtype: str,
        shape: tuple[int, ...],
        contents: NDArray[Any] | None = None,
    ) -> Memory:
        """Return an array that the kernel makes; the same for a key each time."""
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
            )
        return self.tallies.made[key]

    def element(self, base: Value, parts: Sequence[Value]) -> Value:
        """Return the view that indices and slices choose, or an element of a tuple."""
        if isinstance(base, View):
            self.wrapped = self.wraps and any(map(self._is_negative, parts))
            return subscript(base, parts, self.random, self.threads.lane_count, wraps=self.wraps)
        if isinstance(base, tuple) and len(parts) == 1 and not isinstance(parts[0], np.ndarray):
            try:
                return base[parts[0]]
            except (IndexError, TypeError):
                return UNKNOWN
        return UNKNOWN

    def field(self, base: Value, kind: Type | None, name: str) -> Value:
        """Return the view that a field of a record is, or of records; counting nothing."""
        record = record_type(kind)
        found = None
        if record is not None and isinstance(base, View):
            found = field_of(base, record, name)
        return UNKNOWN if found is None else found

    def _is_negative(self, index: Value) -> bool:
        """Return whether an index is negative in some lane at work, or may be, since it is data."""
        if isinstance(index, int | np.integer | np.ndarray):
            return bool(np.any(np.less(index, 0) & self.active.mask))
        return index is UNKNOWN

    def access(
        self,
        operation: Operation,
        view: View,
        *,
        is_store: bool = False,
        is_atomic: bool = False,
        site: Site | None = None,
    ) -> None:
        """Count an access of the lanes at work."""
        if not self.active:
            return
        if view.part is None and ELEMENT_TYPES[view.memory.dtype].is_record:
            view = replace(view, part=Part(view.itemsize, 0, is_aligned=False))
        tally = self._tally_of(operation, view, site, is_store=is_store, is_atomic=is_atomic)
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
        operation: Operation,
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
        tally = self._tally_of(operation, view, None, is_store=is_store)
        tally.tile_share = Fraction(math.prod(shape), math.prod(threads.block_dim))
        starts, is_unknown = tile_starts(view, at, threads, self.random)
        tally.depends_on_data |= is_unknown
        tally.is_uncertain |= self.uncertain > 0
        for each in tile_requests(view, starts, shape, threads, self.active.mask):
            tally.add(each.addresses, each.mask, threads, self.weight, each.nbytes)
            self.tallies.steps += self.weight

    def _tally_of(
        self,
        operation: Operation,
        view: View,
        site: Site | None,
        *,
        is_store: bool,
        is_atomic: bool = False,
    ) -> AccessTally:
        site = site or site_of(operation)
        made = AccessTally(view.memory, site, is_store, is_atomic, view.itemsize, part=view.part)
        tally = self.tallies.accesses.setdefault(made.key, made)
        tally.operations[operation] = None
        return tally


def record_type(kind: Type | None) -> ElementType | None:
    """Return the element type of records, or of arrays of them; ``None`` of others."""
    element = kind.element if isinstance(kind, ScalarKind | ArrayKind) else None
    return element if element is not None and element.is_record else None


def parts_of(index: Value) -> tuple[Value, ...]:
    """Return the indices of an index, which may be a tuple."""
    return index if isinstance(index, tuple) else (index,)


# -- tiles ----------------------------------------------------------------------------------------


#: Most bytes that one access takes.
_MAX_BYTES = 16


class TileRequest(NamedTuple):
    """An access of all threads, each of so many bytes from its address on."""

    addresses: NDArray[np.int64]
    mask: NDArray[np.bool_]
    nbytes: int


def tile_starts(
    view: View, at: Sequence[Value], threads: Threads, random: np.random.Generator
) -> tuple[list[NDArray[np.int64]], bool]:
    """Return the first index of each block's tile, for each lane, and whether data decides it.

    Where data does, it is drawn at random, the same for all threads of a block.
    """
    starts, is_unknown = [], view.is_unknown
    for value, extent in zip(at, view.shape, strict=True):
        if isinstance(value, int | np.integer | np.ndarray) and not isinstance(value, bool):
            start = np.asarray(value, np.int64)
        else:
            is_unknown = True
            drawn = random.integers(0, max(1, int(extent)), len(threads.block_places))
            start = np.repeat(drawn, threads.lanes_per_block)
        starts.append(np.broadcast_to(start, (threads.lane_count,)))
    return starts, is_unknown


def tile_requests(
    view: View,
    starts: Sequence[NDArray[np.int64]],
    shape: tuple[int, ...],
    threads: Threads,
    active: NDArray[np.bool_],
) -> Iterator[TileRequest]:
    """Yield the accesses by which a block's threads take the elements of a tile."""
    layout = Layout(math.prod(shape), math.prod(threads.block_dim))
    blocks = len(threads.block_places)
    thread = np.tile(np.arange(threads.lanes_per_block), blocks)
    base = np.asarray(view.memory.base + view.offset, np.int64)
    is_wide = active & _is_wide(view, starts, layout, base)
    width = min(layout.group, max(1, _MAX_BYTES // view.itemsize))
    for turn in range(layout.rounds):
        first = (turn * layout.threads + thread) * layout.group
        for within in range(layout.group):
            number = first + within
            index = np.unravel_index(np.minimum(number, layout.count - 1), shape)
            places = [start + part for start, part in zip(starts, index, strict=True)]
            inside = active & (number < layout.count)
            for place, extent in zip(places, view.shape, strict=True):
                inside &= (place >= 0) & (place < extent)
            steps = (place * stride for place, stride in zip(places, view.strides, strict=True))
            addresses: Any = base + sum(steps)
            if within % width == 0 and is_wide.any():
                yield TileRequest(addresses, inside & is_wide, width * view.itemsize)
            if not is_wide.all():
                yield TileRequest(addresses, inside & ~is_wide, view.itemsize)


def _is_wide(
    view: View, starts: Sequence[NDArray[np.int64]], layout: Layout, base: NDArray[np.int64]
) -> Any:
    """Return for each lane whether its block takes groups of neighbours by wide accesses."""
    row = ELEMENT_TYPES[view.memory.dtype]
    is_plain = len(starts) == 1 and view.strides == (view.itemsize,) and not row.is_complex
    if layout.group == 1 or not is_plain or view.itemsize != view.memory.itemsize:
        return np.False_
    (start,) = starts
    (extent,) = view.shape
    is_inside = (start >= 0) & (start + layout.count <= extent)
    return is_inside & ((base + start * view.itemsize) % (layout.group * view.itemsize) == 0)
