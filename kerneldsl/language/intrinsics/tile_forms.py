"""Parts of a tile operation's row that the front end and the typing need."""

from __future__ import annotations

import enum
from collections.abc import Callable

from kerneldsl.language.element_types import ElementKind
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["ResultShape", "TileForm"]


class ResultShape(enum.Enum):
    """Shape of what a tile operation gives."""

    NONE = "no tile"
    GIVEN = "the constant `shape`"
    OF_BLOCK = "one element for each thread of the block"
    SAME = "that of the tile"
    OF_PLACES = "that of the tile `places`"
    TRANSPOSED = "that of the tile, with its axes exchanged"
    REDUCED = "1 along the constant `axis`; without an axis, no tile"
    PRODUCT = "rows of the tile `a`, columns of the tile `b`"
    SCANNED = "that of the tile; without the constant `axis`, one axis"


@dataclass(frozen=True)
class TileForm:
    """Form of a tile operation."""

    #: Of what it gives.
    shape: ResultShape = ResultShape.SAME
    #: Dtype of the result, or what returns it for that of the elements; ``None`` for the same.
    dtype: str | Callable[[str], str | None] | None = None
    #: Elements that it does not take.
    refused: tuple[ElementKind, ...] = ()
    #: Whether it is a part of an expression of elements, and no operation of the block.
    is_elementwise: bool = False
    #: Of a reduction or scan: how elements are combined, a row of :mod:`kerneldsl.ir.tiles.folds`.
    fold: str = ""
    #: Its name as an attribute of a tile, if it is one and no method.
    attribute: str = ""

    @property
    def has_axis(self) -> bool:
        """True if elements are combined along an axis, or all of them."""
        return self.shape in (ResultShape.REDUCED, ResultShape.SCANNED)

    def dtype_for(self, dtype: str | None) -> str | None:
        """Return the dtype of the result for that of the elements; ``None`` if it is not known."""
        if callable(self.dtype):
            return None if dtype is None else self.dtype(dtype)
        return self.dtype or dtype
