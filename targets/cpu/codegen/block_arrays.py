"""The arrays of a block: what kernels declare, and what threads exchange values through.

Each is a view of the block's storage, which a variable of the generated code holds.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import field
from typing import Any, NamedTuple

from kerneldsl.analysis.aliases import Root, is_own, root_of_array
from kerneldsl.analysis.effects import Accesses
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, call, load
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.element_types import DTYPE_NAMES
from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.codegen.storage import DYNAMIC, SCRATCH, StaticArray, Storage
from targets.cpu.intrinsics.table import Exchange, lowering_of
from targets.cpu.intrinsics.warp import WINDOW_WARPS
from targets.cpu.passes.array_variables import CallReplacement, take_only_variable
from targets.cpu.passes.exchanges import ExchangeBuffer
from targets.cpu.passes.ids import WARP_SIZE, BlockSpace, Space, WarpSpace
from targets.cpu.passes.spread_arrays import SpreadElements, spread_use

__all__ = ["BlockArrays"]


class _BlockArray(NamedTuple):
    """A shared array, or every thread's own local array, in the storage of a block."""

    #: Reserved name of the call that declares it.
    declaration: str
    #: Name of the operation that makes it.
    maker: str
    #: What is made.
    array: StaticArray
    #: Bytes from the start of scratch memory; ``None`` on the stack.
    offset: int | None
    #: Whether it has an element for each thread that runs together with others.
    is_spread: bool = False
    #: Whether generated code has its address alone.
    is_words: bool = False


@dataclass
class BlockArrays:
    """Places the arrays of one kernel's blocks."""

    unit: FunctionUnit
    space: Space
    names: FreshNames
    storage: Storage
    #: Of the generated code, which is given the operations that make arrays.
    namespace: dict[str, Any]
    #: Variables of the generated code that hold the arrays of a block.
    placed: dict[str, _BlockArray] = field(default_factory=dict)
    #: Variables that hold a thread's own array; threads use its memory one after the other.
    of_threads: set[str] = field(default_factory=set)

    def place_declared(self, tree: ast.FunctionDef, spread: Collection[str]) -> None:
        """Decide where shared and local arrays live; rewrite their calls in place.

        `spread` are calls that declare local arrays which are to have the elements of neighbouring
        threads side by side, as far as that can be. Which of them do, :attr:`spread` says.
        """
        cuts = any(use.intrinsic.is_barrier for use in self.unit.uses.values())
        replaced: dict[str, ast.expr] = {}
        for name, use in self.unit.uses.items():
            effect = use.intrinsic.effect
            if not effect & (Effect.ALLOCATE_SHARED | Effect.ALLOCATE_LOCAL):
                continue
            is_local = bool(effect & Effect.ALLOCATE_LOCAL)
            whole = spread_use(use, self.space) if name in spread else None
            if whole is not None and (variable := take_only_variable(tree, name)):
                array = StaticArray(whole, self.unit.locate_use(name))
                offset = self.storage.place_array(array)
                maker = self.names.make(f"make_{variable}")
                self.placed[variable] = _BlockArray(name, maker, array, offset, is_spread=True)
                continue
            copies = self.space.threads if is_local and cuts else 1
            array = StaticArray(use, self.unit.locate_use(name), copies)
            offset = self.storage.place_array(array)
            variable = take_only_variable(tree, name) if not (is_local and cuts) else None
            storage = variable or self.names.make("storage")
            self.placed[storage] = _BlockArray(
                name, self.names.make(f"make_{storage}"), array, offset
            )
            if is_local and cuts:
                assert isinstance(self.space, BlockSpace)
                index = self.space.position()
                replaced[name] = call("kd_view", load(storage), index)
            elif variable is None:
                replaced[name] = load(storage)
        CallReplacement(replaced).visit(tree)
        SpreadElements(self.spread, self.space).visit(tree)

    @property
    def spread(self) -> frozenset[str]:
        """Variables that hold an array with an element for each of the threads."""
        return frozenset(name for name, each in self.placed.items() if each.is_spread)

    def find_holders(self, tree: ast.FunctionDef) -> None:
        """Find the other variables through which a tree comes to a thread's own array.

        They hold the array too, or a view of it; a record in it is one.
        """
        placed = {
            root: self.placed[name].array
            for name, root in self.roots().items()
            if not self.placed[name].is_spread
        }
        own = {root: each for root, each in placed.items() if is_own(root) and each.copies == 1}
        if not own:
            return
        of_numbers = {root for root, each in own.items() if each.use.static["dtype"] in DTYPE_NAMES}
        accesses = Accesses(self.unit.with_tree(tree), self.roots())
        for node in walk_here(tree):
            if isinstance(node, ast.Name):
                found = accesses.views(node) | (accesses.roots(node) - of_numbers)
                if found & own.keys():
                    self.of_threads.add(node.id)

    def place_rooms(self, count: int) -> tuple[ExchangeBuffer, ...]:
        """Reserve what threads exchange values through, if they do, so many times."""
        lowerings = {name: lowering_of(use.intrinsic) for name, use in self.unit.uses.items()}
        exchanging = {name: way for name, way in lowerings.items() if isinstance(way, Exchange)}
        if not exchanging:
            return ()
        assert isinstance(self.space, BlockSpace)
        threads = self.space.threads
        where = self.unit.locate_use(next(iter(exchanging)))
        warps = -(-threads // WARP_SIZE)
        is_warp = isinstance(self.space, WarpSpace)
        most = max(exchange.words for exchange in exchanging.values())
        if is_warp and any(exchange.has_window for exchange in exchanging.values()):
            most = max(most, WINDOW_WARPS)
        values = warps * WARP_SIZE * most
        rooms = []
        for _ in range(count):
            variables = []
            for stem, words in (("values", values), ("lanes", warps)):
                static = {"shape": (words,), "dtype": "int64"}
                array = StaticArray(IntrinsicUse(INTRINSICS["shared.array"], static), where)
                name = self.names.make(stem)
                maker = self.names.make(f"make_{stem}")
                offset = self.storage.place_array(array)
                self.placed[name] = _BlockArray(name, maker, array, offset, is_words=True)
                variables.append(name)
            values_name, lanes_name = variables
            rooms.append(
                ExchangeBuffer(values_name, lanes_name, self.space.position(), threads, is_warp)
            )
        return tuple(rooms)

    def roots(self) -> dict[str, Root]:
        """Return variables that hold arrays, to the memory that the kernel declares for them."""
        return {
            variable: root_of_array(each.declaration, each.array.use)
            for variable, each in self.placed.items()
        }

    def shared(self) -> dict[str, tuple[str, int]]:
        """Return the variables that hold shared arrays of constant shape, with dtype and rank."""
        return {
            name: (each.array.use.static["dtype"], len(each.array.use.static["shape"]))
            for name, each in self.placed.items()
            if each.array.use.intrinsic.effect & Effect.ALLOCATE_SHARED
            and each.array.use.static["shape"] != (0,)
        }

    def dynamic(self) -> set[str]:
        """Return the variables that hold the whole of the dynamic shared memory."""
        return {
            name for name, each in self.placed.items() if each.array.use.static["shape"] == (0,)
        }

    def statements(self) -> list[ast.stmt]:
        """Return the statements that make the arrays of the block's storage."""
        from targets.cpu.intrinsics.memory import array_maker, words_maker

        statements: list[ast.stmt] = []
        for storage, (_, maker, array, placed, _, is_words) in self.placed.items():
            dtype, shape = array.use.static["dtype"], array.use.static["shape"]
            # What the launch adds is after everything that has been placed by now.
            offset = self.storage.scratch_bytes if shape == (0,) else placed
            self.namespace[maker] = (
                words_maker(*shape, offset)
                if is_words
                else array_maker(dtype, shape, array.copies, offset)
            )
            statements.append(assign(storage, call(maker, load(SCRATCH), load(DYNAMIC))))
        return statements
