"""What expressions of tiles speak of: variables, arrays, functions, shapes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OF_BLOCK", "Shape", "TileArray", "TileFunction", "TileName", "extents_of"]

Shape = tuple[int, ...]
#: Shape of a tile with an element for each thread.
OF_BLOCK: Shape = (0,)


@dataclass(frozen=True)
class TileName:
    """A variable that holds a tile, of numbers or, with the dtype ``"bool"``, of truths."""

    text: str
    dtype: str
    shape: Shape


@dataclass(frozen=True)
class TileArray:
    """An array that tiles are loaded from, and stored into where it has a place for the block.

    `first` is the index of the block's own part along the first axis, which begins two elements
    before it and ends two behind the largest tile.
    """

    name: str
    dtype: str
    ndim: int
    first: str = ""


@dataclass(frozen=True)
class TileFunction:
    """A device function with operations on tiles of a shape.

    Parameters
    ----------
    name, kind : str
        Its name; ``"tile"`` gives a tile for one and a whole number, ``"number"`` a number for
        them, ``"load"`` a tile for an array and a place.
    shape : Shape
        Of the tile.
    dtype, result : str
        Of the tile or array that it is given, and of what it gives.
    """

    name: str
    kind: str
    shape: Shape
    dtype: str
    result: str


def extents_of(shape: Shape) -> str:
    """Return a shape as it is written."""
    return str(shape[0]) if len(shape) == 1 else str(shape)
