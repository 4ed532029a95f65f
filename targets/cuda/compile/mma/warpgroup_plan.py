"""Plan products by warpgroups: the rings of copies of a kernel, or the reason against it.

A product in a loop takes its factors from a *ring* of slots in shared memory. Each slot has the
tiles of one iteration. A thread beyond the declared ones begins the copies into the slots, and the
declared threads multiply what is there. Factors that are loaded before the loop have a ring of one
slot. A first factor that is computed from products stays in registers.

A kernel has such a plan if tensor maps can copy what it loads
(:mod:`targets.cuda.compile.mma.mapped_loads`). Otherwise the reason is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import field, replace
from typing import TYPE_CHECKING

from kerneldsl.contract import Specialization
from kerneldsl.contract.tensor_maps import TensorMap
from kerneldsl.ir.operations import Effect, Function, Operation, Region, Value
from kerneldsl.ir.ranges import Interval
from kerneldsl.ir.tiles.live_ranges import is_tile
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.compile.lowered import DEFAULT_TILE_BLOCK, LaunchAdditions
from targets.cuda.compile.mma.first_rows import find_ends
from targets.cuda.compile.mma.mapped_loads import (
    NotPlanned,
    find_lines,
    is_transposed,
    map_of,
    readers_in,
)
from targets.cuda.compile.mma.mapped_stores import (
    BOX_BYTES,
    BoxStore,
    find_box_stores,
    has_few_tiles,
)
from targets.cuda.compile.mma.mbarriers import BARRIER_BYTES
from targets.cuda.compile.mma.own_tiles import check_own_tiles
from targets.cuda.compile.mma.panel_reads import Panels, find_panels
from targets.cuda.compile.mma.wgmma import (
    FORMS,
    ROW_BYTES,
    STEP_BYTES,
    WARPGROUP,
    WARPGROUP_ROWS,
    Form,
)

if TYPE_CHECKING:
    from targets.cuda.compile.mma.layouts import TileLayouts

__all__ = ["Part", "RingPlan", "WarpgroupPlan", "plan_warpgroups"]

#: Bytes of shared memory: the most of a block of sm_90, and those that other tiles get.
#: CUDA C++ Programming Guide, "Technical Specifications".
_SHARED_BYTES, _OTHER_BYTES = 227 * 1024, 8 * 1024
#: Bytes. Rings begin at a multiple: the swizzle of 128-byte rows repeats after eight rows.
RING_ALIGNMENT = 1024
#: Bytes. A row that expressions read begins at a multiple, as tensor copies need it.
LINE_ALIGNMENT = 128
#: 32-bit registers of a thread with its part of an instruction's first factor. That has 64 rows of
#: 32 bytes (PTX ISA, "wgmma.mma_async").
OWN_WORDS = 4
#: Most slots of a ring. Boxes for results take no slot of the first four: the time of a copy is
#: hidden by them.
_MAX_SLOTS, _ENOUGH_SLOTS = 8, 4
#: Most boxes of a warpgroup in shared memory, by which it stores results.
_MAX_BOXES = 2
#: Registers of a thread of the producer and of the others, by number of warpgroups that multiply:
#: multiples of 8 (PTX ISA, "setmaxnreg"). A multiprocessor has 65,536 for all of them. With one
#: warpgroup, a thread has all that it can have anyway.
_REGISTERS = {1: None, 2: (40, 232), 3: (32, 160)}
#: Warpgroups that may take tiles in turn: one multiplies while the other one stores results.
_TAKING_TURNS = 2
#: Most results of a thread, each in a register, by number of warpgroups: others are for addresses.
_MAX_RESULTS = {1: 128, 2: 128, 3: 96}


@dataclass(frozen=True)
class Part:
    """One factor of products in a slot of a ring.

    It is in panels, one after the other, with rows of 128 bytes. For a product the rows are along
    k, or across. A row that expressions read is one panel.
    """

    #: Indices into `WarpgroupPlan.rings` and `WarpgroupPlan.tensor_maps`.
    ring: int
    tensor_map: int
    #: Offset in the slot in bytes.
    start: int
    #: Rows of a panel, and panels.
    rows: int
    panels: int
    #: Elements of a row, and its bytes.
    row_elements: int
    row_bytes: int
    #: Whether rows are along the first axis of the tile.
    is_transposed: bool
    #: Whether expressions read the factor.
    is_line: bool = False

    def is_exchanged(self, product: Operation, number: int) -> bool:
        """Return whether its rows are across k, as a factor of a product."""
        return _exchanges(product)[number] != self.is_transposed

    @property
    def panel_bytes(self) -> int:
        """Size of a panel."""
        return self.rows * self.row_bytes

    @property
    def nbytes(self) -> int:
        """Size of all panels."""
        return self.panels * self.panel_bytes


@dataclass(frozen=True)
class RingPlan:
    """The slots of the factors that one region loads for one product."""

    #: The region with the loads.
    region: Region
    #: The parts of a slot, by the operations that load them.
    parts: dict[Operation, Part]
    #: The operations of the region that read them.
    readers: frozenset[Operation]
    slots: int

    @property
    def copied_bytes(self) -> int:
        """Bytes that are copied into a slot."""
        return sum(part.nbytes for part in self.parts.values())

    @property
    def slot_bytes(self) -> int:
        """Bytes of a slot, without its barriers."""
        end = max(part.start + part.nbytes for part in self.parts.values())
        return -(-end // RING_ALIGNMENT) * RING_ALIGNMENT

    @property
    def has_lines(self) -> bool:
        """True if expressions read a part."""
        return any(part.is_line for part in self.parts.values())

    @property
    def bytes_of_each(self) -> int:
        """Bytes of a slot with its two barriers: it is full, and it is free."""
        return self.slot_bytes + 2 * BARRIER_BYTES


@dataclass(frozen=True)
class WarpgroupPlan:
    """The plan of a kernel with tiles that warpgroups multiply."""

    #: Declared warpgroups, which multiply, and how many of them share a tile: all, or one.
    warpgroups: int
    sharing: int
    rings: tuple[RingPlan, ...]
    #: Instructions by the product.
    forms: dict[Operation, Form]
    tensor_maps: tuple[TensorMap, ...]
    #: Stores through boxes in shared memory, and the number of boxes that each warpgroup has.
    stores: dict[Operation, BoxStore] = field(default_factory=dict)
    boxes: int = 0
    #: The first row and the end of products that not all warpgroups may have rows of.
    ends: dict[Operation, tuple[Value, Value]] = field(default_factory=dict)
    #: Panels that functions of stores read through the ring.
    panels: dict[Operation, Panels] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        """Most slots of a ring."""
        return max(ring.slots for ring in self.rings)

    @property
    def shared_bytes(self) -> int:
        """Bytes of rings and boxes, and for the alignment of the first ring."""
        rings = sum(ring.slots * ring.bytes_of_each for ring in self.rings)
        return RING_ALIGNMENT + rings + self.warpgroups * self.boxes * BOX_BYTES

    @property
    def threads(self) -> int:
        """Declared threads."""
        return WARPGROUP * self.warpgroups

    @property
    def tile_threads(self) -> int:
        """Declared threads that share a tile."""
        return WARPGROUP * self.sharing

    @property
    def additions(self) -> LaunchAdditions:
        """The additions to each launch of the kernel."""
        return LaunchAdditions(self.tensor_maps, WARPGROUP, is_early=True)

    @property
    def registers(self) -> tuple[int, int] | None:
        """Registers of a thread of the producer and of others, if they differ."""
        return _REGISTERS[self.warpgroups]


def plan_warpgroups(
    function: Function, specialization: Specialization, known: Mapping[Value, Interval]
) -> WarpgroupPlan:
    """Plan the products of a kernel; `known` are intervals of its integers.

    Raises
    ------
    NotPlanned
        With the reason why there is no plan.
    """
    block_dim = specialization.block_dim or DEFAULT_TILE_BLOCK
    warpgroups, rest = divmod(block_dim[0], WARPGROUP)
    if rest or block_dim[1:] != (1, 1) or warpgroups not in _REGISTERS:
        raise NotPlanned(f"a block of {block_dim} threads is not one to three warpgroups along x")
    if specialization.options.debug:
        raise NotPlanned("debug mode checks accesses one by one")
    if specialization.traits.uses_dynamic_shared:
        raise NotPlanned("the kernel has dynamic shared memory of its own")
    _check_others(function)
    products = [each for each in function.body.walk() if each.name == "tile.mma"]
    sharing = _sharing(products, warpgroups)
    forms = {each: _form(each, sharing, warpgroups) for each in products}
    loops = _check_loops(function, products)
    maps: list[TensorMap] = []
    uses = _uses(function)
    ends = find_ends(function, products, loops.keys(), uses, known)
    rings = _rings(function, specialization, forms, loops, uses, maps)
    factors = {load for ring in rings for load in ring.parts}
    if sharing < warpgroups:
        check_own_tiles(function, factors, loops)
    others = 0 if has_few_tiles(function, factors) else _OTHER_BYTES
    room = _SHARED_BYTES - others - RING_ALIGNMENT
    found, made = _with_slots(rings, loops, room), list(maps)
    stores = find_box_stores(function, specialization, uses, sharing, made)
    most = max((each.count for each in stores.values()), default=0)
    least = max((each.least for each in stores.values()), default=1)
    for boxes in range(min(most, _MAX_BOXES), least - 1, -1):
        try:
            smaller = _with_slots(rings, loops, room - boxes * warpgroups * BOX_BYTES)
        except NotPlanned:
            continue
        if all(
            few.slots >= min(_ENOUGH_SLOTS, many.slots)
            for few, many in zip(smaller, found, strict=True)
        ):
            panels: dict[Operation, Panels] = {}
            if len(smaller) == 1 and sharing == warpgroups:
                room = smaller[0].slot_bytes
                panels = find_panels(function, specialization, stores, factors, room, sharing, made)
            about = (forms, tuple(made), stores, boxes, ends, panels)
            return WarpgroupPlan(warpgroups, sharing, smaller, *about)
    return WarpgroupPlan(warpgroups, sharing, found, forms, tuple(maps), ends=ends)


def _check_others(function: Function) -> None:
    """Refuse words that would include the added threads."""
    for operation in function.body.walk():
        is_of_tile = operation.name.startswith("tile.")
        if not is_of_tile and operation.effect & (Effect.WAIT | Effect.ALLOCATE | Effect.EXCHANGE):
            raise NotPlanned(f"the kernel has {operation.name}")
        if operation.name.partition(".")[0] in ("blockDim", "grid", "gridsize"):
            raise NotPlanned(f"the kernel has {operation.name}")


def _sharing(products: Sequence[Operation], warpgroups: int) -> int:
    """Return how many warpgroups share a tile: one of two, if tiles have rows for one alone."""
    rows = {product.attributes["shape"][0] for product in products}
    is_of_one = warpgroups == _TAKING_TURNS and rows == {WARPGROUP_ROWS}
    return 1 if is_of_one else warpgroups


def _form(product: Operation, sharing: int, warpgroups: int) -> Form:
    """Return the instruction of a product."""
    one, two = (str(each.type.dtype) for each in product.operands[:2])
    form = FORMS.get((one, two))
    precision = product.attributes["precision"]
    if precision == "reference":
        raise NotPlanned("the precision is that of the reference")
    if form is None or (one == "float32" and precision != "tf32"):
        raise NotPlanned(f"warpgroups do not multiply {one} by {two}")
    (rows, columns), depth = product.attributes["shape"], product.attributes["depth"]
    if rows % (WARPGROUP_ROWS * sharing):
        raise NotPlanned(f"{rows} rows are no multiple of {WARPGROUP_ROWS * sharing}")
    if not form.has_columns(columns):
        raise NotPlanned(f"there is no instruction for {columns} columns")
    if depth * form.itemsize % STEP_BYTES:
        raise NotPlanned(f"{depth} elements along k are no multiple of {form.depth}")
    results = rows * columns // (WARPGROUP * sharing)
    if form.is_promoted and product.attributes["promote"] is not None:
        results *= 2  # sums of up to `promote` products, and of all
    if results > _MAX_RESULTS[warpgroups]:
        raise NotPlanned(f"a thread has no room for {results} results")
    return form


def _exchanges(product: Operation) -> tuple[bool, bool]:
    """Return for each factor whether its rows in memory are across k."""
    one, two = product.attributes["exchanged"]
    return one, not two


def _check_loops(function: Function, products: Sequence[Operation]) -> dict[Region, int]:
    """Return the bodies of the pipelined loops, which have all products, with their stages."""
    found = {
        each.regions[0]: each.attributes["pipelined"]
        for each in function.body.walk()
        if each.name == "for" and "pipelined" in each.attributes
    }
    if not found:
        raise NotPlanned("the kernel has no loop over kd.pipelined")
    inside = {each for region in found for each in region.operations}
    if not inside.issuperset(products):
        raise NotPlanned("a product is outside the loop over kd.pipelined")
    return found


def _rings(
    function: Function,
    specialization: Specialization,
    forms: Mapping[Operation, Form],
    loops: Mapping[Region, int],
    uses: Mapping[Value, list[Operation]],
    maps: list[TensorMap],
) -> list[RingPlan]:
    """Return the rings, with one slot each; `maps` gets the maps of their copies."""
    region_of: dict[Operation, Region] = {}
    for operation in function.body.walk():
        region_of |= {each: region for region in operation.regions for each in region.operations}
    region_of |= dict.fromkeys(function.body.operations, function.body)
    layouts: TileLayouts | None = None
    found: set[Operation] = set()
    #: Loads by their region and by the first product that reads them.
    loads: dict[tuple[Region, Operation], list[Operation]] = {}
    #: The first product of a region that has a first factor which is computed from loaded tiles.
    computed: dict[Region, Operation] = {}
    for product, form in forms.items():
        reader = product
        for number, factor in enumerate(product.operands[:2]):
            load = factor.owner
            if load in found:
                continue
            if isinstance(load, Operation) and load.name == "tile.load":
                if any(
                    each.name != "tile.mma" or factor in each.operands[2:] for each in uses[factor]
                ):
                    raise NotPlanned("a factor is read by other operations than kd.mma")
                found.add(load)
                loads.setdefault((region_of[load], reader), []).append(load)
                continue
            if layouts is None:
                layouts = _layouts(function, specialization)
            is_of_loads = layouts.is_of_loads(product)
            has_rows = form.may_exchange and layouts.has_own_rows(product)
            is_late = is_of_loads and _reads_late(factor, region_of[product])
            if number or not has_rows or is_late:
                raise NotPlanned("a factor is computed")
            if is_of_loads:
                reader = computed.setdefault(region_of[product], product)
    rings: list[RingPlan] = []
    for (region, _), own in loads.items():
        parts, start = {}, 0
        for load in own:
            wanted = map_of(function, specialization, load)
            if wanted not in maps:
                maps.append(wanted)
            (row, rows), is_turned = wanted.box[:2], is_transposed(wanted)
            panels = load.attributes["shape"][0 if is_turned else 1] // row
            numbers = (len(rings), maps.index(wanted))
            parts[load] = Part(*numbers, start, rows, panels, row, ROW_BYTES, is_turned)
            start += parts[load].nbytes
        products = {each for load in own for each in uses[load.result]}
        for each in products:
            for number, factor in enumerate(each.operands[:2]):
                load = factor.owner
                part = parts.get(load) if isinstance(load, Operation) else None
                is_across = part is not None and part.is_exchanged(each, number)
                if is_across and not forms[each].may_exchange:
                    raise NotPlanned("operands with columns side by side are of 16 bits")
        if region in loops and all(region is not ring.region for ring in rings):
            for load, wanted in find_lines(function, specialization, region, uses):
                if wanted not in maps:
                    maps.append(wanted)
                row, start = wanted.box[0], -(-start // LINE_ALIGNMENT) * LINE_ALIGNMENT
                row_bytes = row * load.result.type.dtype.bitwidth // 8
                numbers = (len(rings), maps.index(wanted))
                parts[load] = Part(*numbers, start, 1, 1, row, row_bytes, False, is_line=True)
                start += row_bytes
        readers = frozenset(readers_in(region, list(parts), uses))
        _check_ways(region, list(parts), readers)
        rings.append(RingPlan(region, parts, readers, 1))
    return rings


def _reads_late(factor: Value, region: Region) -> bool:
    """Return whether a factor is computed from a tile that the same iteration loads.

    Threads would wait for it: warps have copies of it that begin earlier.
    """
    made = factor.owner
    if not isinstance(made, Operation) or made not in region.operations:
        return False
    if made.name == "tile.load":
        return bool(made.attributes["shape"][-1] > 1)
    is_map = made.name == "tile.map"
    return is_map and any(_reads_late(each, region) for each in made.operands if is_tile(each))


def _uses(function: Function) -> dict[Value, list[Operation]]:
    """Return what reads each value."""
    found: dict[Value, list[Operation]] = {}
    for operation in function.body.walk():
        for value in operation.operands:
            found.setdefault(value, []).append(operation)
    return found


def _check_ways(region: Region, loads: Sequence[Operation], readers: Set[Operation]) -> None:
    """Refuse ways on which a factor is copied, but not read: its slot would not become free."""
    needed = {*loads, *readers}
    places = [n for n, each in enumerate(region.operations) if not needed.isdisjoint(each.walk())]
    for between in region.operations[places[0] : places[-1] + 1]:
        if between.effects() & Effect.LEAVE:
            raise NotPlanned("a factor is loaded, and not always read")


def _layouts(function: Function, specialization: Specialization) -> TileLayouts:
    """Return the layouts of the tiles that warpgroups multiply."""
    from targets.cuda.architectures import parse_arch
    from targets.cuda.compile.mma.layouts import TileLayouts

    threads = (specialization.block_dim or DEFAULT_TILE_BLOCK)[0]
    return TileLayouts(function, threads, parse_arch("sm_90a"), by_warpgroups=True)


def _with_slots(
    rings: Sequence[RingPlan], loops: Mapping[Region, int], room: int
) -> tuple[RingPlan, ...]:
    """Give the rings of pipelined loops as many slots as there is room for, in bytes."""
    most = room - sum(ring.bytes_of_each for ring in rings if ring.region not in loops)
    size = sum(ring.bytes_of_each for ring in rings if ring.region in loops)
    if not size:
        raise NotPlanned("a factor is not loaded in the loop")
    found = []
    for ring in rings:
        slots = 1
        if ring.region in loops:
            early = loops[ring.region]
            slots = min(most // size, early + 1 if early else _MAX_SLOTS)
            if slots < 2:
                nbytes = ring.slot_bytes
                raise NotPlanned(f"shared memory has no room for two slots of {nbytes} bytes")
        found.append(replace(ring, slots=slots))
    return tuple(found)
