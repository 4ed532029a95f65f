"""Declare what is done with tiles: arrays of constant shape that are values of the whole block.

A tile operation may stand where a barrier may stand: every thread of the block calls it, none has
left the kernel before. What the operations are given is the same in every thread, but for the
argument of ``tile.of``. Read with one thread from top to bottom, the program means the same.

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
        f"{summary} Without `axis` of all elements, a number that is the same in every thread; "
        "with it along that axis, whose extent becomes 1.",
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
            "The elements of `array` from the index `at` on, as a tile of that shape; where there "
            "is no element, `other`. `dtype` is what they are converted to.",
            *("array", "at", "shape", "other", "dtype"),
            static=("shape", "dtype"),
            defaults={"other": 0, "dtype": None},
            effect=Effect.READ,
        ),
        "store": _collective(
            "store",
            "Write a tile to `array` from the index `at` on, converted to its dtype; elements for "
            "which there is no place are left out. A function behind the tile is called for each "
            "element that is written, with its value, its index in the tile along each axis and "
            "the arguments that follow; what it returns is written.",
            *("array", "at", "tile"),
            effect=Effect.WRITE,
        ),
        "zeros": _collective(
            "zeros", "A tile of zeros.", "shape", "dtype", static=("shape", "dtype")
        ),
        "full": _collective(
            "full",
            "A tile of equal elements, of the value's dtype if no other is given.",
            *("shape", "value", "dtype"),
            static=("shape", "dtype"),
            defaults={"dtype": None},
        ),
        "arange": _collective(
            "arange",
            "A tile of the numbers 0, 1, 2, … of a dtype.",
            *("shape", "dtype"),
            static=("shape", "dtype"),
            defaults={"dtype": "int64"},
        ),
        "of": _collective(
            "of",
            "A tile with one element for each thread of the block, which gives its value; threads "
            "are counted along x, then y, then z.",
            "value",
        ),
        "own": _collective(
            "own",
            "This thread's element of a tile that has one for each thread of the block; written "
            "`t.own` too.",
            "tile",
        ),
        "sum": _reduction(
            "sum",
            "The sum: of integers as int64 or uint64, of floats of 16 bits as float32.",
        ),
        "max": _reduction(
            "max", "The largest element; a NaN yields to a number, and 0 is above -0."
        ),
        "min": _reduction(
            "min", "The smallest element; a NaN yields to a number, and -0 is below 0."
        ),
        "mean": _reduction("mean", "The mean: of integers as float64."),
        "any": _reduction("any", "Whether any element is not zero."),
        "all": _reduction("all", "Whether no element is zero."),
        "cumsum": _collective(
            "cumsum",
            "For each element the sum of those up to it, or, if `exclusive`, of those before it, "
            "of dtypes as in `sum`. With `axis` along that one; without it a tile of one axis.",
            *("tile", "axis", "exclusive"),
            static=("axis", "exclusive"),
            defaults={"axis": None, "exclusive": False},
        ),
        "sort": _collective(
            "sort",
            "The elements in rising order, along the last axis: -0 before 0, NaN last.",
            "tile",
        ),
        "argsort": _collective(
            "argsort",
            "The places of the elements in that order, along the last axis, as int64; equal "
            "elements, as all NaN are, keep their order.",
            "tile",
        ),
        "take": _collective(
            "take",
            "The elements at the places that `places`, a tile of integers, holds, along the last "
            "axis; one that is below 0 or beyond the end is the nearest that there is.",
            "tile",
            "places",
        ),
        "transpose": _collective(
            "transpose",
            "A tile of two axes with the axes exchanged; written `t.T` too.",
            "tile",
        ),
        "map": _collective(
            "map",
            "A function of numbers, called for each element with what follows; written "
            "`t.map(f, …)`.",
            "value",
        ),
        "astype": _collective(
            "astype", "The elements converted to a dtype.", "tile", "dtype", static=("dtype",)
        ),
    },
)


def _word(name: str, summary: str, *parameters: str, static: tuple[str, ...] = ()) -> Intrinsic:
    return Intrinsic(f"tile.{name}", summary, Typing.TILE, parameters, static=static)


#: What the normal form consists of beside these; a program has no words for it.
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
