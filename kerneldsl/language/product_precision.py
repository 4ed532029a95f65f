"""The precision of products of tiles that a program chooses for all kernels.

Kernels with products capture :data:`chosen` like a global of the program. So a launch after a
change compiles its kernel again, or finds the code of an earlier choice.
"""

from __future__ import annotations

from kerneldsl.errors.kernels import wrong_value

__all__ = ["CHOICES", "check", "choose"]

CHOICES = ("fast", "reference")
#: ``"reference"``: every product has this precision. ``"fast"``: each has its own.
chosen = "fast"


def check(value: str) -> None:
    """Raise an `ArgumentValueError` for what is not a choice."""
    if not isinstance(value, str) or value not in CHOICES:
        raise wrong_value("mma", value, f"It must be one of {', '.join(map(repr, CHOICES))}")


def choose(value: str) -> str:
    """Choose for all kernels of the process; return the choice before."""
    global chosen
    check(value)
    before, chosen = chosen, value
    return before
