"""Kernels whose threads meet at barriers."""

from __future__ import annotations

import math
import random

from tests.fuzz.block_idioms import together, use_levels
from tests.fuzz.body import SharedArray
from tests.fuzz.expressions import USUAL, Expression
from tests.fuzz.functions import barrier_functions, helpers, operations
from tests.fuzz.grid_idioms import crosses_grid, pass_on
from tests.fuzz.kernel_parts import Kernel
from tests.fuzz.program import Array, Program
from tests.fuzz.thread_idioms import statements
from tests.fuzz.tile_parts import prepare_tiles
from tests.fuzz.typing import DTYPES

__all__ = ["block_program", "choose_levels", "thread_ids"]

_BLOCKS = (
    *((1,), (7,), (15,), (16,), (17,), (32,), (33,), (32,), (48,), (33,), (96,), (100,)),
    *((128,), (256,)),
    *((4, 4), (5, 3), (8, 2), (3, 7), (16, 2), (2, 2, 2), (4, 3, 2), (2, 3, 4), (11, 9)),
)
_GRIDS = ((1,), (1,), (2,), (2,), (3,), (2, 2), (1, 3), (2, 1, 2))
#: Most threads of a launch, which the oracle runs one after the other.
_THREADS = 300
#: Part of the kernels that use lanes, groups and tiles each.
_SHARE = 0.64


def block_program(seed: int, levels: frozenset[str]) -> Program:
    """A kernel whose threads meet at barriers, and use lanes, groups and tiles where asked to."""
    made = Kernel(seed)
    rng, body = made.rng, made.body
    block, grid = rng.choice(_BLOCKS), rng.choice(_GRIDS)
    threads = math.prod(block)
    if threads * math.prod(grid) > _THREADS:
        grid = (max(1, _THREADS // threads),)
    total = threads * math.prod(grid)
    body.threads, body.coordinates, body.levels = threads, ("i", "t"), levels
    sizes = (total, rng.choice((total, total - rng.randrange(threads))))
    has_tiles = "tiles" in levels
    body.crosses_grid = crosses_grid(seed)
    all_stay = has_tiles or body.crosses_grid
    returns_first = not all_stay and rng.random() < 0.4
    if returns_first:  # nobody does, but it is there
        sizes = (total, total)
    shapes = tuple((max(1, s),) for s in sizes)
    made.scalars()
    made.constants()
    made.expressions.values += [Expression("i", "int64"), Expression("t", "int64")] * 2
    made.tables()
    made.inputs(shapes, "i", is_inside=returns_first)
    if has_tiles:
        prepare_tiles(made, math.prod(grid))
    made.output(shapes)
    made.counters()
    body.may_return = not all_stay and rng.random() < 0.5
    body.expressions.functions += helpers(
        rng, made.lines, ("kd.threadIdx.x", "kd.blockIdx.x", "kd.grid(1)")
    )
    if "groups" in levels:
        body.operations += operations(rng, made.lines)
    dtypes = [rng.choice(USUAL) for _ in range(rng.choice((1, 1, 1, 2)))]
    body.barrier_functions += barrier_functions(
        rng, threads, dtypes, made.lines, may_return=body.may_return
    )
    body.uniform += ["n", "m", "kd.blockIdx.x", "kd.gridDim.x", "out0.size"]
    thread_ids(made, block, grid)
    if returns_first:
        body.emit("if i >= out0.size:")
        body.emit("    return")
        made.features.add("early return")
    _shared_arrays(made, dtypes, block)
    made.variables()
    if rng.random() < 0.2:
        statements(body, 1, 1)
    for number, dtype in enumerate(dtypes):
        made.parameters.append(Array(f"slots{number}", dtype, shapes, "output"))
    together(body, rng.choice((1, 1, 1, 2)), rng.choice((0, 0, 0, 1, 1)))
    if body.crosses_grid:
        pass_on(made, total, lambda: together(body, 1, rng.choice((0, 0, 1))))
    use_levels(body)
    made.call_the_rest()
    if not returns_first:
        body.emit("if i < out0.size:")
        body.level += 1
    made.store("i")
    text, parameters = made.finish()
    made.features |= {"block kernel", f"{len(block)}-d"}
    if body.tiles:
        made.features |= body.tiles.features
    return Program(seed, text, parameters, grid, block, features=frozenset(made.features))


def choose_levels(seed: int) -> frozenset[str]:
    """Return which of lanes, groups and tiles the kernel of a seed uses."""
    rng = random.Random(f"levels {seed}")
    return frozenset(each for each in ("lanes", "groups", "tiles") if rng.random() < _SHARE)


def thread_ids(made: Kernel, block: tuple[int, ...], grid: tuple[int, ...]) -> None:
    """The thread's number in its block, `t`, and in the grid, `i`."""
    body = made.body
    if len(block) == 1:
        body.emit("t = kd.threadIdx.x")
    elif len(block) == 2:
        body.emit("tx, ty = kd.threadIdx.x, kd.threadIdx.y")
        body.emit(f"t = tx + ty * {made.rng.choice(('kd.blockDim.x', str(block[0])))}")
        made.expressions.values += [Expression("tx", "int64"), Expression("ty", "int64")]
    else:
        body.emit(
            "t = kd.threadIdx.x + kd.blockDim.x * (kd.threadIdx.y + kd.blockDim.y * kd.threadIdx.z)"
        )
    place = "kd.blockIdx.x"
    if len(grid) > 1:
        place = "(kd.blockIdx.x + kd.gridDim.x * (kd.blockIdx.y + kd.gridDim.y * kd.blockIdx.z))"
    if body.tiles is not None:
        body.emit(f"blk = {place}")
        place = "blk"
    body.emit(f"i = {place} * {body.threads} + t")


def _shared_arrays(made: Kernel, dtypes: list[str], block: tuple[int, ...]) -> None:
    """Shared arrays, filled before any thread can return or read another's slot."""
    body, rng, count = made.body, made.rng, made.body.threads
    for number, dtype in enumerate(dtypes):
        shared = SharedArray(f"s{number}", dtype, f"s{number}[t]")
        body.emit(f"{shared.name} = kd.shared.array({count}, {rng.choice(('np', 'kd'))}.{dtype})")
        body.emit(f"{shared.own} = {rng.choice(('0', 't', f'np.{dtype}(t)'))}")
        body.shared.append(shared)
        body.lvalues.append(Expression(shared.own, dtype))
        made.expressions.values.append(Expression(shared.own, dtype))
    if made.chance(3):
        body.halo = SharedArray("halo", rng.choice(DTYPES), "halo[t + 1]")
        body.emit(f"halo = kd.shared.array({count + 2}, np.{body.halo.dtype})")
        body.emit("halo[t + 1] = 0")
        body.emit("if t == 0:")
        body.emit(f"    halo[0] = halo[{count + 1}] = 0")
    if len(block) == 2:
        (width, height), dtype = block, rng.choice(USUAL)
        body.plane, body.plane_dim = SharedArray("plane", dtype, "plane[ty, tx]"), (width, height)
        body.emit(f"plane = kd.shared.array(({height}, {width}), np.{dtype})")
        body.emit("plane[ty, tx] = 0")
    if made.chance(4):
        body.bins = SharedArray("bins", rng.choice(("int32", "int64", "uint32")), "")
        body.emit(f"bins = kd.shared.array(4, np.{body.bins.dtype})")
        body.emit("if t == 0:")
        body.emit("    for b in range(4):")
        body.emit("        bins[b] = 0")
    body.emit("kd.syncthreads()")
