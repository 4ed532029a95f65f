"""Where the elements of generated tiles come from: numbers of their own, and arrays.

Tiles are read from arrays that only operations on tiles touch, so that these may be shorter than a
tile, or empty.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.fuzz.expressions import USUAL, Expression
from tests.fuzz.tile_names import OF_BLOCK, Shape, TileArray, TileName, extents_of
from tests.fuzz.typing import FLOATS, INTEGERS

__all__ = ["TileSources"]


@dataclass
class TileSources:
    """Makes tiles of what is in scope.

    Parameters
    ----------
    rng : random.Random
        Chooses.
    shapes : tuple of Shape
        Of the program's tiles.
    names : list of TileName
        Variables that hold tiles.
    numbers : list of Expression
        Numbers that are the same in all threads of a block.
    inputs, outputs : list of TileArray
        What is loaded from, and what is stored into and loaded again.
    """

    rng: random.Random
    shapes: tuple[Shape, ...] = ()
    names: list[TileName] = field(default_factory=list)
    numbers: list[Expression] = field(default_factory=list)
    inputs: list[TileArray] = field(default_factory=list)
    outputs: list[TileArray] = field(default_factory=list)
    #: What the expressions so far are made of.
    features: set[str] = field(default_factory=set)

    def chance(self, one_in: int) -> bool:
        """Return true once in so many times."""
        return self.rng.randrange(one_in) == 0

    def created(self, shape: Shape, dtype: str) -> Expression:
        """Return a tile that is read from no array."""
        if shape == OF_BLOCK:
            return Expression(f"kd.tile.of({self.rng.choice(('np', 'kd'))}.{dtype}(t))", dtype)
        extents = extents_of(shape)
        number = Expression(str(self.rng.randrange(9)), "int64")
        return self.rng.choice(
            (
                Expression(f"kd.tile.zeros({extents}, np.{dtype})", dtype),
                Expression(f"kd.tile.full({extents}, {number.text}, kd.{dtype})", dtype),
                Expression(f"kd.tile.full({extents}, np.{dtype}({number.text}))", dtype),
                Expression(f"kd.tile.arange({extents}, dtype=kd.{dtype})", dtype),
                Expression(f"kd.tile.arange({extents}).astype(np.{dtype})", dtype),
            )
        )

    def loaded(self, shape: Shape) -> Expression:
        """Return a load, in part of elements that are not there."""
        arrays = [a for a in self.inputs + self.outputs if a.ndim == len(shape)]
        if not arrays:
            return self.created(shape, self.rng.choice(USUAL))
        array = self.rng.choice(arrays)
        return self.load(array, shape, self.place(array, shape))

    def load(self, array: TileArray, shape: Shape, at: str) -> Expression:
        """Return a load from a place."""
        if array.name.startswith("kd.packed("):
            self.features.add("tile of packed numbers")
        text, dtype = f"kd.tile.load({array.name}, {at}, {extents_of(shape)}", array.dtype
        if self.chance(3):
            others = ("-1", "7") if dtype in INTEGERS else ("-1", "0.5", "-math.inf", "-0.0")
            text += f", {self.rng.choice(('other=', ''))}{self.rng.choice(others)}"
        if self.chance(4):
            wanted = self.rng.choice(USUAL if dtype in INTEGERS else FLOATS)
            is_real = any(other in text for other in ("0.5", "inf", "-0.0"))
            if wanted in FLOATS or not is_real:
                text, dtype = f"{text}, dtype={self.rng.choice(('np', 'kd'))}.{wanted}", wanted
        return Expression(f"{text})", dtype)

    def place(self, array: TileArray, shape: Shape) -> str:
        """Return a place in an array: in the block's own part, of what nobody writes anywhere."""
        if array.first:
            along = self.rng.choice(("", " + 1", " - 1", " + 2", " - 2"))
            first = f"{array.first}{along}"
        else:
            first = self.rng.choice(
                ("0", "n", "m", "-3", "n - 5", "-m", "lim", f"kd.blockIdx.x * {shape[0]}")
            )
        if len(shape) == 1:
            return first
        return f"({first}, {self.rng.choice(('0', '0', '1', '-2', 'n', 'm', '3 - n'))})"
