"""Sums up to each element of a tile that is spread over threads, in the order that the plan tells.

Each thread adds its neighbours, the lanes of its warp meet by shuffles, and a value of each warp
and round lies in shared memory, from which every thread adds what stands before its own.

References
----------
M. Harris, S. Sengupta and J. D. Owens, "Parallel Prefix Sum (Scan) with CUDA", GPU Gems 3, 2007.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from kerneldsl.analysis.tile_shapes import Shape
from kerneldsl.frontend.syntax import assign, call, load, store
from kerneldsl.lowering.tile_folds import identity_of
from kerneldsl.lowering.tile_plan import Layout
from targets.cuda.compile.tile_lanes import WARP_SIZE, WIDTHS, Lanes
from targets.cuda.compile.tile_memory import plus, times

if TYPE_CHECKING:
    from targets.cuda.compile.spread_tiles import TileSpreader

__all__ = ["ScanSpreader"]


class ScanSpreader:
    """Writes sums of one dtype.

    Parameters
    ----------
    spreader : TileSpreader
        Writes elements, loops and declarations.
    dtype : str
        In which elements are added.
    exclusive : bool
        Whether an element's sum is of those before it alone.
    """

    def __init__(self, spreader: TileSpreader, dtype: str, *, exclusive: bool) -> None:
        self._spreader = spreader
        self._dtype = dtype
        self._exclusive = exclusive

    def write(self, target: str, node: ast.expr, shape: Shape, axis: int | None) -> list[ast.stmt]:
        """Return the statements that give the target the sums."""
        spreader = self._spreader
        if axis is None:
            return self._whole(target, node, shape)

        def write(index: ast.expr, slot: ast.expr, at: ast.expr) -> list[ast.stmt]:
            return [spreader.set(target, index, self._converted(node, shape, index, slot))]

        filled = spreader.slots(spreader.plan.layout(shape), write)
        if axis == 0:
            along = self._columns(target, shape)
        elif spreader.plan.threads < WARP_SIZE:
            along = self._rows_of_threads(target, shape)
        else:
            along = self._rows(target, shape)
        return [spreader.wait(), *filled, spreader.wait(), *along, spreader.wait()]

    # -- values -----------------------------------------------------------------------------------

    def _converted(self, node: ast.expr, shape: Shape, index: ast.expr, slot: ast.expr) -> ast.expr:
        return call(f"kd_as_{self._dtype}", self._spreader.element(node, shape, index, slot))

    def _added(self, one: ast.expr, two: ast.expr) -> ast.expr:
        return call("kd_fold_sum", one, two)

    def _nothing(self) -> ast.expr:
        """Return what changes no number that it is added to."""
        return call(f"kd_as_{self._dtype}", ast.Constant(identity_of("sum", self._dtype)))

    def _zero(self) -> ast.expr:
        return call(f"kd_as_{self._dtype}", ast.Constant(0))

    def _met(self, total: str, lanes: Lanes) -> list[ast.stmt]:
        """Add to each lane's value those of the lanes before it."""
        other = self._spreader.names.make("other")
        out: list[ast.stmt] = []
        for width in WIDTHS:
            if width >= self._spreader.plan.threads:
                break
            # The last lane of the lower half has all that is before the upper one.
            start = ast.BinOp(lanes.lane, ast.BitAnd(), ast.Constant(-2 * width))
            source = ast.BinOp(start, ast.BitOr(), ast.Constant(width - 1))
            out.append(assign(other, lanes.exchanged("shfl_sync", total, source, self._dtype)))
            half = ast.BinOp(lanes.lane, ast.BitAnd(), ast.Constant(width))
            is_upper = ast.Compare(half, [ast.NotEq()], [ast.Constant(0)])
            met = self._added(load(other), load(total))
            out.append(assign(total, ast.IfExp(is_upper, met, load(total))))
        return out

    def _shifted(self, target: str, total: str, lanes: Lanes) -> list[ast.stmt]:
        """Give each lane the value of the lane before it, and the first one nothing."""
        before = lanes.exchanged("shfl_up_sync", total, ast.Constant(1), self._dtype)
        is_first = ast.Compare(lanes.lane, [ast.Eq()], [ast.Constant(0)])
        chosen = ast.IfExp(is_first, self._nothing(), load(target))
        return [assign(target, before), assign(target, chosen)]

    # -- the whole --------------------------------------------------------------------------------

    def _whole(self, target: str, node: ast.expr, shape: Shape) -> list[ast.stmt]:
        """Add all elements in the order of their numbers."""
        spreader = self._spreader
        names, layout = spreader.names, spreader.plan.layout(shape)
        own, before = names.make("own"), names.make("before")
        spreader.array(own, "local", layout.rounds * layout.group, self._dtype)
        spreader.array(before, "local", layout.rounds, self._dtype)
        warps = -(-layout.threads // WARP_SIZE)
        room = names.make("room")
        spreader.array(room, "shared", layout.rounds * warps, self._dtype)
        lanes = Lanes(spreader)
        out = [*lanes.before, *self._own(own, node, shape, layout)]
        out += self._warps(own, before, room, layout, lanes)
        out.append(spreader.wait())
        out += self._behind_warps(before, room, layout, lanes)
        is_shared = target in spreader.shared

        def write(index: ast.expr, slot: ast.expr, at: ast.expr) -> list[ast.stmt]:
            place = index if is_shared else slot
            start = spreader.at(before, ast.BinOp(slot, ast.FloorDiv(), ast.Constant(layout.group)))
            if not self._exclusive:
                return [spreader.set(target, place, self._added(start, spreader.at(own, slot)))]
            left = ast.BinOp(slot, ast.Sub(), ast.Constant(1))
            behind = self._added(start, spreader.at(own, left))
            is_first = ast.Compare(index, [ast.Eq()], [ast.Constant(0)])
            first = ast.IfExp(is_first, self._zero(), start)
            begins = ast.Compare(at, [ast.Eq()], [ast.Constant(0)])
            return [
                ast.If(
                    begins,
                    [spreader.set(target, place, first)],
                    [spreader.set(target, place, behind)],
                )
            ]

        out += spreader.slots(layout, write)
        if is_shared or spreader.loop_depth:
            out.append(spreader.wait())  # nobody writes the next sums while another one reads
        return out

    def _own(self, own: str, node: ast.expr, shape: Shape, layout: Layout) -> list[ast.stmt]:
        """Add a thread's neighbours one after the other."""
        spreader = self._spreader
        total, slot = spreader.names.make("total"), spreader.names.make("slot")
        start: list[ast.stmt] = [assign(total, self._nothing())]
        if not layout.is_even:
            empty = [spreader.set(own, load(slot), self._nothing())]
            start.append(spreader.unrolled(slot, layout.rounds * layout.group, empty))

        def write(index: ast.expr, slot: ast.expr, at: ast.expr) -> list[ast.stmt]:
            begins = ast.Compare(at, [ast.Eq()], [ast.Constant(0)])
            element = self._converted(node, shape, index, slot)
            return [
                ast.If(begins, [assign(total, self._nothing())], []),
                assign(total, self._added(load(total), element)),
                spreader.set(own, slot, load(total)),
            ]

        return [*start, *spreader.slots(layout, write)]

    def _warps(
        self, own: str, before: str, room: str, layout: Layout, lanes: Lanes
    ) -> list[ast.stmt]:
        """Add what the lanes of each warp have, round by round; the last one gives the sum."""
        spreader = self._spreader
        turn, total, left = (spreader.names.make(stem) for stem in ("round", "total", "left"))
        last = plus(times(load(turn), layout.group), ast.Constant(layout.group - 1))
        end = ast.BinOp(lanes.count, ast.Sub(), ast.Constant(1))
        is_last = ast.Compare(lanes.lane, [ast.Eq()], [end])
        warps = -(-layout.threads // WARP_SIZE)
        place = plus(times(load(turn), warps), lanes.warp)
        body: list[ast.stmt] = [
            assign(total, spreader.at(own, last)),
            *self._met(total, lanes),
            *self._shifted(left, total, lanes),
            spreader.set(before, load(turn), load(left)),
            ast.If(is_last, [spreader.set(room, place, load(total))], []),
        ]
        return [spreader.unrolled(turn, layout.rounds, body)]

    def _behind_warps(self, before: str, room: str, layout: Layout, lanes: Lanes) -> list[ast.stmt]:
        """Add what stands before a warp to what stands before a thread in it."""
        spreader = self._spreader
        number, total = (spreader.names.make(stem) for stem in ("number", "total"))
        warps = -(-layout.threads // WARP_SIZE)
        turn = ast.BinOp(load(number), ast.FloorDiv(), ast.Constant(warps))
        warp = ast.BinOp(load(number), ast.Mod(), ast.Constant(warps))
        is_own = ast.Compare(warp, [ast.Eq()], [lanes.warp])
        met = self._added(load(total), spreader.at(before, turn))
        body = [
            ast.If(is_own, [spreader.set(before, turn, met)], []),
            assign(total, self._added(load(total), spreader.at(room, load(number)))),
        ]
        # One loop, not two: LLVM forgets that the outer one is to be unrolled.
        return [
            assign(total, self._nothing()),
            spreader.unrolled(number, layout.rounds * warps, body),
        ]

    # -- along an axis ----------------------------------------------------------------------------

    def _columns(self, target: str, shape: Shape) -> list[ast.stmt]:
        """Add the rows of a tile in shared memory, a thread for each column."""
        spreader = self._spreader
        rows, columns = shape
        column, row, total, own = (
            spreader.names.make(stem) for stem in ("column", "row", "total", "own")
        )
        place = plus(times(load(row), columns), load(column))
        body: list[ast.stmt] = [
            assign(own, spreader.at(target, place)),
            *self._advanced(target, place, total, load(own), load(row)),
        ]
        along = ast.For(store(row), call("kd_range", ast.Constant(rows)), body, [])
        bounds = (ast.Constant(columns), ast.Constant(spreader.plan.threads))
        each = call("kd_range", load(spreader.thread), *bounds)
        return [ast.For(store(column), each, [assign(total, self._nothing()), along], [])]

    def _advanced(
        self, target: str, place: ast.expr, total: str, own: ast.expr, number: ast.expr
    ) -> list[ast.stmt]:
        """Add an element to the sum of those before it, and write what its place gets."""
        spreader = self._spreader
        added = assign(total, self._added(load(total), own))
        if not self._exclusive:
            return [added, spreader.set(target, place, load(total))]
        is_first = ast.Compare(number, [ast.Eq()], [ast.Constant(0)])
        before = ast.IfExp(is_first, self._zero(), load(total))
        return [spreader.set(target, place, before), added]

    def _rows(self, target: str, shape: Shape) -> list[ast.stmt]:
        """Add along the rows of a tile in shared memory, a warp for each row."""
        spreader = self._spreader
        rows, columns = shape
        row, first, carry, own, total, before = (
            spreader.names.make(stem)
            for stem in ("row", "first", "carry", "own", "total", "before")
        )
        warps = spreader.plan.threads // WARP_SIZE
        lanes = Lanes(spreader, whole=True)
        column = plus(load(first), lanes.lane)
        place = plus(times(load(row), columns), column)
        is_inside = ast.Compare(column, [ast.Lt()], [ast.Constant(columns)])
        start = self._added(load(carry), load(before))
        result: ast.expr = self._added(start, load(own))
        if self._exclusive:
            is_first = ast.Compare(column, [ast.Eq()], [ast.Constant(0)])
            result = ast.IfExp(is_first, self._zero(), start)
        end = ast.Constant(WARP_SIZE - 1)
        segment: list[ast.stmt] = [
            assign(own, self._nothing()),
            ast.If(is_inside, [assign(own, spreader.at(target, place))], []),
            assign(total, load(own)),
            *self._met(total, lanes),
            *self._shifted(before, total, lanes),
            ast.If(is_inside, [spreader.set(target, place, result)], []),
            assign(total, lanes.exchanged("shfl_sync", total, end, self._dtype)),
            assign(carry, self._added(load(carry), load(total))),
        ]
        steps = call("kd_range", *map(ast.Constant, (0, columns, WARP_SIZE)))
        body: list[ast.stmt] = [
            assign(carry, self._nothing()),
            ast.For(store(first), steps, segment, []),
        ]
        each = call("kd_range", lanes.warp, ast.Constant(rows), ast.Constant(warps))
        along = ast.For(store(row), each, body, [])
        if spreader.plan.threads % WARP_SIZE == 0:
            return [*lanes.before, along]
        is_whole = ast.Compare(lanes.warp, [ast.Lt()], [ast.Constant(warps)])
        return [*lanes.before, ast.If(is_whole, [along], [])]

    def _rows_of_threads(self, target: str, shape: Shape) -> list[ast.stmt]:
        """Add along the rows where there is no whole warp, a thread for each row."""
        spreader = self._spreader
        rows, columns = shape
        row, first, carry, before, lane = (
            spreader.names.make(stem) for stem in ("row", "first", "carry", "before", "lane")
        )
        sums, own = spreader.names.make("sums"), spreader.names.make("own")
        count = min(WARP_SIZE, columns)
        spreader.array(sums, "local", count, self._dtype)
        column = plus(load(first), load(lane))
        place = plus(times(load(row), columns), column)
        is_inside = ast.Compare(column, [ast.Lt()], [ast.Constant(columns)])

        def each_lane(body: list[ast.stmt]) -> ast.stmt:
            return ast.For(store(lane), call("kd_range", ast.Constant(count)), body, [])

        segment: list[ast.stmt] = [
            each_lane(
                [
                    spreader.set(sums, load(lane), self._nothing()),
                    ast.If(
                        is_inside, [spreader.set(sums, load(lane), spreader.at(target, place))], []
                    ),
                ]
            )
        ]
        for width in WIDTHS:
            half = ast.BinOp(load(lane), ast.BitAnd(), ast.Constant(width))
            is_upper = ast.Compare(half, [ast.NotEq()], [ast.Constant(0)])
            start = ast.BinOp(load(lane), ast.BitAnd(), ast.Constant(-2 * width))
            source = ast.BinOp(start, ast.BitOr(), ast.Constant(width - 1))
            met = self._added(spreader.at(sums, source), spreader.at(sums, load(lane)))
            segment.append(each_lane([ast.If(is_upper, [spreader.set(sums, load(lane), met)], [])]))
        result: ast.expr = self._added(load(before), load(own))
        if self._exclusive:
            is_first = ast.Compare(column, [ast.Eq()], [ast.Constant(0)])
            result = ast.IfExp(is_first, self._zero(), load(before))
        segment += [
            assign(before, self._added(load(carry), self._nothing())),
            each_lane(
                [
                    ast.If(
                        is_inside,
                        [
                            assign(own, spreader.at(target, place)),
                            spreader.set(target, place, result),
                            assign(
                                before,
                                self._added(load(carry), spreader.at(sums, load(lane))),
                            ),
                        ],
                        [],
                    )
                ]
            ),
            assign(carry, self._added(load(carry), spreader.at(sums, ast.Constant(count - 1)))),
        ]
        steps = call("kd_range", *map(ast.Constant, (0, columns, WARP_SIZE)))
        body: list[ast.stmt] = [
            assign(carry, self._nothing()),
            ast.For(store(first), steps, segment, []),
        ]
        bounds = (ast.Constant(rows), ast.Constant(spreader.plan.threads))
        each = call("kd_range", load(spreader.thread), *bounds)
        return [ast.For(store(row), each, body, [])]
