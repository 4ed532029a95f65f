"""Conditions on packed arguments beyond their kinds, tested in each native launch.

Code may be compiled under promises: memory that does not overlap, aligned pointers, small extents.
Native code launches it only if its conditions hold. Otherwise the launch goes to Python, which
chooses other code. A module that chooses code by the values of arguments describes with these
conditions what the choice depends on. They name parameters by their numbers in
:attr:`~kerneldsl.contract.abi.ParameterLayout.parameters`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias

from kerneldsl.contract.abi import ArrayParameters, Parameter, ParameterLayout
from kerneldsl.language.element_types import ElementKind, names_of
from kerneldsl.language.kinds import ArrayKind
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "CONDITION_WORDS",
    "Aligned",
    "Condition",
    "ConditionKind",
    "Distinct",
    "Few",
    "PackedCondition",
    "Same",
    "Within",
    "pack_conditions",
    "rank_word",
]

CONDITION_WORDS = 8
_INT64 = (-(2**63), 2**63 - 1)
_SIGNED = names_of(ElementKind.SIGNED)


class ConditionKind(IntEnum):
    """Comparison of a condition."""

    ALIGNED = 0
    SAME = 1
    WITHIN = 2
    FEW = 3
    DISTINCT = 4


@dataclass(frozen=True, slots=True)
class Aligned:
    """A pointer, extent or stride is a multiple of a number, or so much more than one."""

    #: Number of a parameter of 64 bits.
    parameter: int
    #: A power of two.
    of: int
    #: Remainder of the division by `of`.
    rest: int = 0


@dataclass(frozen=True, slots=True)
class Same:
    """Two pointers, extents or strides are equal."""

    #: Parameters of 64 bits.
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Within:
    """An integer, extent or stride is between two numbers."""

    #: An integer of up to 64 bits, but no ``uint64``.
    parameter: int
    #: The smallest and the largest that will do.
    low: int = _INT64[0]
    high: int = _INT64[1]
    #: Whether the parameter is an extent or stride; then a known array fulfils the condition again.
    is_of_array: bool = False


@dataclass(frozen=True, slots=True)
class Few:
    """The extents of an array, and the number of its elements, are at most some number."""

    #: Number of the parameter with the first extent; the others follow it.
    parameter: int
    #: Number of extents.
    ndim: int
    #: The largest permitted number; below 2³².
    high: int


@dataclass(frozen=True, slots=True)
class Distinct:
    """Two arrays have no byte in common.

    All that is between an array's first and last element counts as its own, whatever its strides
    leave out; an empty one has nothing.
    """

    #: The arrays.
    first: ArrayParameters
    second: ArrayParameters


Condition: TypeAlias = Aligned | Same | Within | Few | Distinct


@dataclass(frozen=True, slots=True)
class PackedCondition:
    """A condition in terms of the parameter buffer."""

    #: The kind of comparison.
    kind: ConditionKind
    #: Offsets of one or two parameters, in bytes from the start of the parameters.
    offsets: tuple[int, ...]
    #: Operands, by kind. ``ALIGNED``: the divisor less one, and the remainder. ``SAME``: none.
    #: ``WITHIN``: bytes of the parameter (with 256 added if it is signed), smallest and largest
    #: value. ``FEW``: rank and largest number. ``DISTINCT``: for each array its :func:`rank_word`
    #: and the bytes of an element.
    numbers: tuple[int, ...] = ()

    def words(self, before: int) -> tuple[int, ...]:
        """Return the condition as native code reads it; parameters begin at byte `before`."""
        found = (self.kind, *(offset + before for offset in self.offsets), *self.numbers)
        return (*found, *(0,) * (CONDITION_WORDS - len(found)))


def rank_word(kind: ArrayKind) -> int:
    """Return an array's rank as native code reads it: with 256 added where strides are passed."""
    return kind.ndim + (256 if kind.layout == "A" else 0)


def pack_conditions(
    conditions: Sequence[Condition], layout: ParameterLayout
) -> list[PackedCondition]:
    """Express conditions in terms of the parameter buffer of an entry."""
    return [_pack(condition, layout.parameters) for condition in conditions]


def _pack(condition: Condition, parameters: Sequence[Parameter]) -> PackedCondition:
    if isinstance(condition, Aligned):
        offsets: tuple[int, ...] = (parameters[condition.parameter].offset,)
        return PackedCondition(ConditionKind.ALIGNED, offsets, (condition.of - 1, condition.rest))
    if isinstance(condition, Same):
        offsets = tuple(parameters[p].offset for p in (condition.first, condition.second))
        return PackedCondition(ConditionKind.SAME, offsets)
    if isinstance(condition, Within):
        parameter = parameters[condition.parameter]
        width = parameter.nbytes + (256 if parameter.dtype in _SIGNED else 0)
        numbers: tuple[int, ...] = (width, condition.low, condition.high)
        return PackedCondition(ConditionKind.WITHIN, (parameter.offset,), numbers)
    if isinstance(condition, Few):
        # An array of rank 0 has no parameters for extents, and nothing is read.
        offset = parameters[condition.parameter].offset if condition.ndim else 0
        return PackedCondition(ConditionKind.FEW, (offset,), (condition.ndim, condition.high))
    arrays = (condition.first, condition.second)
    numbers = ()
    for array in arrays:
        numbers += (rank_word(array.kind), array.item_bytes)
    offsets = tuple(parameters[array.pointer].offset for array in arrays)
    return PackedCondition(ConditionKind.DISTINCT, offsets, numbers)
