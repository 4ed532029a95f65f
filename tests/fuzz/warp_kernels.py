"""Kernels whose threads meet in their warps alone: rows of a warp, trees of shuffles, votes."""

from __future__ import annotations

import math

from tests.fuzz.body import Body
from tests.fuzz.expressions import USUAL, ArrayName, Expression
from tests.fuzz.kernel_parts import Kernel
from tests.fuzz.lane_idioms import in_warp, warp_loop
from tests.fuzz.program import DATA_SETS, Array, Program
from tests.fuzz.thread_idioms import statements
from tests.support.warps import WARP_SIZE

__all__ = ["warp_program"]

#: Most hold whole warps along x.
_BLOCKS = ((32,), (64,), (64,), (96,), (128,), (32, 2), (32, 3), (64, 2), (32, 2, 2), (16, 4))
_GRIDS = ((1,), (2,), (2,), (1, 2))
_THREADS = 256


def warp_program(seed: int) -> Program:
    """A kernel in which each warp has a row of its own, and nobody waits for the block."""
    made = Kernel(seed)
    rng, body = made.rng, made.body
    block, grid = rng.choice(_BLOCKS), rng.choice(_GRIDS)
    threads = math.prod(block)
    if threads * math.prod(grid) > _THREADS:
        grid = (max(1, _THREADS // threads),)
    total = threads * math.prod(grid)
    body.threads, body.coordinates, body.levels = threads, ("i",), frozenset({"lanes"})
    shapes = ((total,), (rng.choice((total, total - rng.randrange(threads))),))
    made.scalars()
    made.constants()
    made.expressions.values += [Expression("i", "int64"), Expression("lane", "int64")] * 2
    made.tables()
    made.inputs(shapes, "i", is_inside=False)
    made.output(shapes)
    made.counters()
    # Bounds of rows: small numbers of either sign, in any order.
    rows = total // WARP_SIZE + 2
    made.parameters.append(Array("starts", "int32", ((rows,),) * DATA_SETS, "counter"))
    _ids(made, block, grid)
    made.variables()
    body.uniform += ["n", "m", "kd.blockIdx.x", "row"]
    made.expressions.values.append(Expression("row", "int64"))
    _rows(body, made.expressions.arrays)
    made.features |= {"warp kernel", f"{len(block)}-d"}
    body.emit("if i < out0.size:")
    body.level += 1
    made.store("i")
    text, parameters = made.finish()
    if "_sync(" in text:  # rows may be folded without an exchange
        made.features.add("lanes")
    return Program(seed, text, parameters, grid, block, features=frozenset(made.features))


def _ids(made: Kernel, block: tuple[int, ...], grid: tuple[int, ...]) -> None:
    """The thread's number in its block, `t`, in the grid, `i`, its warp's, `row`, and its lane."""
    body, choose = made.body, made.rng.choice
    if len(block) == 1:
        body.emit("t = kd.threadIdx.x")
    else:
        number = "kd.threadIdx.x + kd.blockDim.x * kd.threadIdx.y"
        if len(block) == 3:
            rows = "(kd.threadIdx.y + kd.blockDim.y * kd.threadIdx.z)"
            number = f"kd.threadIdx.x + kd.blockDim.x * {rows}"
        body.emit(f"t = {number}")
    place = "kd.blockIdx.x"
    if len(grid) > 1:
        place = "(kd.blockIdx.x + kd.gridDim.x * kd.blockIdx.y)"
    body.emit(f"i = {place} * {body.threads} + t")
    row = choose(("i // 32", "i >> 5", "i // kd.warpsize", f"({place} * {body.threads} + t) // 32"))
    lane = choose(("kd.laneid", "t % 32", "i & 31", "t & (kd.warpsize - 1)"))
    body.emit(f"row = {row}")
    body.emit(f"lane = {lane}")


def _rows(body: Body, arrays: list[ArrayName]) -> None:
    """What a warp does with its row, under a guard that its lanes share or do not."""
    choose = body.expressions.choose
    guard = choose(("row < m", "row % 2 == 0", "row != n", "i < n * 16", None, None))
    if guard is None:
        return _idioms(body, arrays)
    body.features.add("guard of a warp")
    with body.block(f"if {guard}:"):
        if guard == "i < n * 16":
            statements(body, 1, 1)  # not all lanes are there
        else:
            _idioms(body, arrays)
    return None


def _idioms(body: Body, arrays: list[ArrayName]) -> None:
    idioms = [_stride, _stride, _tree, _tree, in_warp, in_warp, warp_loop, _first_lane, _alone]
    for _ in range(body.rng.choice((2, 3, 4))):
        idiom = body.expressions.choose(idioms)
        if idiom is _stride:
            _stride(body, arrays)
        else:
            idiom(body, 1)


def _alone(body: Body, depth: int) -> None:
    statements(body, 1, depth)


def _stride(body: Body, arrays: list[ArrayName]) -> None:
    """A loop in which the lanes of a warp take turns, from bounds that are loaded."""
    body.features.add("turns of lanes")
    choose, k = body.expressions.choose, body.fresh("k")
    start = choose(("starts[row]", "starts[row] - 5", "row", "0", "starts[row] + row"))
    stop = choose(("starts[row + 1] * 9", "starts[row] + 70", "40", "n * 9", "starts[row] + 32"))
    names = [a for a in arrays if len(a.sizes) == 1 and a.dtype in USUAL]
    array, variable = choose(names) if names else None, choose(body.variables)
    with body.block(f"for {k} in range({start} + lane, {stop}, 32):"):
        if array is None or body.expressions.chance(4):
            value = Expression(k, "int64")
        else:
            # A negative index counts from the end, and all of them are inside.
            size = array.sizes[0]
            index = choose((f"{k} % {size}", f"{k} % {size} - {size}"))
            value = Expression(f"{array.name}[{index}]", array.dtype)
        value = body.expressions.converted(value, variable.dtype)
        op = body.expressions.choose(("+", "-"))
        body.emit(f"{variable.text} = np.{variable.dtype}({variable.text} {op} {value.text})")


def _tree(body: Body, depth: int) -> None:
    """A tree of shuffles, whose distance all lanes share."""
    body.features.add("tree of shuffles")
    choose, w, e = body.expressions.choose, body.fresh("w"), body.fresh("e")
    variable = choose(body.variables)
    way = choose(("shfl_down_sync", "shfl_up_sync", "shfl_xor_sync"))
    mask = choose(("0xFFFFFFFF", "-1"))
    if body.threads % WARP_SIZE:
        return in_warp(body, depth)
    body.emit(f"{w} = {choose(('16', 'kd.warpsize // 2'))}")
    with body.block(f"while {w} > 0:", uniform=(w,)):
        body.emit(f"{e} = kd.{way}({mask}, {variable.text}, {w})")
        body.emit(f"{variable.text} = np.{variable.dtype}({variable.text} + {e})")
        body.emit(f"{w} //= 2")
    return None


def _first_lane(body: Body, depth: int) -> None:
    """What one lane does for its warp."""
    with body.block(f"if lane == {body.rng.choice((0, 0, 31))}:"):
        statements(body, 1, 0)
