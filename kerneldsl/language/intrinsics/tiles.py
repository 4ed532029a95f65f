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
        f"{summary} Without `axis`, over all elements: a number, the same in every thread. With "
        "`axis`, along that axis: a tile with extent 1 there.",
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
            "The elements of `array` from the index `at`, as a tile of that shape; outside of the"
            " array, `other`. They are converted to `dtype` if it is given.",
            *("array", "at", "shape", "other", "dtype"),
            static=("shape", "dtype"),
            defaults={"other": 0, "dtype": None},
            effect=Effect.READ,
        ),
        "store": _collective(
            "store",
            "Write a tile to `array` from the index `at`, converted to its dtype; elements "
            "outside of the array are not written. If a function follows the tile, its result is "
            "written: it gets each value, its index in the tile along each axis, and the "
            "arguments that follow.",
            *("array", "at", "tile"),
            effect=Effect.WRITE,
        ),
        "zeros": _collective(
            "zeros", "A tile of zeros.", "shape", "dtype", static=("shape", "dtype")
        ),
        "full": _collective(
            "full",
            "A tile of equal elements, by default of the value's dtype.",
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
            "A tile with the value of each thread of the block; threads are counted along x, then"
            " y, then z.",
            "value",
        ),
        "own": _collective(
            "own",
            "This thread's element of a tile with one for each thread of the block; also written "
            "`t.own`.",
            "tile",
        ),
        "sum": _reduction(
            "sum",
            "The sum: of integers as int64 or uint64, of floats of 16 bits as float32.",
        ),
        "max": _reduction("max", "The largest element, ignoring NaN, with 0 above -0."),
        "min": _reduction("min", "The smallest element, ignoring NaN, with -0 below 0."),
        "mean": _reduction("mean", "The mean: of integers as float64."),
        "any": _reduction("any", "Whether any element is not zero."),
        "all": _reduction("all", "Whether no element is zero."),
        "cumsum": _collective(
            "cumsum",
            "For each element, the sum of the elements up to it, or before it if `exclusive`, "
            "with dtypes as in `sum`. `axis` is required unless the tile has one axis.",
            *("tile", "axis", "exclusive"),
            static=("axis", "exclusive"),
            defaults={"axis": None, "exclusive": False},
        ),
        "sort": _collective(
            "sort",
            "The elements in ascending order along the last axis: -0 before 0, NaN last.",
            "tile",
        ),
        "argsort": _collective(
            "argsort",
            "The positions of the sorted elements along the last axis, as int64. Equal elements "
            "keep their order; all NaN are equal.",
            "tile",
        ),
        "take": _collective(
            "take",
            "The elements at the positions in `places`, a tile of integers, along the last axis. "
            "Positions below 0 or beyond the end are clamped.",
            "tile",
            "places",
        ),
        "transpose": _collective(
            "transpose",
            "A tile of two axes, transposed; also written `t.T`.",
            "tile",
        ),
        "map": _collective(
            "map",
            "The results of a function of numbers for each element; written `t.map(f, …)`.",
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
