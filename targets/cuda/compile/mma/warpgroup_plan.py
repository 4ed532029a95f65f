"""Plan products by warpgroups: the ring of copies of a kernel, or the reason against it.

A product in a loop takes its factors from a *ring* of slots in shared memory. Each slot has the
tiles of one iteration. A thread beyond the declared ones begins the copies into the slots, and the
declared threads multiply what is there.

A kernel has such a plan if tensor maps can copy what its loop loads. These are whole boxes of
arrays that are aligned, and that the kernel does not write. Otherwise the reason is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kerneldsl.contract import Specialization
from kerneldsl.contract.tensor_maps import MAP_ALIGNMENT, MAP_DTYPES, TensorMap
from kerneldsl.ir.operations import Effect, Function, Operation, Region, Value
from kerneldsl.language.kinds import ArrayKind, array_kinds
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.compile.additions import LaunchAdditions
from targets.cuda.compile.mma.mbarriers import BARRIER_BYTES
from targets.cuda.compile.mma.wgmma import (
    FORMS,
    ROW_BYTES,
    STEP_BYTES,
    WARPGROUP,
    WARPGROUP_ROWS,
    Form,
)
from targets.cuda.compile.tile_block import DEFAULT_TILE_BLOCK

__all__ = ["NotPlanned", "Part", "WarpgroupPlan", "plan_warpgroups"]

#: Shared memory that a block of sm_90 can have, and what is left for other tiles.
_SHARED_BYTES, _OTHER_BYTES = 227 * 1024, 8 * 1024
#: Dynamic shared memory begins at a multiple of it.
RING_ALIGNMENT = 1024
#: Most slots.
_MAX_SLOTS = 8
#: Most rows of a box.
_MAX_BOX = 256
#: Registers of a thread of the producer and of the others, by number of warpgroups that multiply.
#: With one, a thread has all that it can have anyway.
_REGISTERS = {1: None, 2: (40, 232), 3: (32, 160)}
#: Results of a thread that leave it registers for the rest.
_MAX_RESULTS = {1: 128, 2: 128, 3: 96}


class NotPlanned(Exception):
    """The reason why the tiles of a kernel are multiplied otherwise."""


@dataclass(frozen=True)
class Part:
    """One factor of a product in a slot of the ring.

    It is in panels, one after the other, with rows of 128 bytes. The rows are along k, or across.
    """

    #: Number of the array among the arguments, and of its map.
    array: int
    tensor_map: int
    #: Its first byte in the slot.
    start: int
    #: Rows of a panel, and panels.
    rows: int
    panels: int
    #: Elements of a row.
    row_elements: int
    #: Whether rows are across k.
    is_exchanged: bool

    @property
    def panel_bytes(self) -> int:
        """Size of a panel."""
        return self.rows * ROW_BYTES

    @property
    def nbytes(self) -> int:
        """Size of all panels."""
        return self.panels * self.panel_bytes


@dataclass(frozen=True)
class WarpgroupPlan:
    """The plan of a kernel with tiles that warpgroups multiply."""

    #: Declared warpgroups, which multiply.
    warpgroups: int
    slots: int
    #: By the load of each.
    parts: dict[Operation, Part]
    #: Instructions by the product.
    forms: dict[Operation, Form]
    #: The region with the loads and products.
    region: Region
    tensor_maps: tuple[TensorMap, ...]

    @property
    def slot_bytes(self) -> int:
        """Size of a slot."""
        return sum(part.nbytes for part in self.parts.values())

    @property
    def shared_bytes(self) -> int:
        """Size of the ring with its barriers, wherever it begins."""
        return RING_ALIGNMENT + self.slots * (self.slot_bytes + 2 * BARRIER_BYTES)

    @property
    def threads(self) -> int:
        """Declared threads."""
        return WARPGROUP * self.warpgroups

    @property
    def additions(self) -> LaunchAdditions:
        """The additions to each launch of the kernel."""
        return LaunchAdditions(self.tensor_maps, WARPGROUP)

    @property
    def registers(self) -> tuple[int, int] | None:
        """Registers of a thread of the producer and of others, if they differ."""
        return _REGISTERS[self.warpgroups]


def plan_warpgroups(function: Function, specialization: Specialization) -> WarpgroupPlan:
    """Plan the products of a kernel.

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
    forms = {each: _form(each, warpgroups) for each in products}
    region = _region_of(function, products)
    parts, maps = _parts(function, specialization, region, products)
    loop = next(each for each in function.body.walk() if region in each.regions)
    plan = WarpgroupPlan(warpgroups, 1, parts, forms, region, maps)
    most = (_SHARED_BYTES - _OTHER_BYTES - RING_ALIGNMENT) // (plan.slot_bytes + 2 * BARRIER_BYTES)
    early = loop.attributes["pipelined"]
    slots = min(most, early + 1 if early else _MAX_SLOTS)
    if slots < 2:
        raise NotPlanned(f"shared memory has no room for two slots of {plan.slot_bytes} bytes")
    return WarpgroupPlan(warpgroups, slots, parts, forms, region, maps)


def _check_others(function: Function) -> None:
    """Refuse words that would include the added threads."""
    for operation in function.body.walk():
        is_of_tile = operation.name.startswith("tile.")
        if not is_of_tile and operation.effect & (Effect.WAIT | Effect.ALLOCATE | Effect.EXCHANGE):
            raise NotPlanned(f"the kernel has {operation.name}")
        if operation.name.partition(".")[0] in ("blockDim", "grid", "gridsize"):
            raise NotPlanned(f"the kernel has {operation.name}")


def _form(product: Operation, warpgroups: int) -> Form:
    """Return the instruction of a product."""
    one, two = (str(each.type.dtype) for each in product.operands[:2])
    form = FORMS.get((one, two))
    precision = product.attributes["precision"]
    if precision == "reference":
        raise NotPlanned("the precision is that of the reference")
    if form is None or (one == "float32" and precision != "tf32"):
        raise NotPlanned(f"warpgroups do not multiply {one} by {two}")
    (rows, columns), depth = product.attributes["shape"], product.attributes["depth"]
    if rows % (WARPGROUP_ROWS * warpgroups):
        raise NotPlanned(f"{rows} rows are no multiple of {WARPGROUP_ROWS * warpgroups}")
    if not form.has_columns(columns):
        raise NotPlanned(f"there is no instruction for {columns} columns")
    if depth * form.itemsize % STEP_BYTES:
        raise NotPlanned(f"{depth} elements along k are no multiple of {form.depth}")
    a_exchanged, b_exchanged = _exchanges(product)
    if (a_exchanged or b_exchanged) and not form.may_exchange:
        raise NotPlanned("operands with columns side by side are of 16 bits")
    results = rows * columns // (WARPGROUP * warpgroups)
    if form.is_promoted and product.attributes["promote"] is not None:
        results *= 2  # sums of up to `promote` products, and of all
    if results > _MAX_RESULTS[warpgroups]:
        raise NotPlanned(f"a thread has no room for {results} results")
    return form


def _exchanges(product: Operation) -> tuple[bool, bool]:
    """Return for each factor whether its rows in memory are across k."""
    one, two = product.attributes["exchanged"]
    return one, not two


def _region_of(function: Function, products: Sequence[Operation]) -> Region:
    """Return the body of the pipelined loop that has all products."""
    found = [
        operation.regions[0]
        for operation in function.body.walk()
        if operation.name == "for" and "pipelined" in operation.attributes
    ]
    if len(found) != 1:
        raise NotPlanned(f"the kernel has {len(found)} loops over kd.pipelined")
    if any(product not in found[0].operations for product in products):
        raise NotPlanned("a product is outside the loop over kd.pipelined")
    return found[0]


def _parts(
    function: Function,
    specialization: Specialization,
    region: Region,
    products: Sequence[Operation],
) -> tuple[dict[Operation, Part], tuple[TensorMap, ...]]:
    """Return the part of each load, and the maps of all."""
    uses: dict[Value, list[Operation]] = {}
    for operation in function.body.walk():
        for value in operation.operands:
            uses.setdefault(value, []).append(operation)
    parts: dict[Operation, Part] = {}
    maps: list[TensorMap] = []
    start = 0
    for product in products:
        for factor, is_exchanged in zip(product.operands, _exchanges(product), strict=False):
            load = factor.owner
            if load in parts:
                if parts[load].is_exchanged != is_exchanged:
                    raise NotPlanned("a tile is a factor as it is, and with its axes exchanged")
                continue
            if not isinstance(load, Operation) or load not in region.operations:
                raise NotPlanned("a factor is not loaded in the loop")
            if any(each.name != "tile.mma" or factor in each.operands[2:] for each in uses[factor]):
                raise NotPlanned("a factor is read by other operations than kd.mma")
            wanted = _map_of(function, specialization, load)
            if wanted not in maps:
                maps.append(wanted)
            rows, columns = load.attributes["shape"]
            panels = columns // wanted.box[0]
            made = (rows, panels, wanted.box[0], is_exchanged)
            parts[load] = Part(wanted.array, maps.index(wanted), start, *made)
            start += parts[load].nbytes
    return parts, tuple(maps)


def _map_of(function: Function, specialization: Specialization, load: Operation) -> TensorMap:
    """Return the map by which a tile is copied."""
    if load.name != "tile.load":
        raise NotPlanned("a factor is computed")
    array, other = load.operands[:2]
    number = next((n for n, value in _arrays(function, specialization) if value is array), None)
    if number is None:
        raise NotPlanned("a factor is loaded from another array than an argument")
    kind = array.type
    itemsize = kind.dtype.bitwidth // 8
    rows, columns = load.attributes["shape"]
    if str(kind.dtype) not in MAP_DTYPES or kind.dtype != load.result.type.dtype or kind.ndim != 2:
        raise NotPlanned("a factor is converted when it is loaded, or has not two axes")
    if not _is_zero(other):
        raise NotPlanned("a factor has other elements than zeros beyond its array")
    if columns * itemsize % ROW_BYTES or rows > _MAX_BOX or rows % 8:
        raise NotPlanned(f"a tile ({rows}, {columns}) of {kind.dtype} is not of whole boxes")
    promises = specialization.promises
    unit_axis = 1 if kind.layout == "C" else promises.array(number).unit_axis
    if unit_axis != 1:
        raise NotPlanned("the rows of a factor have gaps between their elements")
    if promises.array(number).alignment % MAP_ALIGNMENT:
        raise NotPlanned("the address or the rows of a factor are no multiples of 16 bytes")
    if not promises.is_disjoint:
        raise NotPlanned("arguments overlap")
    if specialization.layout.arrays[number].position in specialization.traits.written:
        raise NotPlanned("the kernel writes an array of factors")
    return TensorMap(number, (1, 0), (ROW_BYTES // itemsize, rows), ROW_BYTES)


def _arrays(function: Function, specialization: Specialization) -> Iterator[tuple[int, Value]]:
    """Return the arguments that are arrays, with their numbers."""
    number = 0
    for value, kind in zip(function.body.arguments, specialization.kinds, strict=True):
        if isinstance(kind, ArrayKind):
            yield number, value
            number += 1
        else:
            number += sum(1 for _ in array_kinds((kind,)))


def _is_zero(value: Value) -> bool:
    """Return whether a value is the constant 0."""
    owner = value.owner
    while isinstance(owner, Operation) and owner.name == "cast":
        owner = owner.operands[0].owner
    return isinstance(owner, Operation) and owner.name == "const" and not owner.attributes["value"]
