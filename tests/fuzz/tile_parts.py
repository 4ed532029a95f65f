"""What a kernel that works on tiles has: arrays for them, their shapes, functions of elements."""

from __future__ import annotations

import random

from kerneldsl.language.packed_numbers import PACKED_NUMBERS, WORD_DTYPES
from tests.fuzz.expressions import USUAL, Expression
from tests.fuzz.kernel_parts import Kernel
from tests.fuzz.program import DATA_SETS, Array, Scalar
from tests.fuzz.tile_expressions import Tiles
from tests.fuzz.tile_functions import element_functions, stored_function, tile_functions
from tests.fuzz.tile_names import OF_BLOCK, Shape, TileArray

__all__ = ["prepare_tiles"]

_PLANES = ((2, 4), (3, 5), (8, 8), (2, 64), (5, 33), (1, 7), (6, 1))


def prepare_tiles(made: Kernel, blocks: int) -> None:
    """Add what expressions of tiles need to a kernel of so many blocks; ``blk`` is the block."""
    rng, body = made.rng, made.body
    tiles = body.tiles = Tiles(rng)
    shape = (_extent(rng, body.threads),)
    tiles.shapes = (shape, OF_BLOCK)
    widest = max(shape[0], body.threads)
    _inputs(made, tiles, widest)
    _output(made, tiles, "dst1", (widest + 8) * blocks, widest + 8)
    if made.chance(2):
        plane = rng.choice(_PLANES)
        tiles.shapes += (plane, plane)
        _output(made, tiles, "dst2", (plane[0] + 8) * blocks, plane[0] + 8, columns=plane[1])
    tiles.numbers += [Expression("n", "int64"), Expression("m", "int64")]
    tiles.numbers += [
        Expression(p.name, p.dtype)
        for p in made.parameters
        if isinstance(p, Scalar) and p.name == "w"
    ]
    tiles.maps += element_functions(rng, made.lines)
    for array in tiles.outputs:
        if made.chance(2):
            tiles.stored[array.ndim] = stored_function(rng, made.lines, array.ndim, array.dtype)
    tiles.functions += tile_functions(rng, tiles, rng.choice(tiles.shapes[:1]), made.lines)


def _extent(rng: random.Random, threads: int) -> int:
    """An extent: short and long, of whole groups of the threads' neighbours or not."""
    usual = (1, 5, 8, 16, 31, 32, 33, 64, 100, 128)
    return rng.choice((*usual, threads, 2 * threads, min(4 * threads, 256), threads + 1))


def _inputs(made: Kernel, tiles: Tiles, widest: int) -> None:
    """Arrays that only tiles are loaded from, which may be short or empty, and parts of others."""
    rng = made.rng
    sizes = (0, 1, widest - 1, widest, 2 * widest + 3)
    for number in range(rng.choice((1, 1, 2))):
        shapes: tuple[Shape, ...] = tuple((rng.choice(sizes),) for _ in range(DATA_SETS))
        if number:
            shapes = tuple(
                (rng.choice((0, 1, 3, 9)), rng.choice((0, 2, 8, 70))) for _ in range(DATA_SETS)
            )
        name, dtype = f"src{number}", rng.choice(USUAL)
        made.parameters.append(Array(name, dtype, shapes))
        tiles.inputs.append(TileArray(name, dtype, len(shapes[0])))
    if not made.chance(3):
        _words(made, tiles)
    for array in made.expressions.arrays:
        if array.name.startswith("TABLE"):
            continue
        rank = len(array.sizes)
        if rank < 3:
            tiles.inputs.append(TileArray(array.name, array.dtype, rank))
        if rank == 1:
            tiles.inputs.append(TileArray(f"{array.name}[m:]", array.dtype, 1))
        else:
            row = f"{array.name}[n % {array.sizes[0]}]"
            tiles.inputs.append(TileArray(row, array.dtype, rank - 1))
        if rank == 2:
            tiles.inputs.append(TileArray(f"{array.name}[:, 1]", array.dtype, 1))


def _words(made: Kernel, tiles: Tiles) -> None:
    """Numbers of a few bits that are packed in words of an array, or of a row of one."""
    rng = made.rng
    ndim = rng.choice((1, 1, 2))
    shapes: tuple[Shape, ...] = tuple(
        (rng.choice((0, 1, 5, 30)), rng.choice((1, 2, 9)))[-ndim:] for _ in range(DATA_SETS)
    )
    made.parameters.append(Array("words", rng.choice(WORD_DTYPES), shapes))
    for _ in range(rng.choice((2, 3))):
        numbers = rng.choice(tuple(PACKED_NUMBERS))
        dtype = PACKED_NUMBERS[numbers].dtype
        tiles.inputs.append(TileArray(f"kd.packed(words, kd.{numbers})", dtype, ndim))


def _output(
    made: Kernel, tiles: Tiles, name: str, extent: int, step: int, columns: int | None = None
) -> None:
    """An array with a part for each block, `step` apart, which may end before the last one."""
    rng, dtype = made.rng, made.rng.choice(USUAL)
    shapes: tuple[Shape, ...] = tuple(
        (rng.choice((extent, extent, extent - 5, step, 0)),) for _ in range(DATA_SETS)
    )
    if columns is not None:
        shapes = tuple((*s, rng.choice((columns, columns + 3, 1))) for s in shapes)
    made.parameters.append(Array(name, dtype, shapes, "output"))
    tiles.outputs.append(TileArray(name, dtype, len(shapes[0]), f"blk * {step}"))
