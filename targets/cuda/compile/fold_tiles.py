"""Reductions of tiles that are spread over threads, in the order that the plan of tiles tells.

References
----------
CUDA C++ Programming Guide, section "Warp Shuffle Functions"; M. Harris, "Optimizing Parallel
Reduction in CUDA", NVIDIA, 2007.
"""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

from kerneldsl.analysis.tile_shapes import Shape
from kerneldsl.frontend.syntax import assign, call, load
from kerneldsl.lowering.tile_folds import identity_of
from kerneldsl.lowering.tile_plan import Layout
from targets.cuda.compile.fold_axes import AxisFold
from targets.cuda.compile.tile_lanes import WARP_SIZE, Lanes

if TYPE_CHECKING:
    from targets.cuda.compile.spread_tiles import TileSpreader

__all__ = ["FoldSpreader"]


class FoldSpreader:
    """Writes reductions of one kind and dtype.

    Parameters
    ----------
    spreader : TileSpreader
        Writes elements, loops and declarations.
    fold : str
        A name of :data:`~kerneldsl.lowering.tile_folds.COMBINATIONS`.
    dtype : str
        Of the result, in which elements are combined.
    """

    def __init__(self, spreader: TileSpreader, fold: str, dtype: str) -> None:
        self.spreader = spreader
        self.fold = fold
        self.dtype = dtype

    def write(
        self, target: str, node: ast.expr, shape: Shape, axis: int | None, *, is_mean: bool
    ) -> list[ast.stmt]:
        """Return the statements that give the target the result."""
        if axis is None:
            out, total = self._whole(node, shape)
            count = math.prod(shape)
            return [*out, assign(target, self.mean(total, count) if is_mean else total)]
        if len(shape) == 1:
            out, total = self._whole(node, shape)
            result = self.mean(total, shape[0]) if is_mean else total
            written = self.spreader.set(target, ast.Constant(0), result)
            return [*out, self.spreader.wait(), written, self.spreader.wait()]
        return AxisFold(self, shape, axis, is_mean=is_mean).write(target, node)

    # -- values -----------------------------------------------------------------------------------

    def converted(self, element: ast.expr) -> ast.expr:
        """Return an element as it is combined."""
        if self.dtype == "bool":
            return ast.Compare(element, [ast.NotEq()], [ast.Constant(0)])
        return call(f"kd_as_{self.dtype}", element)

    def combined(self, one: ast.expr, two: ast.expr) -> ast.expr:
        return call(f"kd_fold_{self.fold}", one, two)

    def identity(self) -> ast.expr:
        """Return what changes nothing that it is combined with."""
        identity = ast.Constant(identity_of(self.fold, self.dtype))
        return call(f"kd_as_{self.dtype}", identity)

    def mean(self, total: ast.expr, count: int) -> ast.expr:
        """Return a sum divided by how many elements it is of."""
        real = {"complex64": "float32", "complex128": "float64"}.get(self.dtype, self.dtype)
        divisor = call(f"kd_as_{real}", ast.Constant(count))
        return call(f"kd_as_{self.dtype}", ast.BinOp(total, ast.Div(), divisor))

    # -- the whole --------------------------------------------------------------------------------

    def _whole(self, node: ast.expr, shape: Shape) -> tuple[list[ast.stmt], ast.expr]:
        """Combine all elements; return the statements, and what every thread has then."""
        spreader = self.spreader
        layout = spreader.plan.layout(shape)
        own, out = self._own(node, shape, layout)
        total = spreader.names.make("total")
        given = (load(own), self.identity(), load(spreader.thread))
        out.append(assign(total, call(f"kd_part_{self.fold}_{layout.count}", *given)))
        if self.dtype == "bool":
            vote = "syncthreads_or" if self.fold == "any" else "syncthreads_and"
            return out, call("kd_as_bool", spreader.use(vote, load(total)))
        return [*out, *self._block(total)], load(total)

    def _own(self, node: ast.expr, shape: Shape, layout: Layout) -> tuple[str, list[ast.stmt]]:
        """Return registers that hold a thread's elements as they are combined."""
        spreader = self.spreader
        held = spreader.held(node, shape, self.dtype)
        if held is not None:
            return held, []
        own = spreader.names.make("own")
        spreader.array(own, "local", layout.rounds * layout.group, self.dtype)

        def write(index: ast.expr, slot: ast.expr, at: ast.expr) -> list[ast.stmt]:
            element = self.converted(spreader.element(node, shape, index, slot))
            return [spreader.set(own, slot, element)]

        return own, spreader.slots(layout, write)

    def _block(self, total: str) -> list[ast.stmt]:
        """Combine a value of each thread, and give all of them the result."""
        spreader, threads = self.spreader, self.spreader.plan.threads
        lanes = Lanes(spreader)
        met = call(f"kd_met_{self.fold}", load(total), load(spreader.thread))
        out = [*lanes.before, assign(total, met)]
        warps = -(-threads // WARP_SIZE)
        if warps == 1:
            first = lanes.exchanged("shfl_sync", total, ast.Constant(0), self.dtype)
            return [*out, assign(total, first)]
        room = spreader.names.make("room")
        spreader.array(room, "shared", warps, self.dtype)
        is_first = ast.Compare(lanes.lane, [ast.Eq()], [ast.Constant(0)])
        out.append(ast.If(is_first, [spreader.set(room, lanes.warp, load(total))], []))
        out.append(spreader.wait())
        out.append(assign(total, call(f"kd_rest_{self.fold}", load(room))))
        if spreader.loop_depth:
            out.append(spreader.wait())  # nobody writes the next result while another one reads
        return out
