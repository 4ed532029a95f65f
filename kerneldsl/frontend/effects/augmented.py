"""Augmented assignments of variables that may be views of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kerneldsl.errors import SourceLocation
from kerneldsl.language.kinds import Kind

__all__ = ["Augmented"]


class Augmented(NamedTuple):
    """An augmented assignment of a variable that may hold a view of a parameter's array."""

    #: Of the parameter.
    position: int
    #: How many indices lead from the array to the value. It is an element where the array has no
    #: more axes, and else a view, which the assignment changes in place.
    index_count: int
    #: The assignment.
    where: SourceLocation
    #: For each of these indices that may be a tuple, and so more than one, which tuples it may be
    #: (:mod:`kerneldsl.frontend.effects.tuple_indices`).
    tuples: tuple[frozenset[int], ...]

    def indices(self, kinds: Sequence[Kind]) -> int:
        """Return how many indices lead to the value where the arguments are of these kinds."""
        if not self.tuples:
            return self.index_count
        from kerneldsl.frontend.effects.tuple_indices import longest  # few indices are tuples

        return self.index_count + sum(longest(each, kinds) - 1 for each in self.tuples)
