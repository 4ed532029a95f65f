"""Refuse tiles of one element for each thread together with tiles of another extent."""

from __future__ import annotations

from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.ir.operations import Function, Operation
from kerneldsl.ir.tiles.shapes import OF_BLOCK, Shape, broadcast

__all__ = ["check_fit"]


def check_fit(function: Function, threads: int) -> None:
    """Raise for the first operation with tiles that do not fit a block of some threads."""
    for operation in function.body.walk():
        if operation.name.startswith("tile.") and "called" in operation.attributes:
            _check(operation, threads)


def _check(operation: Operation, threads: int) -> None:
    def known(shape: Shape) -> Shape:
        return (threads,) if shape == OF_BLOCK else shape

    attributes = operation.attributes
    shapes = [known(attributes["shape"])]
    if operation.name == "tile.own":
        shapes.append(known(operation.operands[0].type.shape))
        fits = shapes[0] == shapes[1] == (threads,)
    else:
        # Of the tile that elements are taken from, one element or another is read.
        tiles = operation.operands[attributes.get("first", len(operation.operands)) :]
        for tile, is_transposed in zip(tiles, attributes.get("transposed", ()), strict=True):
            shape = known(tile.type.shape)
            shapes.append(shape[::-1] if is_transposed else shape)
        try:
            fits = broadcast(*shapes) == shapes[0]
        except ValueError:
            fits = False
    if fits:
        return
    raise UnsupportedConstructError(
        f"tiles of shapes {' and '.join(map(str, dict.fromkeys(shapes)))} meet in a block of "
        f"{threads} threads",
        where=operation.source.where,
        value=shapes,
        limit="kd.tile.of(…) and t.own take a tile with one element for each thread",
        remedy="Launch blocks of as many threads as the tile has elements",
    )
