"""Origins of integers: which numbers the program says to be uint64, and which are made into one.

A literal takes the type of a uint64 beside it, and so does a bool; what Numba makes of smaller
unsigned numbers does not (``docs/adr/0031-integers-stay-integers.md``).
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Sequence

from kerneldsl.frontend.arguments.known_values import Elements, Value
from kerneldsl.language.element_types import ELEMENT_TYPES

__all__ = [
    "ARITHMETIC",
    "CONVERTED",
    "Origin",
    "all_joined",
    "joined",
    "operated",
    "origin_of",
    "settled",
]

_UINT64 = "uint64"


class Origin(enum.IntEnum):
    """Origin of an integer, in the order in which more is learned of a variable."""

    UNKNOWN = 0
    """Nothing has been assigned to it yet."""
    TRUTH = 1
    """A bool, which is of the type of the integers beside it."""
    LITERAL = 2
    """Literals that are not negative."""
    NARROW = 3
    """An unsigned type of fewer than 64 bits, or what Numba makes of such."""
    WIDE = 4
    """The program says uint64."""
    OTHER = 5
    """Anything else."""


#: What is converted beside a uint64.
CONVERTED = (Origin.TRUTH, Origin.LITERAL)

ARITHMETIC = (
    ast.Add
    | ast.Sub
    | ast.Mult
    | ast.FloorDiv
    | ast.Mod
    | ast.Pow
    | ast.BitAnd
    | ast.BitOr
    | ast.BitXor
)


def origin_of(value: Value) -> Origin:
    """Return the origin of a value of a known type."""
    if isinstance(value, Elements) and not value.is_range:
        value = value.dtype  # of a tile, each element
    if not isinstance(value, str):
        return Origin.OTHER
    if value == _UINT64:
        return Origin.WIDE
    if value == "bool":
        return Origin.TRUTH
    return Origin.NARROW if ELEMENT_TYPES[value].is_unsigned else Origin.OTHER


def joined(one: Origin, other: Origin) -> Origin:
    """Return the origin of a value that is one of two."""
    low, high = sorted((one, other))
    if low in (Origin.UNKNOWN, Origin.TRUTH, high) or high is Origin.WIDE:
        return high
    return Origin.OTHER


def all_joined(origins: Sequence[Origin]) -> Origin:
    """Return the origin of a value that is one of several."""
    found = Origin.UNKNOWN
    for each in origins:
        found = joined(found, each)
    return found


def operated(op: ast.operator, left: Origin, right: Origin) -> Origin:
    """Return the origin of an operation of two values."""
    if isinstance(op, ast.LShift | ast.RShift):
        return Origin.OTHER if left is Origin.TRUTH else left
    if not isinstance(op, ARITHMETIC):
        return Origin.OTHER
    if Origin.UNKNOWN in (left, right):
        return Origin.UNKNOWN
    if Origin.TRUTH in (left, right) and Origin.WIDE not in (left, right):
        is_truth = left is right and isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor)
        return Origin.TRUTH if is_truth else Origin.OTHER
    if left is right is Origin.LITERAL and isinstance(op, ast.Sub):
        return Origin.OTHER
    return joined(left, right)


def settled(origins: Sequence[Origin]) -> Origin:
    """Return the origin of what a function returns in several places."""
    found = all_joined(origins)
    return Origin.OTHER if found in (Origin.UNKNOWN, Origin.LITERAL) else found
