"""Spread the tiles of a block over its threads: tile operations become a kernel without tiles.

Each thread holds its elements of a tile in a local array, which LLVM keeps in registers once the
loops over it are unrolled; :class:`~kerneldsl.lowering.tile_plan.Layout` says which they are. A
tile that is repeated along an axis, or reduced along one, lies in shared memory instead.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kerneldsl.analysis.expressions import loaded_names
from kerneldsl.analysis.hoisting import place_at
from kerneldsl.analysis.tile_shapes import Shape, is_tile_use
from kerneldsl.contract.promises import Promises
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, call, load, store
from kerneldsl.frontend.trees import copy_tree
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.language.kinds import Kind
from kerneldsl.lowering.tile_elements import element_expression
from kerneldsl.lowering.tile_folds import FOLD_OF
from kerneldsl.lowering.tile_plan import Layout, TilePlan, plan_tiles, transposed_reads
from targets.cuda.compile.fold_tiles import FoldSpreader
from targets.cuda.compile.scan_tiles import ScanSpreader
from targets.cuda.compile.sort_places import PlaceSpreader
from targets.cuda.compile.sort_tiles import SortSpreader
from targets.cuda.compile.tile_memory import MemorySpreader, plus, times
from targets.cuda.compile.tile_order import TileOrder, order_tiles
from targets.cuda.intrinsics.unroll import MAX_UNROLLED, UNROLL_NAME

__all__ = ["TileSpreader", "spread_tiles"]


def spread_tiles(
    typed: TypedUnit,
    block_dim: tuple[int, int, int],
    kinds: Sequence[Kind],
    promises: Promises,
) -> tuple[FunctionUnit, TilePlan]:
    """Return a kernel without tiles, and what its tiles were.

    Parameters
    ----------
    typed : TypedUnit
        A kernel whose tile operations are separated.
    block_dim : tuple of int
        Threads of the block along x, y and z.
    kinds : sequence of Kind
        Of its arguments.
    promises : Promises
        What holds of them.
    """
    plan = plan_tiles(typed, math.prod(block_dim))
    order = order_tiles(typed.unit, kinds, promises)
    return TileSpreader(typed.unit, plan, block_dim, order).run(), plan


class TileSpreader:
    """Rewrites the statements of one kernel."""

    def __init__(
        self,
        unit: FunctionUnit,
        plan: TilePlan,
        block_dim: tuple[int, int, int],
        order: TileOrder,
    ) -> None:
        self.unit = unit
        self.plan = plan
        self.block_dim = block_dim
        self.names = FreshNames.for_unit(unit)
        self.uses = {name: use for name, use in unit.uses.items() if not is_tile_use(use)}
        #: Statements that stand in front of all others: the declarations of arrays.
        self.head: list[ast.stmt] = []
        self.thread = self.names.make("thread")
        #: Variables that are read with their axes exchanged, to how many columns they have. Each
        #: row begins in another bank of shared memory than the one before it.
        self.padded = self._find_padded()
        #: Variables that lie in shared memory.
        self.shared = self._find_shared()
        self.order = order
        self.loop_depth = 0

    def run(self) -> FunctionUnit:
        tree = copy_tree(self.unit.tree)
        for name, tile in self.plan.variables.items():
            if name in self.shared:
                padding = tile.shape[0] if name in self.padded else 0
                self.array(name, "shared", math.prod(tile.shape) + padding, tile.dtype)
            else:
                layout = self.plan.layout(tile.shape)
                self.array(name, "local", layout.rounds * layout.group, tile.dtype)
        body = self.block(tree.body)
        head = [assign(self.thread, self._linear_thread()), *self.head]
        tree.body = [*(place_at(each, tree) for each in head), *body]
        # Parts may stand in several places by now, and passes change nodes.
        return replace(self.unit, tree=copy_tree(tree), uses=self.uses)

    def _find_padded(self) -> dict[str, int]:
        found = transposed_reads(self.unit, self.unit.tree)
        names = {each.id for each in found if isinstance(each, ast.Name)}
        return {name: self.plan.variables[name].shape[1] for name in names}

    def _find_shared(self) -> frozenset[str]:
        """Return the variables whose elements other threads than their owners read."""
        found = set(self.padded)
        for node in ast.walk(self.unit.tree):
            use = self.unit.use_of(node)
            if use is None or not is_tile_use(use) or not use.intrinsic.is_barrier:
                continue
            assert isinstance(node, ast.Call)
            shape = self.plan.shape(use.static["shape"])
            read = loaded_names(node.args) & self.plan.variables.keys()
            found |= {name for name in read if self.plan.variables[name].shape != shape}
            if use.intrinsic.name == "tile.take":
                found |= loaded_names(node.args[0])
        for node in ast.walk(self.unit.tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=target)], value=value):
                    use = self.unit.use_of(value)
                    if use is not None and is_tile_use(use) and use.static.get("axis") is not None:
                        found.add(target)
        return frozenset(found)

    # -- statements -----------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return [new for old in body for new in self.statement(old)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        """Return what one statement becomes."""
        match node:
            case ast.If():
                node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            case ast.For() | ast.While():
                self.loop_depth += 1
                node.body = self.block(node.body)
                self.loop_depth -= 1
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Call() as value):
                if is_tile_use(self.unit.use_of(value)):
                    return self._placed(self.operation(target, value), node)
            case ast.Expr(value=ast.Call() as value):
                if is_tile_use(self.unit.use_of(value)):
                    return self._placed(self.operation(None, value), node)
        return [node]

    def _placed(self, statements: list[ast.stmt], node: ast.stmt) -> list[ast.stmt]:
        return [place_at(each, node) for each in statements] or [place_at(ast.Pass(), node)]

    def operation(self, target: str | None, node: ast.Call) -> list[ast.stmt]:
        """Return the statements of one tile operation, with what waits around them."""
        assert isinstance(node.func, ast.Name)
        name, statements = node.func.id, self._operation(target, node)
        if not statements:
            return []
        before = [self.wait()] if name in self.order.before else []
        return [*before, *statements, *([self.wait()] if name in self.order.after else [])]

    def _operation(self, target: str | None, node: ast.Call) -> list[ast.stmt]:
        """Return the statements of one tile operation, whose result the target takes."""
        use = self.unit.use_of(node)
        assert use is not None
        assert isinstance(node.func, ast.Name)
        name = use.intrinsic.name.partition(".")[2]
        shape = self.plan.shape(use.static["shape"])
        dtype = self.plan.dtypes.get(node.func.id)
        if dtype is None:
            return self.plan.never_run(target)
        if name == "store":
            return MemorySpreader(self, shape).store(node, dtype)
        if target is None:
            return []
        match name:
            case "load":
                return self._write(target, MemorySpreader(self, shape).load(target, node))
            case "each":
                return self._write(target, self._each(target, node.args[0], shape))
            case "of":
                index = ast.Constant(0) if target not in self.shared else load(self.thread)
                return self._write(target, [self.set(target, index, node.args[0])])
            case "own":
                (variable,) = node.args
                assert isinstance(variable, ast.Name)
                is_shared = variable.id in self.shared
                index = load(self.thread) if is_shared else ast.Constant(0)
                return [assign(target, self.at(variable.id, index))]
        if name in FOLD_OF:
            spreader = FoldSpreader(self, FOLD_OF[name], dtype)
            return spreader.write(
                target, node.args[0], shape, use.static["axis"], is_mean=name == "mean"
            )
        if name == "sort":
            return SortSpreader(self, shape, dtype).write(target, node.args[0])
        if name == "argsort":
            return PlaceSpreader(self, shape, dtype).write(target, node.args[0])
        if name == "take":
            return self._write(target, self._take(target, node, shape))
        if name == "cumsum":
            scan = ScanSpreader(self, dtype, exclusive=use.static["exclusive"])
            return scan.write(target, node.args[0], shape, use.static["axis"])
        raise NotImplementedError(name)

    def _write(self, target: str, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Let threads wait around what writes a tile in shared memory."""
        if target not in self.shared:
            return statements
        return [self.wait(), *statements, self.wait()]

    # -- elements ---------------------------------------------------------------------------------

    def element(self, node: ast.expr, shape: Shape, index: ast.expr, slot: ast.expr) -> ast.expr:
        """Return an expression for the element with a number, which a thread has in a slot."""

        def read(name: str, at: ast.expr) -> ast.expr:
            return self.at(name, at if name in self.shared else copy_tree(slot))

        places: list[ast.expr] = [index]
        if len(shape) > 1:
            columns = ast.Constant(shape[1])
            places = [ast.BinOp(index, op, columns) for op in (ast.FloorDiv(), ast.Mod())]
        return element_expression(node, self.unit, self.plan, shape, places, read)

    def held(self, node: ast.expr, shape: Shape, dtype: str) -> str | None:
        """Return the variable of registers that an expression is, if it is one of that tile."""
        use = self.unit.use_of(node)
        if use is None or use.intrinsic.name != "tile.element":
            return None
        assert isinstance(node, ast.Call)
        (variable,) = node.args
        assert isinstance(variable, ast.Name)
        tile = self.plan.variables[variable.id]
        is_held = variable.id not in self.shared and (tile.shape, tile.dtype) == (shape, dtype)
        return variable.id if is_held else None

    def at(self, name: str, index: ast.expr) -> ast.Subscript:
        return ast.Subscript(load(name), call("kd_unsigned", self._place(name, index)), ast.Load())

    def set(self, name: str, index: ast.expr, value: ast.expr) -> ast.stmt:
        index = self._place(name, index)
        place = ast.Subscript(load(name), call("kd_unsigned", index), ast.Store())
        return ast.Assign([place], value)

    def _place(self, name: str, index: ast.expr) -> ast.expr:
        """Return where an element with a number is in an array."""
        columns = self.padded.get(name)
        if columns is None:
            return index
        return plus(index, ast.BinOp(index, ast.FloorDiv(), ast.Constant(columns)))

    def slots(self, layout: Layout, write: Any) -> list[ast.stmt]:
        """Return the loops over a thread's elements; `write(index, slot, place)` gives their body.

        `index` is the number of the element, `slot` its number among the thread's own, `place` its
        place in its group.
        """
        slot, place, index = (self.names.make(stem) for stem in ("slot", "place", "index"))
        shift = layout.group.bit_length() - 1
        turn = ast.BinOp(load(slot), ast.RShift(), ast.Constant(shift))
        number = plus(times(turn, layout.threads), load(self.thread))
        whole = plus(times(number, layout.group), load(place))
        body: list[ast.stmt] = write(load(index), load(slot), load(place))
        if not layout.is_even:
            test = ast.Compare(load(index), [ast.Lt()], [ast.Constant(layout.count)])
            body = [ast.If(test, body, [])]
        within = ast.BinOp(load(slot), ast.BitAnd(), ast.Constant(layout.group - 1))
        # One loop, not two: LLVM forgets that the outer one is to be unrolled.
        body = [assign(place, within), assign(index, whole), *body]
        return [self.unrolled(slot, layout.rounds * layout.group, body)]

    def unrolled(self, name: str, count: int, body: list[ast.stmt]) -> ast.stmt:
        """Return a loop that LLVM unrolls in full, unless it has too many turns."""
        if count <= MAX_UNROLLED:
            body = [*body, ast.Expr(call(UNROLL_NAME))]
        return ast.For(store(name), call("kd_range", ast.Constant(count)), body, [])

    def _each(self, target: str, node: ast.expr, shape: Shape) -> list[ast.stmt]:
        def write(index: ast.expr, slot: ast.expr, place: ast.expr) -> list[ast.stmt]:
            where = index if target in self.shared else slot
            return [self.set(target, where, self.element(node, shape, index, slot))]

        return self.slots(self.plan.layout(shape), write)

    def _take(self, target: str, node: ast.Call, shape: Shape) -> list[ast.stmt]:
        """Give the target elements of a tile in shared memory by their places in its rows."""
        variable, places = node.args
        assert isinstance(variable, ast.Name)
        extent = self.plan.variables[variable.id].shape[-1]

        def write(index: ast.expr, slot: ast.expr, place: ast.expr) -> list[ast.stmt]:
            wanted = call("kd_place", self.element(places, shape, index, slot))
            near = call("kd_max", ast.Constant(0), wanted)
            column: ast.expr = call("kd_min", near, ast.Constant(extent - 1))
            if len(shape) > 1:
                row = ast.BinOp(index, ast.FloorDiv(), ast.Constant(shape[1]))
                column = plus(times(row, extent), column)
            where = index if target in self.shared else slot
            return [self.set(target, where, self.at(variable.id, column))]

        return self.slots(self.plan.layout(shape), write)

    # -- declarations -----------------------------------------------------------------------------

    def array(self, name: str, space: str, count: int, dtype: str) -> None:
        """Declare an array in front of all statements."""
        static = {"shape": (count,), "dtype": dtype}
        self.head.append(assign(name, self.use(f"{space}.array", **static)))

    def use(self, name: str, *arguments: ast.expr, **static: Any) -> ast.Call:
        """Return a call of an intrinsic."""
        intrinsic = INTRINSICS[name]
        reserved = self.names.make(intrinsic.symbol)
        self.uses[reserved] = IntrinsicUse(intrinsic, static)
        return call(reserved, *arguments)

    def wait(self) -> ast.stmt:
        return ast.Expr(self.use("syncthreads"))

    def _linear_thread(self) -> ast.expr:
        width, height, depth = self.block_dim
        index: ast.expr = self.use("threadIdx.x")
        if height > 1 or depth > 1:
            row: ast.expr = self.use("threadIdx.y")
            if depth > 1:
                row = plus(times(self.use("threadIdx.z"), height), row)
            index = plus(times(row, width), index)
        return index
