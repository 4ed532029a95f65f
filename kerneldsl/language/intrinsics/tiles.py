"""Declare operations on tiles: arrays of constant shape that are values of the whole block.

A tile operation is permitted where a barrier is: every thread of the block calls it, and none has
left the kernel before. Arguments are the same in every thread, except that of ``tile.of``. The
program has the same meaning as for a single thread.

Methods of a tile are these operations with the tile in front: ``t.sum(axis=1)`` is
``kd.tile.sum(t, axis=1)``. Operators, functions of numbers and ``t.map`` go element by element.
"""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, IntrinsicGroup, Scope, Typing

__all__ = ["INTERNAL", "MAX_TILE_RANK", "element_words", "tile"]

#: A tile has one or two axes.
MAX_TILE_RANK = 2


def _collective(
    name: str,
    summary: str,
    *parameters: str,
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
    )


def _reduction(name: str, summary: str) -> Intrinsic:
    return _collective(
        name,
        f"{summary} With `axis`, reduce along it to an extent of 1. By default reduce all elements "
        "to one number.",
        "tile",
        "axis",
        static=("axis",),
        defaults={"axis": None},
    )


tile = IntrinsicGroup(
    "tile",
    {
        "load": _collective(
            "load",
            "Load a tile of this shape from `array`, beginning at the index `at`, converted to "
            "`dtype`. Elements beyond the bounds of the array are `other`.",
            *("array", "at", "shape", "other", "dtype"),
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
            effect=Effect.WRITE,
        ),
        "zeros": _collective(
            "zeros", "Make a tile of zeros.", "shape", "dtype", static=("shape", "dtype")
        ),
        "full": _collective(
            "full",
            "Make a tile of equal elements, by default of the dtype of `value`.",
            *("shape", "value", "dtype"),
            static=("shape", "dtype"),
            defaults={"dtype": None},
        ),
        "arange": _collective(
            "arange",
            "Make a tile of the numbers 0, 1, 2, … of a dtype.",
            *("shape", "dtype"),
            static=("shape", "dtype"),
            defaults={"dtype": "int64"},
        ),
        "of": _collective(
            "of",
            "Make a tile of the `value` of each thread of the block; threads are counted along x, "
            "then y, then z.",
            "value",
        ),
        "own": _collective(
            "own",
            "Return this thread's element of a tile with one element for each thread of the "
            "block; also `t.own`.",
            "tile",
        ),
        "sum": _reduction(
            "sum",
            "Return the sum, of integers as int64 or uint64, of floats of 16 bits as float32.",
        ),
        "max": _reduction(
            "max",
            "Return the largest element; NaN is ignored unless all are NaN, and 0 is above -0.",
        ),
        "min": _reduction(
            "min",
            "Return the smallest element; NaN is ignored unless all are NaN, and -0 is below 0.",
        ),
        "mean": _reduction("mean", "Return the mean, of integers as float64."),
        "any": _reduction("any", "Return whether any element is nonzero."),
        "all": _reduction("all", "Return whether all elements are nonzero."),
        "cumsum": _collective(
            "cumsum",
            "Return the sums of the elements up to each element, or, if `exclusive`, before it, "
            "with the dtypes of `sum`. The sums are along `axis`, which a tile of two axes needs.",
            *("tile", "axis", "exclusive"),
            static=("axis", "exclusive"),
            defaults={"axis": None, "exclusive": False},
        ),
        "sort": _collective(
            "sort",
            "Sort the elements along the last axis in ascending order: -0 before 0, NaN last.",
            "tile",
        ),
        "argsort": _collective(
            "argsort",
            "Return the indices that sort the tile along the last axis, as int64. Equal elements "
            "keep their order, and so do NaN.",
            "tile",
        ),
        "take": _collective(
            "take",
            "Return the elements at the indices `places`, a tile of integers, along the last axis. "
            "Indices out of bounds are clamped.",
            "tile",
            "places",
        ),
        "transpose": _collective(
            "transpose",
            "Exchange the axes of a tile of two axes; also `t.T`.",
            "tile",
        ),
        "map": _collective(
            "map",
            "Call a function of numbers for each element, with the other arguments; write "
            "`t.map(f, …)`.",
            "value",
        ),
        "astype": _collective(
            "astype", "Convert the elements to a dtype.", "tile", "dtype", static=("dtype",)
        ),
    },
)


def _word(name: str, summary: str, *parameters: str, static: tuple[str, ...] = ()) -> Intrinsic:
    return Intrinsic(f"tile.{name}", summary, Typing.TILE, parameters, static=static)


#: Further operations of the normal form, which programs cannot write.
element_words = IntrinsicGroup(
    "tile",
    {
        "each": _collective("each", "A tile whose elements an expression gives.", "value"),
        "element": _word("element", "The element of a tile that an expression is for.", "tile"),
        "index": _word("index", "The index of that element along an axis.", static=("axis",)),
        "cast": _word("cast", "A number of another dtype.", "value", static=("dtype",)),
    },
)

#: Intrinsics of the normal form alone.
INTERNAL = frozenset(getattr(element_words, name) for name in dir(element_words))
