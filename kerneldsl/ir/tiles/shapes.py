"""Shapes of tiles, and of what operations give for tiles of these shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.ir.operations import Function, Operation
from kerneldsl.language.intrinsics.intrinsic import Intrinsic
from kerneldsl.language.intrinsics.tiles import ResultShape

__all__ = ["OF_BLOCK", "Shape", "broadcast", "check_fit", "result_shape"]

#: Extents of a tile along its axes.
Shape: TypeAlias = tuple[int, ...]
#: Shape of a tile that has an element for each thread of the block.
OF_BLOCK: Shape = (0,)


def broadcast(*shapes: Shape | None) -> Shape | None:
    """Return the shape that several have in common, a number's being ``None``.

    Raises `ValueError` if there is none.

    Examples
    --------
    >>> broadcast((4, 1), None, (8,)), broadcast(None, None)
    ((4, 8), None)
    """
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return None
    rank = max(map(len, known))
    result = []
    for extents in zip(*((1,) * (rank - len(s)) + s for s in known), strict=True):
        wanted = {n for n in extents if n not in (1, *OF_BLOCK)} or set(extents) - {1} or {1}
        if len(wanted) > 1:
            raise ValueError(f"shapes {' and '.join(map(str, known))} do not fit")
        result.append(wanted.pop())
    return tuple(result)


def result_shape(intrinsic: Intrinsic, static: Mapping[str, Any]) -> Shape | None:
    """Return the shape of the tile that an operation gives; ``None`` if it gives none."""
    form = intrinsic.tile
    shape: Shape = static["shape"]
    if form.shape is ResultShape.NONE or not form.has_axis:
        return None if form.shape is ResultShape.NONE else shape
    axis: int | None = static["axis"]
    if form.shape is ResultShape.SCANNED:
        return (math.prod(shape),) if axis is None else shape
    return None if axis is None else tuple(1 if i == axis else n for i, n in enumerate(shape))


# Refuse tiles of one element for each thread together with tiles of another extent.


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
        # Operands before `first` are gathered from, so they may have other shapes.
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
        f"tiles of shapes {' and '.join(map(str, dict.fromkeys(shapes)))} are used in a block of "
        f"{threads} threads",
        where=operation.source.where,
        value=shapes,
        limit="kd.tile.of(…) and t.own take a tile with one element for each thread",
        remedy="Launch blocks of as many threads as the tile has elements",
    )
