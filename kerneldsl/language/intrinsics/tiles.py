"""Declare operations on tiles: arrays of constant shape that are values of the whole block.

A tile operation is permitted where a barrier is: every thread of the block calls it, and none has
left the kernel before. Arguments are the same in every thread, except that of ``tile.of``. The
program has the same meaning as for a single thread.

Methods of a tile are these operations with the tile in front: ``t.sum(axis=1)`` is
``kd.tile.sum(t, axis=1)``. Operators, functions of numbers and ``t.map`` go element by element.

A row has all that the front end and the typing of an operation need. A reduction or a scan names
how elements are combined: a row of :mod:`kerneldsl.ir.tiles.folds`, by which both targets lower it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from kerneldsl.language.element_types import ELEMENT_TYPES, ElementKind, result_of_sum
from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, IntrinsicGroup, Scope, Typing
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "INTERNAL",
    "MAX_TILE_RANK",
    "TILE_ATTRIBUTES",
    "TILE_METHODS",
    "ResultShape",
    "TileForm",
    "element_words",
    "tile",
]


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

    #: Shape of the result.
    shape: ResultShape = ResultShape.SAME
    #: Dtype of the result, or a function that returns it for the elements' dtype; ``None`` for the
    #: same.
    dtype: str | Callable[[str], str | None] | None = None
    #: Kinds of elements that the operation refuses.
    refused: tuple[ElementKind, ...] = ()
    #: Whether the operation is a part of an expression of elements, not a collective operation.
    is_elementwise: bool = False
    #: Combination of a reduction or scan: a row of :mod:`kerneldsl.ir.tiles.folds`.
    fold: str = ""
    #: Name as an attribute of a tile; empty for a method.
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


#: A tile has one or two axes.
MAX_TILE_RANK = 2
#: Elements that have no order, or only 0 and 1.
_NOT_ORDERED = (ElementKind.COMPLEX, ElementKind.BOOL)


def _collective(
    name: str,
    summary: str,
    *parameters: str,
    form: TileForm,
    static: tuple[str, ...] = (),
    defaults: dict[str, object] | None = None,
    effect: Effect = Effect.NONE,
) -> Intrinsic:
    return Intrinsic(
        f"tile.{name}",
        summary,
        Typing.TILE,
        parameters,
        Scope.THREAD if name == "own" else Scope.BLOCK,
        Effect.BARRIER | effect,
        Scope.BLOCK,
        static=static,
        defaults=defaults or {},
        form=form,
    )


def _reduction(
    name: str,
    summary: str,
    *,
    dtype: str | Callable[[str], str] | None = None,
    refused: tuple[ElementKind, ...] = (),
) -> Intrinsic:
    return _collective(
        name,
        f"{summary} With `axis`, reduce along it to an extent of 1. By default reduce all elements "
        "to one number.",
        *("tile", "axis"),
        form=TileForm(ResultShape.REDUCED, dtype, refused=refused, fold=name),
        static=("axis",),
        defaults={"axis": None},
    )


def _scan(
    name: str, summary: str, fold: str, dtype: Callable[[str], str] | None = None
) -> Intrinsic:
    return _collective(
        name,
        f"{summary} along `axis`, which a tile of two axes needs.",
        *("tile", "axis", "exclusive"),
        form=TileForm(ResultShape.SCANNED, dtype, fold=fold),
        static=("axis", "exclusive"),
        defaults={"axis": None, "exclusive": False},
    )


def _dtype_of_mean(dtype: str) -> str:
    total = result_of_sum(dtype)
    return "float64" if ELEMENT_TYPES[total].is_integer else total


#: Forms of an expression of elements, and of operations that make a tile of numbers.
_ELEMENTWISE = TileForm(is_elementwise=True)
_MADE = TileForm(ResultShape.GIVEN, is_elementwise=True)

tile = IntrinsicGroup(
    "tile",
    {
        "load": _collective(
            "load",
            "Load a tile of this shape from `array`, beginning at the index `at`, converted to "
            "`dtype`. Elements beyond the bounds of the array are `other`.",
            *("array", "at", "shape", "other", "dtype"),
            form=TileForm(ResultShape.GIVEN),
            static=("shape", "dtype"),
            defaults={"other": 0, "dtype": None},
            effect=Effect.READ,
        ),
        "store": _collective(
            "store",
            "Store a tile to `array`, beginning at the index `at`, converted to its dtype. "
            "Elements beyond the bounds of the array are skipped. A function may follow the tile, "
            "with further arguments: it is called with each element, its index in the tile along "
            "each axis and the arguments, and its result is stored.",
            *("array", "at", "tile"),
            form=TileForm(ResultShape.NONE),
            effect=Effect.WRITE,
        ),
        "zeros": _collective(
            "zeros",
            "Make a tile of zeros.",
            *("shape", "dtype"),
            form=_MADE,
            static=("shape", "dtype"),
        ),
        "full": _collective(
            "full",
            "Make a tile of equal elements, by default of the dtype of `value`.",
            *("shape", "value", "dtype"),
            form=_MADE,
            static=("shape", "dtype"),
            defaults={"dtype": None},
        ),
        "arange": _collective(
            "arange",
            "Make a tile of the numbers 0, 1, 2, … of a dtype, counted along its last axis.",
            *("shape", "dtype"),
            form=_MADE,
            static=("shape", "dtype"),
            defaults={"dtype": "int64"},
        ),
        "of": _collective(
            "of",
            "Make a tile of the `value` of each thread of the block; threads are counted along x, "
            "then y, then z.",
            "value",
            form=TileForm(ResultShape.OF_BLOCK),
        ),
        "own": _collective(
            "own",
            "Return this thread's element of a tile with one element for each thread of the "
            "block; also `t.own`.",
            "tile",
            form=TileForm(ResultShape.NONE, attribute="own"),
        ),
        "sum": _reduction(
            "sum",
            "Return the sum, of integers as int64 or uint64, of floats of 16 bits as float32.",
            dtype=result_of_sum,
        ),
        "prod": _reduction(
            "prod",
            "Return the product, with the dtypes of `sum`.",
            dtype=result_of_sum,
        ),
        "max": _reduction(
            "max",
            "Return the largest element; NaN is ignored unless all are NaN, and 0 is above -0.",
            refused=_NOT_ORDERED,
        ),
        "min": _reduction(
            "min",
            "Return the smallest element; NaN is ignored unless all are NaN, and -0 is below 0.",
            refused=_NOT_ORDERED,
        ),
        "argmax": _reduction(
            "argmax",
            "Return the position of the first largest element, as int64, or of the first NaN.",
            dtype="int64",
            refused=(ElementKind.COMPLEX,),
        ),
        "argmin": _reduction(
            "argmin",
            "Return the position of the first smallest element, as int64, or of the first NaN.",
            dtype="int64",
            refused=(ElementKind.COMPLEX,),
        ),
        "mean": _reduction(
            "mean", "Return the mean, of integers as float64.", dtype=_dtype_of_mean
        ),
        "any": _reduction("any", "Return whether any element is nonzero.", dtype="bool"),
        "all": _reduction("all", "Return whether all elements are nonzero.", dtype="bool"),
        "cumsum": _scan(
            "cumsum",
            "Return the sums of the elements up to each element, or, if `exclusive`, before it, "
            "with the dtypes of `sum`. The sums are",
            "sum",
            result_of_sum,
        ),
        "sort": _collective(
            "sort",
            "Sort the elements along the last axis in ascending order: -0 before 0, NaN last.",
            "tile",
            form=TileForm(refused=_NOT_ORDERED),
        ),
        "argsort": _collective(
            "argsort",
            "Return the indices that sort the tile along the last axis, as int64. Equal elements "
            "keep their order, and so do NaN.",
            "tile",
            form=TileForm(dtype="int64", refused=_NOT_ORDERED),
        ),
        "take": _collective(
            "take",
            "Return the elements at the indices `places`, a tile of integers, along the last axis. "
            "Indices out of bounds are clamped.",
            *("tile", "places"),
            form=TileForm(ResultShape.OF_PLACES),
        ),
        "transpose": _collective(
            "transpose",
            "Exchange the axes of a tile of two axes; also `t.T`.",
            "tile",
            form=TileForm(ResultShape.TRANSPOSED, is_elementwise=True, attribute="T"),
        ),
        "map": _collective(
            "map",
            "Call a function of numbers for each element, with the other arguments; write "
            "`t.map(f, …)`.",
            "value",
            form=_ELEMENTWISE,
        ),
        "astype": _collective(
            "astype",
            "Convert the elements to a dtype.",
            *("tile", "dtype"),
            form=_ELEMENTWISE,
            static=("dtype",),
        ),
    },
)

_ROWS = {name: getattr(tile, name) for name in dir(tile)}
#: Operations that are also attributes of a tile, and those that are methods.
TILE_ATTRIBUTES = {row.tile.attribute: row for row in _ROWS.values() if row.tile.attribute}
TILE_METHODS = {
    name: row
    for name, row in _ROWS.items()
    if row.parameters[0] == "tile" and not row.tile.attribute
}


def _word(
    name: str,
    summary: str,
    *parameters: str,
    dtype: str | None = None,
    static: tuple[str, ...] = (),
) -> Intrinsic:
    form = TileForm(ResultShape.NONE, dtype, is_elementwise=True)
    return Intrinsic(f"tile.{name}", summary, Typing.TILE, parameters, static=static, form=form)


#: Further operations, which programs cannot write.
element_words = IntrinsicGroup(
    "tile",
    {
        "each": _collective(
            "each", "A tile of the elements of an expression.", "value", form=TileForm()
        ),
        "index": _word(
            "index",
            "The index of the element that is computed along an axis.",
            dtype="int64",
            static=("axis",),
        ),
        "cast": _word(
            "cast", "A number of another dtype, or of that of an array.", "value", static=("dtype",)
        ),
    },
)

#: Intrinsics that programs cannot write.
INTERNAL = frozenset(getattr(element_words, name) for name in dir(element_words))
