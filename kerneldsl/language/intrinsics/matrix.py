"""Declare products of tiles, and the loops around them.

Each target may add the terms of a product in another order, within a documented bound. For one
thread that runs from top to bottom, ``pipelined`` is its range, and ``tiles`` gives one tile after
the other. Both permit the compiler to change the schedule.

References
----------
PTX ISA, sections "Warp Level Matrix Instructions" and "Asynchronous Warpgroup Level Matrix
Instructions".
"""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, Scope, Typing
from kerneldsl.language.intrinsics.tiles import ResultShape, TileForm

__all__ = ["ACCUMULATORS", "mma", "pipelined", "tiles"]

#: The dtype in which products of elements are added.
ACCUMULATORS = {
    **dict.fromkeys(("float16", "bfloat16", "float32"), "float32"),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2"), "float32"),
    "float64": "float64",
    **dict.fromkeys(("int8", "uint8"), "int32"),
}

mma = Intrinsic(
    "mma",
    "Multiply a tile (m, k) by a tile (k, n), and add the tile `acc`, by default zeros. The result "
    "has the dtype of sums: float32 for floats of at most 32 bits, int32 for int8 and uint8, "
    "float64. With `precision` “tf32”, float32 elements may be rounded to 11 bits. Sums of 8-bit "
    "floats are rounded to float32 at least every `promote` products; with None, where the "
    "hardware does. With `precision` “reference”, products are added in order, each with one "
    "rounding, on every target.",
    Typing.TILE,
    ("a", "b", "acc", "promote", "precision"),
    Scope.BLOCK,
    Effect.BARRIER,
    Scope.BLOCK,
    static=("promote", "precision"),
    defaults={"acc": None, "promote": 128, "precision": "ieee"},
    choices={"precision": ("ieee", "tf32", "reference")},
    form=TileForm(ResultShape.PRODUCT, ACCUMULATORS.get),
)
pipelined = Intrinsic(
    "pipelined",
    "Loop over a range; tiles may be loaded some iterations early, at most `stages`.",
    Typing.LOOP,
    ("range", "stages"),
    static=("stages",),
    defaults={"stages": None},
)
tiles = Intrinsic(
    "tiles",
    "Loop over the tiles of a shape that cover an extent, and give the first index of each along "
    "each axis. Each tile is given to one block of the grid. Iterations are independent.",
    Typing.LOOP,
    ("extent", "shape"),
    static=("shape",),
)
