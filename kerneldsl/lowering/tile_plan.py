"""The types of a kernel's tiles, and the order in which their elements are combined.

Element ``i`` of a tile of ``n`` elements, counted along its last axis first, belongs to a thread of
the block: threads take groups of :attr:`Layout.group` neighbours in turn. Each thread combines its
elements place by place of the group, the places in a binary tree in which neighbours meet first,
and threads meet as in ``kd.block.sum``. Every target keeps that order, so sums have the same bits
wherever elements have.

Sums up to each element are made in *segments*: what the threads of a warp take at a time. In a
segment each thread adds its neighbours one after the other, and what it has then meets that of the
others as in ``kd.warp.inclusive_scan``. An element's sum is what all segments before its own sum up
to, one after the other, plus what the threads before its own do, plus that of its thread. Along
axis 1 a segment is as many neighbours of a row as a warp has lanes; along axis 0 rows are added
one after the other.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Set

from kerneldsl.analysis.tile_shapes import OF_BLOCK, Shape, broadcast, is_tile_use
from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.syntax import assign
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import ArrayKind, ScalarKind
from kerneldsl.language.types import TileType
from kerneldsl.lowering.tile_folds import FOLD_OF
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Layout", "TilePlan", "plan_tiles", "transposed_reads"]

#: Most neighbours that one thread takes at a time: 16 bytes of float32.
_MAX_GROUP = 4


@dataclass(frozen=True)
class Layout:
    """Ownership of a tile's elements by the threads of a block.

    Parameters
    ----------
    count : int
        Elements of the tile.
    threads : int
        Threads of the block.
    """

    count: int
    threads: int

    @property
    def group(self) -> int:
        """Neighbours that a thread takes at a time."""
        sizes = (_MAX_GROUP, _MAX_GROUP // 2)
        return next((n for n in sizes if self.count % (n * self.threads) == 0), 1)

    @property
    def places(self) -> int:
        """Elements that the block takes at a time."""
        return self.threads * self.group

    @property
    def rounds(self) -> int:
        """Times that it does so; in the last one not all threads may have an element."""
        return -(-self.count // self.places)

    @property
    def is_even(self) -> bool:
        """True if every thread has as many elements."""
        return self.count % self.places == 0


@dataclass(frozen=True)
class TilePlan:
    """Types of one kernel's tiles, for a block."""

    #: Threads of the block.
    threads: int
    #: Variables that hold tiles.
    variables: Mapping[str, TileType]
    #: Reserved name of a tile operation to the dtype of its result, or of the result's elements, of
    #: a store to that of its array, of an argsort to that of what it sorts; an operation that is
    #: never run is not there.
    dtypes: Mapping[str, str]
    #: Reserved names of loads of packed numbers.
    packed: Set[str]
    #: Elements of each tile of one axis that is loaded or stored, to their layout.
    moved: Mapping[int, Layout]
    #: Combination and number of elements of each reduction of a whole tile.
    folded: Set[tuple[str, int]]

    @property
    def all_dtypes(self) -> frozenset[str]:
        """Every dtype that a tile or a result has."""
        return frozenset((*self.dtypes.values(), *(t.dtype for t in self.variables.values())))

    def shape(self, shape: Shape) -> Shape:
        """Return a shape in which the block's size is a number."""
        return (self.threads,) if shape == OF_BLOCK else shape

    def layout(self, shape: Shape) -> Layout:
        """Return how the elements of a tile belong to threads."""
        return Layout(math.prod(self.shape(shape)), self.threads)

    def never_run(self, target: str | None) -> list[ast.stmt]:
        """Return what an operation becomes that no thread runs.

        Numba wants the variable of its result to be assigned, since it prunes later.
        """
        if target is None or target in self.variables:
            return []
        return [assign(target, ast.Constant(0))]


def plan_tiles(typed: TypedUnit, threads: int) -> TilePlan:
    """Collect the types of tiles.

    Parameters
    ----------
    typed : TypedUnit
        A kernel whose tile operations are separated.
    threads : int
        Threads of the block.

    Raises
    ------
    UnsupportedConstructError
        Where a variable holds tiles of several dtypes, or a tile with an element for each thread
        does not fit the block.
    """
    unit = typed.unit
    variables: dict[str, TileType] = {}
    for name, found in typed.variables.items():
        tiles = list(dict.fromkeys(each for each in found if isinstance(each, TileType)))
        if not tiles:
            continue
        if len(found) > 1:
            raise UnsupportedConstructError(
                f"{unit.spellings.get(name, name)} holds {' and '.join(map(str, found))}",
                where=unit.locate(_first_store(unit.tree, name)),
                limit="A variable that holds a tile holds tiles of one dtype",
                remedy="Give each of them its own variable, or convert: t.astype(kd.float32)",
            )
        (tile,) = tiles
        shape = (threads,) if tile.shape == OF_BLOCK else tile.shape
        variables[name] = TileType(shape, tile.dtype)
    dtypes: dict[str, str] = {}
    packed: set[str] = set()
    moved: dict[int, Layout] = {}
    folded: set[tuple[str, int]] = set()
    plan = TilePlan(threads, variables, dtypes, packed, moved, folded)
    for node in walk_here(unit.tree):
        use = unit.use_of(node)
        if use is None or not is_tile_use(use):
            continue
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        is_store = use.intrinsic.name == "tile.store"
        is_argsort = use.intrinsic.name == "tile.argsort"
        match typed.type_of(node.args[0] if is_store or is_argsort else node):
            case TileType(dtype=dtype) | ScalarKind(dtype=dtype) | ArrayKind(dtype=dtype):
                dtypes[node.func.id] = dtype
        name, shape = use.intrinsic.name.partition(".")[2], use.static.get("shape", ())
        if name == "load" and not isinstance(typed.type_of(node.args[0]), ArrayKind):
            packed.add(node.func.id)
        elif name in ("load", "store") and len(shape) == 1:
            layout = plan.layout(shape)
            moved[layout.count] = layout
        if name in FOLD_OF and (use.static["axis"] is None or len(shape) == 1):
            folded.add((FOLD_OF[name], plan.layout(shape).count))
        if use.intrinsic.is_barrier:
            _check_fit(typed, node, plan)
    return plan


def _check_fit(typed: TypedUnit, node: ast.Call, plan: TilePlan) -> None:
    """Refuse tiles that have an element for each thread and others of another extent together."""
    unit = typed.unit
    use = unit.use_of(node)
    assert use is not None
    shapes = [plan.shape(use.static["shape"])]
    transposed = transposed_reads(unit, node)
    # Of what is taken from, one element or another is read.
    fitting = node.args[1:] if use.intrinsic.name == "tile.take" else [node]
    for inner in walk_here(fitting):
        if isinstance(inner, ast.Name) and inner.id in plan.variables:
            shape = plan.variables[inner.id].shape
            shapes.append(shape[::-1] if inner in transposed else shape)
    name = use.intrinsic.name
    try:
        fits = broadcast(*shapes) == shapes[0] and (name != "tile.own" or shapes[0] == shapes[-1])
        fits = fits and (name != "tile.own" or shapes[0] == (plan.threads,))
    except ValueError:
        fits = False
    if not fits:
        raise UnsupportedConstructError(
            f"tiles of shapes {' and '.join(map(str, dict.fromkeys(shapes)))} meet in a block of "
            f"{plan.threads} threads",
            where=unit.locate(node),
            value=shapes,
            limit="kd.tile.of(…) and t.own take a tile with one element for each thread",
            remedy="Launch blocks of as many threads as the tile has elements",
        )


def transposed_reads(unit: FunctionUnit, node: ast.AST) -> set[ast.AST]:
    """Return the names in an expression of variables whose axes are exchanged there."""
    found: set[ast.AST] = set()
    for inner in walk_here(node):
        use = unit.use_of(inner)
        if use is not None and is_tile_use(use) and use.static.get("transposed"):
            assert isinstance(inner, ast.Call)
            found.add(inner.args[0])
    return found


def _first_store(tree: ast.AST, name: str) -> ast.AST:
    stores = (
        node
        for node in walk_here(tree)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    )
    return next(stores, tree)
