"""Declare what the normal form of a linked function does with its arguments and its result.

Programs cannot write these; :mod:`kerneldsl.frontend.declared_types` puts them into the Python body
of a function that another language defines for the GPU.
"""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, IntrinsicGroup, Scope, Typing

__all__ = ["INTERNAL", "linked"]


def _word(name: str, summary: str, uniform_in: Scope | None = None) -> Intrinsic:
    return Intrinsic(
        f"linked.{name}",
        summary,
        Typing.LINKED,
        ("value", "dtype", "what"),
        uniform_in,
        static=("dtype", "what"),
    )


linked = IntrinsicGroup(
    "linked",
    {
        "number": _word("number", "Convert an argument to the type of its parameter."),
        "array": Intrinsic(
            "linked.array",
            "Require an array of a type. Any of its elements may be read and written.",
            Typing.LINKED_ARRAY,
            ("array", "dtype", "ndim", "what"),
            effect=Effect.READ | Effect.WRITE,
            static=("dtype", "ndim", "what"),
        ),
        "result": _word(
            "result", "Convert the result, of which nothing else is known.", Scope.THREAD
        ),
        "pure_result": _word(
            "pure_result", "Convert the result, which depends on the arguments that follow alone."
        ),
    },
)

#: Intrinsics of the normal form alone.
INTERNAL = frozenset(getattr(linked, name) for name in dir(linked))
