"""Write the tile operations of a kernel, for the emitter that writes all its operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from llvmlite import ir

from kerneldsl.contract import Specialization
from kerneldsl.ir.accesses import Accesses
from kerneldsl.ir.emission import Emitter
from kerneldsl.ir.operations import LOOPS, Function, Operation, Value
from kerneldsl.ir.tiles.elements import Slot, TileMemory, write_start
from kerneldsl.ir.tiles.handing_on import drop_casts, drop_unread, hand_on_by_copies
from kerneldsl.ir.tiles.layout import Layout, TileLayout
from kerneldsl.ir.tiles.live_ranges import is_tile
from kerneldsl.ir.tiles.placement import Place, Placement
from kerneldsl.ir.tiles.shapes import check_fit
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.architectures import Architecture
from targets.cuda.compile.lowered import DEFAULT_TILE_BLOCK
from targets.cuda.compile.pipeline import Pipeline
from targets.cuda.compile.tiles import elements, folds, memory, scans, sorts
from targets.cuda.compile.tiles.elements import OperationCode
from targets.cuda.compile.tiles.order import order_tiles
from targets.cuda.compile.tiles.thread_code import Memory, ThreadCode

if TYPE_CHECKING:
    from targets.cuda.compile.mma.factors import Factors
    from targets.cuda.compile.mma.layouts import TileLayouts
    from targets.cuda.compile.mma.rings import Ring
    from targets.cuda.compile.mma.warpgroup_plan import WarpgroupPlan

__all__ = ["Storage", "TileWriter", "tile_handlers"]

_Handler: TypeAlias = Callable[[Operation], None]


@dataclass(frozen=True)
class Storage(TileMemory):
    """The registers of a tile's elements, or shared memory with all of them."""

    place: Place
    memory: Memory

    @property
    def is_shared(self) -> bool:
        return self.place.is_shared

    @property
    def kind(self) -> Any:
        """Type of the elements."""
        return self.place.kind

    def own(self, slot: Slot) -> ir.Value:
        return self.memory.get(slot.index if self.is_shared else slot.slot)

    def put(self, slot: Slot, value: ir.Value) -> None:
        self.memory.set(slot.index if self.is_shared else slot.slot, value)

    def get(self, index: ir.Value) -> ir.Value:
        """Return an element, which must be in shared memory."""
        assert self.is_shared
        return self.memory.get(index)


class TileWriter:
    """Writes the tile operations of one function.

    - `emitter`: writes all other operations.
    - `function`: the kernel. Branches and loops hand on its tiles by copies afterwards.
    - `block_dim`: threads of the block along x, y and z.
    - `accesses`: memory that its operations read and write.
    - `arch`: the architecture.
    - `pipeline`: its passes plan products.
    - `by_warpgroups`: whether warpgroups multiply its tiles.
    """

    def __init__(
        self,
        emitter: Emitter,
        function: Function,
        block_dim: tuple[int, int, int],
        accesses: Accesses,
        arch: Architecture,
        pipeline: Pipeline,
        *,
        by_warpgroups: bool,
    ) -> None:
        self.emitter = emitter
        self.code = ThreadCode(emitter.context, emitter.builder, block_dim)
        drop_casts(function)
        drop_unread(function)
        #: Layouts of a kernel with products; ``None`` for others.
        self.layouts: TileLayouts | None = None
        self.factors: Factors
        if any(each.name == "tile.mma" for each in function.body.walk()):
            from targets.cuda.compile.mma.exchanged_axes import read_as_stored
            from targets.cuda.compile.mma.factors import Factors
            from targets.cuda.compile.mma.layouts import TileLayouts
            from targets.cuda.compile.mma.passes import lay_out_products, plan_early_loads

            threads = self.code.threads
            rings: dict[Operation, Ring] = {}
            if by_warpgroups:
                layouts = TileLayouts(function, threads, arch, by_warpgroups=True)
            else:
                read_as_stored(function)
                layouts = lay_out_products(pipeline, function, threads, arch)
                limit = arch.max_shared_bytes
                rings = plan_early_loads(pipeline, function, layouts, accesses, limit)
            self.layouts, self.factors = layouts, Factors(self, function, layouts, rings)
            self._placement = Placement(function, self.code.threads, self.layouts)
        else:
            self._placement = Placement(function, self.code.threads)
        hand_on_by_copies(function, self._placement)
        self._memories: dict[int, Memory] = {}
        #: Copies of tiles that are read where other threads have written them.
        self._read: dict[Value, Memory] = {}
        self._rooms: dict[tuple[Operation, str], Memory] = {}
        #: Number of loops around the operation being written.
        self.loop_depth = 0

    def write(self, operation: Operation) -> None:
        _WRITE[operation.name](self, operation)

    # -- sizes and memory -------------------------------------------------------------------------

    def shape(self, operation: Operation) -> tuple[int, ...]:
        return self._placement.shape(operation.attributes["shape"])

    def layout(self, operation: Operation) -> TileLayout:
        """Return how the elements of an operation's tile belong to threads."""
        found = self.layouts.of_operation(operation) if self.layouts is not None else None
        return found or Layout(math.prod(self.shape(operation)), self.code.threads)

    def layout_of(self, place: Place) -> TileLayout:
        """Return how the elements of a tile in a place belong to threads."""
        found: TileLayout = place.layout or Layout(place.count, self.code.threads)
        return found

    def storage(self, value: Value) -> Storage:
        place = self._placement[value]
        found = self._read.get(value) or self._memories.get(place.number)
        if found is None:
            if place.is_shared:
                found = self.code.shared(place.kind, place.count, columns=place.columns)
            else:
                found = self.registers(place).memory
            self._memories[place.number] = found
        return Storage(place, found)

    def read_at(self, value: Value, data: ir.Value) -> None:
        """Let a tile be read in shared memory, from a byte on."""
        place, code = self._placement[value], self.code
        element = code.context.get_data_type(place.kind).as_pointer(data.type.addrspace)
        memory = code.builder.bitcast(data, element)
        self._read[value] = Memory(code.context, code.builder, memory, place.kind)

    def room(self, operation: Operation, kind: Any, count: int, name: str = "") -> Memory:
        """Return shared memory that one operation needs."""
        found = self._rooms.get((operation, name))
        if found is None:
            found = self._rooms[operation, name] = self.code.shared(kind, count)
        return found

    @contextmanager
    def written(self, storage: Storage) -> Iterator[None]:
        """Let threads wait around what writes a tile in shared memory."""
        if storage.is_shared:
            self.code.wait()
        yield
        if storage.is_shared:
            self.code.wait()

    # -- elements ---------------------------------------------------------------------------------

    def elements(self, operation: Operation) -> AbstractContextManager[tuple[Slot, ir.Value]]:
        """Repeat code for each of the thread's elements of an operation's region."""
        return OperationCode(self, operation).elements()

    def registers(self, place: Place) -> Storage:
        """Return registers for the thread's elements of a place."""
        layout = self.layout_of(place)
        own = self.code.local(place.kind, layout.slot_count)
        return Storage(replace(place, is_shared=False, columns=0), own)


def _write_mma(writer: TileWriter, operation: Operation) -> None:
    """Write a product, by instructions if possible."""
    assert writer.layouts is not None
    product = writer.layouts.product(operation)
    if product is None:
        folds.write_mma(writer, operation)
    else:
        from targets.cuda.compile.mma.products import write_product

        write_product(writer, operation, product)


_WRITE: dict[str, Callable[[TileWriter, Operation], None]] = {
    "tile.argsort": sorts.write_argsort,
    "tile.copy": elements.write_copy,
    "tile.fold": folds.write_fold,
    "tile.load": memory.write_load,
    "tile.mma": _write_mma,
    "tile.map": elements.write_map,
    "tile.of": elements.write_of,
    "tile.own": elements.write_own,
    "tile.place": lambda writer, operation: write_start(writer.emitter, operation),
    "tile.scan": scans.write_scan,
    "tile.sort": sorts.write_sort,
    "tile.store": memory.write_store,
    "tile.take": elements.write_taken,
    "tile.turn": lambda writer, operation: operation.attributes["write"](),
    "tile.wait": lambda writer, operation: writer.code.wait(),
}


def tile_handlers(
    emitter: Emitter,
    function: Function,
    specialization: Specialization,
    arch: Architecture,
    pipeline: Pipeline,
    plan: WarpgroupPlan | None = None,
    maps: Sequence[ir.Value] = (),
) -> dict[str, _Handler]:
    """Return what writes tile operations, and loops with the number of those around them.

    - raises `UnsupportedConstructError` if a tile with an element for each thread does not fit the
      block.
    """
    block_dim = specialization.block_dim or DEFAULT_TILE_BLOCK
    if plan is not None:
        block_dim = (plan.tile_threads, 1, 1)
    check_fit(function, math.prod(block_dim))
    about = specialization.kinds, specialization.promises
    order_tiles(function, *about)
    accesses = Accesses(function, *about)
    by_warpgroups = plan is not None
    writer = TileWriter(
        emitter, function, block_dim, accesses, arch, pipeline, by_warpgroups=by_warpgroups
    )
    inside = {name: partial(_inside, writer, emitter.handlers[name]) for name in LOOPS}
    undefined = partial(_undefined, emitter.handlers["undefined"])
    found: dict[str, _Handler] = {**dict.fromkeys(_WRITE, writer.write), **inside}
    found["undefined"] = undefined
    if plan is not None:
        from targets.cuda.compile.mma.warpgroup_writer import Ring

        found |= Ring(writer, plan, maps).handlers
    return found


def _inside(writer: TileWriter, write: _Handler, operation: Operation) -> None:
    writer.loop_depth += 1
    ring = None if writer.layouts is None else writer.factors.rings.get(operation)
    if ring is None:
        write(operation)
    else:
        from targets.cuda.compile.mma.pipelined import write_pipelined

        write_pipelined(writer, write, operation, ring)
    writer.loop_depth -= 1


def _undefined(write: _Handler, operation: Operation) -> None:
    """Write a value that is not defined, unless it is a tile, which nothing reads."""
    if not is_tile(operation.result):
        write(operation)
