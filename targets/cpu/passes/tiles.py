"""Take tile operations apart into loops over elements that run once for a block.

A variable that holds a tile is an array of one axis in the storage of the block. What an
expression says of one element is the body of a loop over all of them, which LLVM vectorizes.
"""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

from kerneldsl.analysis.tile_shapes import Shape
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, call, load, store
from kerneldsl.frontend.trees import Transformer, copy_tree
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.lowering.tile_elements import element_expression
from kerneldsl.lowering.tile_folds import FOLD_OF
from kerneldsl.lowering.tile_plan import TilePlan
from targets.cpu.passes.statements import sum_of
from targets.cpu.passes.tile_folds import FoldWriter
from targets.cpu.passes.tile_scans import ScanWriter
from targets.cpu.passes.tile_sorts import SortWriter

__all__ = ["TileWriter"]


class TileWriter:
    """Writes the statements of one kernel's tile operations.

    Parameters
    ----------
    unit : FunctionUnit
        The kernel.
    plan : TilePlan
        Types of its tiles.
    names : FreshNames
        For the variables that are added.
    thread : ast.expr
        A thread's index in its block.
    whole : dict
        Reserved name of each store whose elements are all computed before one is written, to the
        parameters that are read then: where what is written is other memory, none need wait.
        ``None`` stands for memory that has no such name.
    """

    def __init__(
        self,
        unit: FunctionUnit,
        plan: TilePlan,
        names: FreshNames,
        thread: ast.expr,
        whole: Mapping[str, frozenset[str] | None],
    ) -> None:
        self.unit = unit
        self.plan = plan
        self.names = names
        self.thread = thread
        self.whole = whole
        #: Arrays that are needed beside the variables: name to number of elements and dtype.
        self.buffers: dict[str, tuple[int, str]] = {}

    def of_thread(self, target: str | None, node: ast.Call) -> ast.stmt | None:
        """Return what each thread does for itself; ``None`` for what the block does."""
        use = self.unit.use_of(node)
        assert use is not None
        assert isinstance(node.func, ast.Name)
        if node.func.id not in self.plan.dtypes:
            return None
        if use.intrinsic.name == "tile.of" and target is not None:
            return self.set(target, copy_tree(self.thread), node.args[0])
        if use.intrinsic.name == "tile.own" and target is not None:
            (variable,) = node.args
            assert isinstance(variable, ast.Name)
            return assign(target, self.at(variable.id, copy_tree(self.thread)))
        return None

    def write(self, target: str | None, node: ast.Call) -> list[ast.stmt]:
        """Return what the block does for one operation, whose result the target takes."""
        use = self.unit.use_of(node)
        assert use is not None
        assert isinstance(node.func, ast.Name)
        name = use.intrinsic.name.partition(".")[2]
        dtype = self.plan.dtypes.get(node.func.id)
        if dtype is None:
            return self.plan.never_run(target)
        if name == "store":
            return self._store(node, use)
        if target is None:
            return []
        shape = self.plan.shape(use.static["shape"])
        if name == "load":
            return self._load(target, node, shape)
        if name == "each":
            return self._each(target, node.args[0], shape)
        if name in FOLD_OF:
            fold = FoldWriter(self, FOLD_OF[name], dtype)
            return fold.write(
                target, node.args[0], shape, use.static["axis"], is_mean=name == "mean"
            )
        if name == "sort":
            return SortWriter(self, shape, dtype).write(target, node.args[0])
        if name == "argsort":
            return SortWriter(self, shape, dtype).write_places(target, node.args[0])
        if name == "take":
            return self._take(target, node, shape)
        if name == "cumsum":
            scan = ScanWriter(self, dtype)
            static = use.static
            return scan.write(
                target, node.args[0], shape, static["axis"], exclusive=static["exclusive"]
            )
        raise NotImplementedError(name)

    # -- elements ---------------------------------------------------------------------------------

    def element(self, node: ast.expr, shape: Shape, places: Sequence[ast.expr]) -> ast.expr:
        """Return an expression for the element at some places, one for each axis."""

        def read(name: str, index: ast.expr) -> ast.expr:
            return self.at(name, index)

        return element_expression(node, self.unit, self.plan, shape, places, read)

    def at(self, name: str, index: ast.expr) -> ast.Subscript:
        """Return the element of an array at an index that is not negative."""
        return ast.Subscript(load(name), call("kd_unsigned", index), ast.Load())

    def set(self, name: str, index: ast.expr, value: ast.expr) -> ast.stmt:
        """Write an element of an array."""
        place = ast.Subscript(load(name), call("kd_unsigned", index), ast.Store())
        return ast.Assign([place], value)

    def loop(
        self, name: str, low: ast.expr | int, high: ast.expr | int, body: list[ast.stmt]
    ) -> ast.stmt:
        """Return a loop over elements, which is kept for the vectorizer."""
        bounds = [ast.Constant(b) if isinstance(b, int) else b for b in (low, high)]
        if isinstance(low, int) and low == 0:
            bounds = bounds[1:]
        body = [*body, ast.Expr(call("kd_keep_loop"))]
        return ast.For(store(name), call("kd_range", *bounds), body, [])

    def buffer(self, count: int, dtype: str) -> str:
        """Return a new array for values that are needed for a while."""
        name = self.names.make("buffer")
        self.buffers[name] = (count, dtype)
        return name

    def fill(self, target: str, node: ast.expr, shape: Shape) -> list[ast.stmt]:
        """Compute every element of an expression."""
        return self._each(target, node, shape)

    def _each(self, target: str, node: ast.expr, shape: Shape) -> list[ast.stmt]:
        return self._nest(
            shape,
            lambda places: [
                self.set(target, _linear(shape, places), self.element(node, shape, places))
            ],
        )

    def _take(self, target: str, node: ast.Call, shape: Shape) -> list[ast.stmt]:
        variable, index = node.args
        assert isinstance(variable, ast.Name)
        extent = self.plan.variables[variable.id].shape[-1]

        def write(places: list[ast.expr]) -> list[ast.stmt]:
            wanted = call("kd_place", self.element(index, shape, places))
            near = call("kd_max", ast.Constant(0), wanted)
            last: ast.expr = call("kd_min", near, ast.Constant(extent - 1))
            if len(places) > 1:
                last = sum_of(ast.BinOp(places[0], ast.Mult(), ast.Constant(extent)), last)
            return [self.set(target, _linear(shape, places), self.at(variable.id, last))]

        return self._nest(shape, write)

    def _nest(self, shape: Shape, write: Any) -> list[ast.stmt]:
        names = [self.names.make("at") for _ in shape]
        body: list[ast.stmt] = write([load(name) for name in names])
        for name, extent in zip(reversed(names), reversed(shape), strict=True):
            is_inner = name is names[-1]
            if is_inner:
                body = [self.loop(name, 0, extent, body)]
            else:
                body = [ast.For(store(name), call("kd_range", ast.Constant(extent)), body, [])]
        return body

    # -- memory -----------------------------------------------------------------------------------

    def _load(self, target: str, node: ast.Call, shape: Shape) -> list[ast.stmt]:
        array, other, *at = node.args
        name = self.names.make("array")
        rest = self.names.make("other")
        dtype = self.plan.variables[target].dtype
        before: list[ast.stmt] = [
            assign(name, array),
            assign(rest, call(f"kd_as_{dtype}", other)),
        ]
        names = [self.names.make("at") for _ in shape]
        starts = [self.names.make("first") for _ in shape]
        before += [assign(s, call("kd_place", each)) for s, each in zip(starts, at, strict=True)]
        linear = _linear(shape, [load(n) for n in names])
        index = [sum_of(load(s), load(n)) for s, n in zip(starts, names, strict=True)]
        filled = [self.set(target, linear, load(rest))]
        taken = [self.set(target, linear, call("kd_loaded", _element_of(name, index)))]
        return [*before, *self._ranges(shape, name, starts, names, taken, filled)]

    def _store(self, node: ast.Call, use: IntrinsicUse) -> list[ast.stmt]:
        array, *at, value = node.args
        shape = self.plan.shape(use.static["shape"])
        name = self.names.make("array")
        names = [self.names.make("at") for _ in shape]
        starts = [self.names.make("first") for _ in shape]
        before: list[ast.stmt] = [assign(name, array)]
        before += [assign(s, call("kd_place", each)) for s, each in zip(starts, at, strict=True)]
        index = [sum_of(load(s), load(n)) for s, n in zip(starts, names, strict=True)]
        place = _element_of(name, index)
        place.ctx = ast.Store()
        element = self.element(value, shape, [load(n) for n in names])

        def loops(body: ast.stmt) -> list[ast.stmt]:
            return self._ranges(shape, name, starts, names, [body], None)

        assert isinstance(node.func, ast.Name)
        at_once = loops(ast.Assign([place], element))
        if node.func.id not in self.whole:
            return [*before, *at_once]
        computed = self.buffer(math.prod(shape), self.plan.dtypes[node.func.id])
        linear = _linear(shape, [load(n) for n in names])
        written = ast.Assign([place], self.at(computed, linear))
        waiting = [*loops(self.set(computed, linear, copy_tree(element))), *loops(written)]
        read = self.whole[node.func.id]
        if read is None:
            return [*before, *waiting]
        apart: list[ast.expr] = [
            call("kd_are_apart", load(name), load(each)) for each in sorted(read)
        ]
        test = apart[0] if len(apart) == 1 else ast.BoolOp(ast.And(), apart)
        return [*before, ast.If(test, at_once, waiting)]

    def _ranges(
        self,
        shape: Shape,
        array: str,
        starts: list[str],
        names: list[str],
        inside: list[ast.stmt],
        outside: list[ast.stmt] | None,
    ) -> list[ast.stmt]:
        """Return loops over what is inside an array and what is not, along each axis."""
        body_inside, body_outside = inside, outside
        statements: list[ast.stmt] = []
        for axis in reversed(range(len(shape))):
            extent = shape[axis]
            low, high = self.names.make("low"), self.names.make("high")
            size = ast.Subscript(
                ast.Attribute(load(array), "shape", ast.Load()), ast.Constant(axis), ast.Load()
            )
            minus = ast.UnaryOp(ast.USub(), load(starts[axis]))
            end = ast.Constant(extent)
            left = ast.BinOp(size, ast.Sub(), load(starts[axis]))
            limits: list[ast.stmt] = [
                assign(low, call("kd_min", call("kd_max", ast.Constant(0), minus), end)),
                assign(high, call("kd_max", load(low), call("kd_min", left, end))),
            ]
            is_inner = axis == len(shape) - 1

            def loop(
                first: Any,
                last: Any,
                body: list[ast.stmt],
                axis: int = axis,
                is_inner: bool = is_inner,
            ) -> ast.stmt:
                if is_inner:
                    return self.loop(names[axis], first, last, copy_tree(body))
                bounds = [ast.Constant(b) if isinstance(b, int) else b for b in (first, last)]
                return ast.For(store(names[axis]), call("kd_range", *bounds), copy_tree(body), [])

            statements = [*limits, loop(load(low), load(high), body_inside)]
            if body_outside is not None:
                statements.insert(1, loop(0, load(low), body_outside))
                statements.append(loop(load(high), extent, body_outside))
                body_outside = [loop(0, extent, body_outside)]
            body_inside = statements
        return statements


def tile_operations(plan: TilePlan) -> dict[str, Any]:
    """Return what the statements of a kernel's tile operations call, by name."""
    from kerneldsl.lowering.types import element_type
    from targets.cpu.intrinsics.gathering import are_apart
    from targets.cpu.intrinsics.tiles import (
        FOLDS,
        MEETINGS,
        SORTED_NUMBERS,
        loaded,
        scan_lanes,
        sort_key_of,
        tile_place_of,
    )

    found: dict[str, Any] = {f"kd_fold_{name}": operation for name, operation in FOLDS.items()}
    found |= {f"kd_met_{name}": operation for name, operation in MEETINGS.items()}
    found["kd_scan_lanes"] = scan_lanes
    found["kd_place"] = tile_place_of
    found["kd_are_apart"] = are_apart
    found["kd_loaded"] = loaded
    found["kd_sort_key"] = sort_key_of
    found |= {f"kd_sort_number_{name}": each for name, each in SORTED_NUMBERS.items()}
    for name, row in ELEMENT_TYPES.items():
        if name in plan.all_dtypes or (row.package == "numpy" and not row.is_narrow):
            found[f"kd_as_{name}"] = bool if name == "bool" else element_type(name)
    return found


def rename_variables(node: ast.Call, names: Mapping[str, ast.Name]) -> ast.Call:
    """Return a copy of a call in which some variables have other names."""

    class Renaming(Transformer):
        def visit_Name(self, node: ast.Name) -> ast.Name:
            return copy.copy(names.get(node.id, node))

    result = Renaming().visit(copy_tree(node))
    assert isinstance(result, ast.Call)
    return result


def _linear(shape: Shape, places: Sequence[ast.expr]) -> ast.expr:
    """Return the number of an element, counted along the last axis first."""
    index: ast.expr = places[0]
    for extent, place in zip(shape[1:], places[1:], strict=True):
        index = ast.BinOp(ast.BinOp(index, ast.Mult(), ast.Constant(extent)), ast.Add(), place)
    return copy_tree(index)


def _element_of(name: str, index: list[ast.expr]) -> ast.Subscript:
    places: list[ast.expr] = [call("kd_unsigned", each) for each in index]
    whole = places[0] if len(places) == 1 else ast.Tuple(places, ast.Load())
    return ast.Subscript(load(name), whole, ast.Load())
