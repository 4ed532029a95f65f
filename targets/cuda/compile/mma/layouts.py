"""Layouts of the tiles of a kernel: linear, or as fragments of the warps.

The result of a product is in fragments, and so are the tiles that elementwise operations, branches
and loops connect with it. What a fold of fragments along axis 1 gives has one element for each row.
An operation that cannot work on fragments reads them in shared memory.

A tile that is loaded, and that products alone read, has no registers. It is a factor in shared
memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from kerneldsl.ir.operations import CONTROL, Function, Operation, Value, handed_on
from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.ir.tiles.live_ranges import is_tile
from kerneldsl.ir.tiles.placement import Layouts
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.architectures import NEWEST_PTX, Architecture
from targets.cuda.compile.mma.fragments import Fragments, RowFragments, divisions
from targets.cuda.compile.mma.instructions import Form, Step, find_step
from targets.cuda.compile.mma.operands import Operand

__all__ = ["Product", "TileLayouts"]

_Layout: TypeAlias = Fragments | RowFragments | None
_Fit: TypeAlias = tuple[Step, Operand, Operand]
#: Bytes of the elements of tiles that are copied and read by pairs.
_WORD = 4


@dataclass(frozen=True)
class Product:
    """The way in which a product is computed."""

    step: Step
    fragments: Fragments
    #: The factors in shared memory.
    a: Operand
    b: Operand
    #: Steps along k after which sums are added to the accumulators, 0 if each step adds to them.
    promoted: int = 0

    @property
    def factors(self) -> tuple[Operand, Operand]:
        """Both factors."""
        return self.a, self.b


class TileLayouts(Layouts):
    """Layouts of the tiles and operations of one function.

    Parameters
    ----------
    function : Function
        With its tiles as values.
    threads : int
        Threads of the block.
    arch : Architecture, optional
        The architecture. Without it, products have no instruction.
    """

    def __init__(
        self,
        function: Function,
        threads: int,
        arch: Architecture | None = None,
        *,
        by_warpgroups: bool = False,
    ) -> None:
        self._threads = threads
        self._by_warpgroups = by_warpgroups
        self._arch = arch
        operations = list(function.body.walk())
        products = [each for each in operations if each.name == "tile.mma"]
        #: Reasons why products have no instruction.
        self.reasons: dict[Operation, str] = {}
        fits = {} if arch is None else self._fits(products)
        self._parents: dict[Value, Value] = {}
        for each in operations:
            for one, two in self._connected(each, fits):
                self._unite(one, two)
        self._computed = self._find_computed(fits)
        self._products = self._plan(fits, operations)
        self._layouts: dict[Value, set[_Layout]] = {}
        for operation, product in self._products.items():
            self._add(operation.result, product.fragments)
            if operation in self._computed and product.fragments.column_warps == 1:
                shape = (product.a.extent, product.a.depth)
                own = Fragments(*shape, product.fragments.row_warps, 1)
                self._add(_first_factor(operation), own)
        for each in operations:
            if _folds_rows(each):
                found = self.of_operation(each)
                if isinstance(found, Fragments):
                    self._add(each.result, found.of_rows())
        self._factors = dict(self._find_factors(operations))
        self._staged = dict(self._find_staged(operations))
        for value, layout in list(self._find_rows(operations)):
            self._add(value, layout)

    # -- what is found ----------------------------------------------------------------------------

    def product(self, operation: Operation) -> Product | None:
        """Return how a product is computed, ``None`` if by no instruction."""
        return self._products.get(operation)

    def products(self) -> Iterable[Product]:
        """Return how all products with an instruction are computed."""
        return self._products.values()

    def factor(self, load: Operation) -> Operand | None:
        """Return the factor that an operation loads, ``None`` if its tile is more than that."""
        return self._factors.get(load)

    def copied(self, load: Operation) -> Operand | None:
        """Return what an operation loads by copies to shared memory: a factor, or its numbers."""
        return self._factors.get(load) or self._staged.get(load)

    def is_staged(self, load: Operation) -> bool:
        """Return whether a factor is computed from what an operation loads, and from it alone.

        A pipelined loop can copy it to shared memory early. A thread reads its elements there.
        """
        return load in self._staged

    def is_factor(self, value: Value) -> bool:
        """Return whether a tile is a factor in shared memory."""
        return value.owner in self._factors

    def has_own_rows(self, operation: Operation) -> bool:
        """Return whether each thread has its elements of a product's first factor in registers."""
        product, value = self._products[operation], operation.operands[0]
        found, wanted = self.of_tile(value), product.fragments
        return (
            isinstance(found, Fragments)
            and product.a.itemsize == 2
            and not operation.attributes["exchanged"][0]
            and found.column_warps == wanted.column_warps == 1
            and found.row_warps == wanted.row_warps
        )

    def is_of_loads(self, operation: Operation) -> bool:
        """Return whether a product's first factor is computed, and not from products."""
        return operation in self._computed

    def of_tile(self, value: Value) -> _Layout:
        """Return the layout of a tile's registers, ``None`` if it is linear."""
        found = self._layouts.get(self._root(value), ())
        return next(iter(found)) if len(found) == 1 else None

    def of_operation(self, operation: Operation) -> _Layout:
        """Return the layout in which an operation has its elements, ``None`` if it is linear."""
        match operation.name:
            case "tile.mma":
                product = self._products.get(operation)
                return None if product is None else product.fragments
            case "tile.load" | "tile.map":
                return None if operation in self._factors else self.of_tile(operation.result)
            case "tile.store" | "tile.fold" | "tile.words":
                return self._of_elements(operation)
        return None

    def _of_elements(self, operation: Operation) -> _Layout:
        if operation.name == "tile.fold" and operation.attributes["axis"] == 0:
            return None
        for tile in _own_tiles(operation):
            found = self.of_tile(tile)
            is_repeated = isinstance(found, RowFragments) and operation.name == "tile.fold"
            if found is not None and not is_repeated:
                return found
        return None

    def has_instruction(self, operation: Operation) -> bool:
        """Return whether a product is computed by an instruction."""
        return operation in self._products

    def is_row(self, operation: Operation, value: Value) -> bool:
        """Return whether an operation on fragments has a tile of one element for each row."""
        layout = self.of_operation(operation)
        return isinstance(layout, Fragments) and self.of_tile(value) == layout.of_rows()

    def crossed(self, operation: Operation) -> Iterator[Value]:
        """Return the tiles that an operation reads or writes in another layout than its own."""
        layout, name = self.of_operation(operation), operation.name
        if name in (*CONTROL, "yield", "leave") or operation in self._factors:
            return
        own = operation.operands[2:] if name == "tile.mma" else list(_own_tiles(operation))
        for value in (*own, *(filter(is_tile, operation.results))):
            if self.of_tile(value) != layout and not self.is_row(operation, value):
                yield value
        others = operation.operands[:2] if name == "tile.mma" else operation.operands
        for value in filter(is_tile, others):
            is_read_as_is = value in own or self.is_row(operation, value)
            if self.of_tile(value) is not None and name != "tile.mma" and not is_read_as_is:
                yield value

    # -- products ---------------------------------------------------------------------------------

    def _fits(self, products: Sequence[Operation]) -> dict[Operation, _Fit]:
        """Return the steps and factors of the products that have an instruction."""
        found: dict[Operation, _Fit] = {}
        for each in products:
            fit = self._fit(each)
            if isinstance(fit, str):
                self.reasons[each] = fit
            else:
                found[each] = fit
        return found

    def _find_computed(self, fits: Mapping[Operation, _Fit]) -> set[Operation]:
        """Return products with a first factor that is computed, and not from products.

        A thread can have its elements in registers, where the instruction reads them.
        """
        made = {self._root(each.result) for each in fits}
        found = set()
        for operation, (_, a, _) in fits.items():
            factor = _first_factor(operation)
            owner = factor.owner
            is_map = isinstance(owner, Operation) and owner.name == "tile.map"
            is_as_it_is = a.itemsize == 2 and not operation.attributes["exchanged"][0]
            if is_map and is_as_it_is and self._root(factor) not in made:
                found.add(operation)
        return found

    def _plan(
        self, fits: Mapping[Operation, _Fit], operations: Sequence[Operation]
    ) -> dict[Operation, Product]:
        shapes = {each: each.attributes["shape"] for each in fits}
        has_rows = any(map(_folds_rows, operations))
        common = self._common_row_warps(set(shapes.values())) if has_rows else None
        if self._by_warpgroups:
            common = self._threads // WARP_SIZE
        made = {}
        for each, (step, a, b) in fits.items():
            rows, columns = shapes[each]
            ways = divisions(rows, columns, self._threads)
            wanted = self._threads // WARP_SIZE if each in self._computed else common
            chosen = next((way for way in ways if way.row_warps == wanted), ways[0])
            made[each] = Product(step, chosen, a, b, self._promoted(each, step))
        return made

    def _form(self, step: Step) -> Form:
        assert self._arch is not None
        form = step.form(self._arch, NEWEST_PTX)
        assert form is not None
        return form

    def instructions(self) -> Iterator[tuple[Operation, str, int]]:
        """Return each product with an instruction, the instruction, and the sums of a thread."""
        for operation, product in self._products.items():
            yield operation, self._form(product.step).instruction, product.fragments.slot_count

    def _promoted(self, product: Operation, step: Step) -> int:
        """Return how many steps are added before their sum is added as float32, 0 for all."""
        assert self._arch is not None
        promote, form = product.attributes["promote"], self._form(step)
        return max(1, promote // step.depth) if promote and form.has_narrow_sums(self._arch) else 0

    def _common_row_warps(self, shapes: set[tuple[int, int]]) -> int | None:
        """Return the most warps along the rows that all products can have.

        So rows are in as few threads as possible, and in the same threads for all products.
        """
        sets = [{way.row_warps for way in divisions(*each, self._threads)} for each in shapes]
        return max(set.intersection(*sets), default=None) if sets else None

    def _fit(self, product: Operation) -> _Fit | str:
        """Return the step and the factors of a product, or why it has none."""
        attributes, one, two = product.attributes, *(v.type for v in product.operands[:2])
        dtypes = str(one.dtype), str(two.dtype)
        step = find_step(*dtypes)
        if step is None:
            return f"tensor cores multiply no {' and '.join(dict.fromkeys(dtypes))}"
        assert self._arch is not None
        if step.form(self._arch, NEWEST_PTX) is None:
            return f"{self._arch.name} multiplies no {' and '.join(dict.fromkeys(dtypes))}"
        precision = attributes["precision"]
        if precision == "reference" or (dtypes[0] == "float32" and precision != "tf32"):
            return f"precision is {precision!r}"
        if attributes["depth"] % step.depth:
            return f"the extent along k is no multiple of {step.depth}"
        rows, columns = attributes["shape"]
        if not divisions(rows, columns, self._threads):
            return (
                f"{self._threads} threads do not divide a tile of {rows} by {columns} into parts "
                "of 16 by 8 for each warp"
            )
        size = ELEMENT_TYPES[dtypes[0]].nbytes
        exchanged = attributes["exchanged"]
        a = _operand(rows, attributes["depth"], size, is_along_k=not exchanged[0])
        b = _operand(columns, attributes["depth"], size, is_along_k=exchanged[1])
        return step, a, b

    def _find_factors(self, operations: Sequence[Operation]) -> Iterator[tuple[Operation, Operand]]:
        uses: Counter[Value] = Counter()
        factors: dict[Value, set[Operand]] = {}
        for each in operations:
            uses.update(each.operands)
            product = self._products.get(each)
            if product is not None:
                for value, operand in zip(each.operands[:2], product.factors, strict=True):
                    factors.setdefault(value, set()).add(operand)
        count: Counter[Value] = Counter()
        for each in self._products:
            count.update(each.operands[:2])
        for value, operands in factors.items():
            load = value.owner
            if not isinstance(load, Operation) or load.name != "tile.load":
                continue
            is_as_stored = load.operands[0].type.dtype == value.type.dtype
            if (
                len({each.memory for each in operands}) == 1
                and uses[value] == count[value]
                and is_as_stored
            ):
                yield load, next(iter(operands))

    def _find_staged(self, operations: Sequence[Operation]) -> Iterator[tuple[Operation, Operand]]:
        readers: dict[Value, list[Operation]] = {}
        for each in operations:
            for value in each.operands:
                readers.setdefault(value, []).append(each)
        made = {product.operands[0].owner for product in self._computed}
        for load in operations:
            if load.name != "tile.load" or load in self._factors:
                continue
            value = load.result
            size = getattr(value.type.dtype, "bitwidth", 0) // 8
            is_plain = size == _WORD and load.operands[0].type.dtype == value.type.dtype
            uses = readers.get(value, [])
            if is_plain and isinstance(self.of_tile(value), Fragments) and made.issuperset(uses):
                rows, columns = value.type.shape
                yield load, Operand(rows, columns, size, is_along_k=True)

    def _find_rows(self, operations: Sequence[Operation]) -> Iterator[tuple[Value, RowFragments]]:
        """Return loaded tiles of one column that operations on fragments alone read, as they are.

        Each thread loads the elements of its rows.
        """
        wanted: dict[Value, set[_Layout]] = {}
        loaded: dict[Value, Value] = {}
        for each in operations:
            if each.name == "tile.load" and _is_column(each.result):
                loaded[self._root(each.result)] = each.result
            for value in filter(_is_column, each.operands):
                found = wanted.setdefault(self._root(value), set())
                if each.name in (*CONTROL, "yield", "leave"):
                    continue  # which hand it on
                if each.name != "tile.map" or self._root(each.result) != self._root(value):
                    found.add(self._of_rows(each, value))
        for root, value in loaded.items():
            layouts = wanted.get(root, set())
            layout = next(iter(layouts)) if len(layouts) == 1 else None
            if root not in self._layouts and isinstance(layout, RowFragments):
                yield value, layout

    def _of_rows(self, operation: Operation, value: Value) -> _Layout:
        """Return the layout of the rows of an operation on fragments that reads a tile of them."""
        layout, attributes = self.of_operation(operation), operation.attributes
        if not isinstance(layout, Fragments) or "transposed" not in attributes:
            return None
        if attributes["shape"][0] != value.type.shape[0]:
            return None
        tiles = operation.operands[attributes["first"] :]
        uses = zip(tiles, attributes["transposed"], strict=True)
        is_as_it_is = all(not turned for tile, turned in uses if tile is value)
        return layout.of_rows() if is_as_it_is and value in tiles else None

    # -- tiles of one layout ----------------------------------------------------------------------

    def _root(self, value: Value) -> Value:
        while value in self._parents:
            value = self._parents[value]
        return value

    def _unite(self, one: Value, two: Value) -> None:
        one, two = self._root(one), self._root(two)
        if one is not two:
            self._parents[two] = one

    def _add(self, value: Value, layout: _Layout) -> None:
        self._layouts.setdefault(self._root(value), set()).add(layout)

    def _connected(
        self, operation: Operation, fits: Collection[Operation]
    ) -> Iterator[tuple[Value, Value]]:
        """Return pairs of tiles that have one layout."""
        if operation.name in CONTROL:
            for (result, *arguments), sources in handed_on(operation):
                for value in filter(is_tile, (*sources, *arguments)):
                    yield value, result
        elif operation.name == "tile.map":
            for tile in _own_tiles(operation):
                yield tile, operation.result
        elif operation in fits:
            for tile in operation.operands[2:]:
                yield tile, operation.result


def _operand(extent: int, depth: int, size: int, *, is_along_k: bool) -> Operand:
    found = Operand(extent, depth, size, is_along_k)
    if found.is_loadable:
        return found
    return Operand(extent, depth, size, is_along_k=True, is_turned=True)


def _first_factor(product: Operation) -> Value:
    """Return the first factor of a product, also if it was made registers of words."""
    value: Value = product.operands[0]
    while isinstance(value.owner, Operation) and value.owner.name in ("tile.part", "tile.words"):
        if not value.owner.operands:
            break
        value = value.owner.operands[0]
    return value


def _own_tiles(operation: Operation) -> Iterator[Value]:
    """Return the tiles of an expression that are read at the index of each element."""
    attributes: dict[str, Any] = operation.attributes
    if "transposed" in attributes:
        tiles = operation.operands[attributes["first"] :]
        for tile, is_transposed in zip(tiles, attributes["transposed"], strict=True):
            if not is_transposed and tile.type.shape == attributes["shape"]:
                yield tile


def _is_column(value: Value) -> bool:
    shape: tuple[int, ...] = value.type.shape if is_tile(value) else ()
    return len(shape) == 2 and shape[0] > 1 and shape[1] == 1


def _folds_rows(operation: Operation) -> bool:
    return operation.name == "tile.fold" and operation.attributes["axis"] == 1
