"""Replace a kernel's thread and block coordinates by the loop variables of the generated code.

Two spaces are known. An *element space* has one coordinate an axis, ``kd_x kd_y kd_z``, with
extents ``kd_nx kd_ny kd_nz``: blocks have been merged away. A *block space* has the thread's
``kd_tx kd_ty kd_tz``, the block's ``kd_bx kd_by kd_bz``, the grid's ``kd_gx kd_gy kd_gz``, and a
block shape that is constant. A *warp space* is a block space with threads that run one warp at a
time: ``kd_tx`` is the lane, and the warp begins at ``kd_wx kd_wy kd_wz`` of its block.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import TypeAlias

from kerneldsl.analysis.expressions import assigned_names, loaded_names
from kerneldsl.contract import Dim3
from kerneldsl.contract.abi import LaunchMode
from kerneldsl.frontend.syntax import call, load
from kerneldsl.frontend.trees import Transformer, walk_here
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.codegen.orientation import RowAxis

__all__ = [
    "EXPRESSIONS",
    "WARP_SIZE",
    "BlockSpace",
    "ElementSpace",
    "Space",
    "WarpSpace",
    "replace_ids",
]

#: Threads of a warp, on every machine.
WARP_SIZE = 32
_AXES = "xyz"


@dataclass(frozen=True)
class ElementSpace:
    """Indices without blocks."""

    #: Under ``forall`` the last axis of the extent is x, or the first; else x is the first axis of
    #: the grid.
    mode: LaunchMode
    rows_along: RowAxis = "last"

    @property
    def thread_names(self) -> tuple[str, ...]:
        """Loop variables that differ between threads, innermost first."""
        return ("kd_x", "kd_y", "kd_z")

    @property
    def loop_names(self) -> tuple[str, ...]:
        """Variables of the loops over threads: x alone, rows are units of work."""
        return ("kd_x",)

    @property
    def threads(self) -> int:
        """Return the number of threads that run together between two barriers: one without any."""
        return 1

    def axes(self, ndim: int) -> list[str]:
        """Return the axis letters in the order in which ``grid`` gives them."""
        rank = self.mode.forall_ndim
        if rank is None or self.rows_along == "first":
            return list(_AXES[:ndim])
        return list(reversed(_AXES[:rank]))[:ndim]

    def index(self, axis: str) -> ast.expr:
        """Return this thread's index."""
        return load(f"kd_{axis}")

    def size(self, axis: str) -> ast.expr:
        """Return the number of indices."""
        return load(f"kd_n{axis}")


@dataclass(frozen=True)
class BlockSpace:
    """Threads of blocks."""

    #: Threads along x, y and z.
    block_dim: Dim3
    #: Under ``forall`` the first axis of the extent is x.
    mode: LaunchMode

    @property
    def thread_names(self) -> tuple[str, ...]:
        """Loop variables that differ between threads, innermost first."""
        return ("kd_tx", "kd_ty", "kd_tz")

    @property
    def loop_names(self) -> tuple[str, ...]:
        """Variables of the loops over threads, innermost first; axes of one thread have none."""
        names = zip(self.thread_names, self.extents, strict=True)
        return tuple(name for name, extent in names if extent > 1 or name == "kd_tx")

    @property
    def loop_extents(self) -> tuple[int, ...]:
        """Threads along the axes of :attr:`loop_names`, outermost first."""
        extents = dict(zip(self.thread_names, self.extents, strict=True))
        return tuple(extents[name] for name in reversed(self.loop_names))

    @property
    def extents(self) -> tuple[int, ...]:
        """Threads that run together, along the axes of :attr:`thread_names`."""
        return self.block_dim

    @property
    def threads(self) -> int:
        """Return the number of threads that run together between two barriers."""
        return math.prod(self.extents)

    @property
    def unit_names(self) -> tuple[str, ...]:
        """Variables that distinguish those threads from others of the grid."""
        return ("kd_bx", "kd_by", "kd_bz")

    def axes(self, ndim: int) -> list[str]:
        """Return the axis letters in the order in which ``grid`` gives them."""
        return list(_AXES[:ndim])

    def thread(self, axis: str) -> ast.expr:
        """Return this thread's index in its block."""
        return load(f"kd_t{axis}")

    def index(self, axis: str) -> ast.expr:
        """Return this thread's index in the grid."""
        extent = ast.Constant(self.block_dim[_AXES.index(axis)])
        start = ast.BinOp(load(f"kd_b{axis}"), ast.Mult(), extent)
        return ast.BinOp(start, ast.Add(), self.thread(axis))

    def size(self, axis: str) -> ast.expr:
        """Return the number of indices: the extent under ``forall``, else threads of the grid."""
        position = _AXES.index(axis)
        if self.mode.forall_ndim is not None:
            return load(f"kd_extent_{position}")
        return ast.BinOp(load(f"kd_g{axis}"), ast.Mult(), ast.Constant(self.block_dim[position]))

    def position(self) -> ast.expr:
        """Return this thread's index among those that run together, through x, then y, then z."""
        width, height, depth = self.block_dim
        linear: ast.expr = self.thread("x")
        if depth > 1 or height > 1:
            row: ast.expr = self.thread("y")
            if depth > 1:
                plane = ast.BinOp(self.thread("z"), ast.Mult(), ast.Constant(height))
                row = ast.BinOp(plane, ast.Add(), row)
            linear = ast.BinOp(ast.BinOp(row, ast.Mult(), ast.Constant(width)), ast.Add(), linear)
        return linear

    def lane(self) -> ast.expr:
        """Return this thread's index in its warp."""
        return ast.BinOp(self.position(), ast.Mod(), ast.Constant(WARP_SIZE))


@dataclass(frozen=True)
class WarpSpace(BlockSpace):
    """Threads of blocks that hold whole warps along x, one warp at a time."""

    @property
    def thread_names(self) -> tuple[str, ...]:
        """The loop variable that differs between the lanes of a warp."""
        return ("kd_tx",)

    @property
    def extents(self) -> tuple[int, ...]:
        return (WARP_SIZE,)

    @property
    def unit_names(self) -> tuple[str, ...]:
        return (*super().unit_names, *(f"kd_w{axis}" for axis in _AXES))

    def thread(self, axis: str) -> ast.expr:
        if self.block_dim[_AXES.index(axis)] == 1:
            return ast.Constant(0)
        start = load(f"kd_w{axis}")
        return ast.BinOp(start, ast.Add(), self.lane()) if axis == "x" else start

    def position(self) -> ast.expr:
        return load("kd_tx")

    def lane(self) -> ast.expr:
        return load("kd_tx")


Space = ElementSpace | BlockSpace
#: Writes the expression that stands for an id.
Expression: TypeAlias = Callable[[Space, IntrinsicUse], ast.expr]


def _in_block(write: Callable[[BlockSpace], ast.expr]) -> Expression:
    """Return an id that no kernel without blocks needs."""

    def expression(space: Space, use: IntrinsicUse) -> ast.expr:
        del use
        assert isinstance(space, BlockSpace)
        return write(space)

    return expression


def _lower_lanes(space: BlockSpace) -> ast.expr:
    bit = ast.BinOp(ast.Constant(1), ast.LShift(), space.lane())
    return call("kd_uint32", ast.BinOp(bit, ast.Sub(), ast.Constant(1)))


def _along_axes(write: Callable[[Space, str], ast.expr]) -> Expression:
    """Return an id along as many axes as requested: one, or a tuple."""

    def expression(space: Space, use: IntrinsicUse) -> ast.expr:
        values = [write(space, axis) for axis in space.axes(use.static["ndim"])]
        return values[0] if len(values) == 1 else ast.Tuple(values, ast.Load())

    return expression


def _ids_along(axis: str) -> dict[str, Expression]:
    position = _AXES.index(axis)
    return {
        f"threadIdx.{axis}": _in_block(lambda space: space.thread(axis)),
        f"blockIdx.{axis}": _in_block(lambda space: load(f"kd_b{axis}")),
        f"blockDim.{axis}": _in_block(lambda space: ast.Constant(space.block_dim[position])),
        f"gridDim.{axis}": _in_block(lambda space: load(f"kd_g{axis}")),
    }


#: Name of each id to what writes the expression that stands for it.
EXPRESSIONS: dict[str, Expression] = {
    "grid": _along_axes(lambda space, axis: space.index(axis)),
    "gridsize": _along_axes(lambda space, axis: space.size(axis)),
    "laneid": _in_block(lambda space: space.lane()),
    "lanemask_lt": _in_block(_lower_lanes),
    "warpsize": lambda space, use: ast.Constant(WARP_SIZE),
    **_ids_along("x"),
    **_ids_along("y"),
    **_ids_along("z"),
}


def replace_ids(tree: ast.FunctionDef, unit: FunctionUnit, space: Space) -> ast.FunctionDef:
    """Replace ids in place; split ``x, y = kd.grid(2)`` into one assignment a name."""
    result = _Replacement(unit, space).visit(tree)
    assert isinstance(result, ast.FunctionDef)
    return result


class _Replacement(Transformer):
    def __init__(self, unit: FunctionUnit, space: Space) -> None:
        self.unit = unit
        self.space = space

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        use = self.unit.use_of(node)
        if use is None or use.intrinsic.name not in EXPRESSIONS:
            return node
        new = EXPRESSIONS[use.intrinsic.name](self.space, use)
        for inner in walk_here(new):
            ast.copy_location(inner, node)
        return new

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        target = node.targets[0]
        if (
            len(node.targets) == 1
            and isinstance(target, ast.Tuple)
            and isinstance(node.value, ast.Tuple)
            and all(isinstance(e, ast.Name) for e in target.elts)
            and len(target.elts) == len(node.value.elts)
            and not assigned_names(target) & loaded_names(node.value)
        ):
            return [
                ast.copy_location(ast.Assign([name], value), node)
                for name, value in zip(target.elts, node.value.elts, strict=True)
            ]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Replace ``kd.grid(2)[0]`` by its first coordinate; a user's tuple stays."""
        is_id = isinstance(node.value, ast.Call) and self.unit.use_of(node.value) is not None
        self.generic_visit(node)
        if (
            is_id
            and isinstance(node.value, ast.Tuple)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, int)
            and -len(node.value.elts) <= node.slice.value < len(node.value.elts)
        ):
            return node.value.elts[node.slice.value]
        return node
