"""Shapes of tiles, and of what operations give for tiles of these shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from kerneldsl.language.intrinsics.intrinsic import Intrinsic
from kerneldsl.language.intrinsics.tile_forms import ResultShape

__all__ = ["OF_BLOCK", "Shape", "broadcast", "result_shape"]

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
