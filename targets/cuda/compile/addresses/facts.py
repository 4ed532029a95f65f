"""Promises of a launch about an entry's parameters, by their numbers in PTX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from kerneldsl.contract import Specialization
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["NO_FACTS", "ParameterFacts", "facts_of"]


@dataclass(frozen=True)
class ParameterFacts:
    """Facts of parameters."""

    #: The pointers of arrays without gaps and with fewer than 2**31 elements, to the bytes of an
    #: element. Each access through such a pointer is to an element of its array.
    arrays: Mapping[int, int] = field(default_factory=dict)
    #: Extents, and other integers, from 0 to 2**31 - 1.
    extents: frozenset[int] = frozenset()
    #: The first thread of each block has a number of at most
    #: :data:`~kerneldsl.contract.promises.NARROW_THREADS` along each axis.
    is_grid_narrow: bool = False


NO_FACTS = ParameterFacts()


def facts_of(specialization: Specialization) -> ParameterFacts:
    """Return what the promises of a specialization say of its parameters."""
    if not specialization.promises.is_narrow or specialization.options.debug:
        return NO_FACTS
    layout = specialization.layout
    arrays = {each.pointer: each.item_bytes for each in layout.arrays if not each.strides}
    extents = {number for each in layout.arrays for number in each.extents}
    if specialization.promises.has_narrow_integers:
        extents.update(layout.integers)
    count, ndim = len(layout.parameters), specialization.mode.forall_ndim
    extents.update(range(count - (ndim or 0), count))
    # Under ``forall``, blocks of other kernels may have more threads than indices.
    is_grid_narrow = ndim is None or specialization.traits.uses_grid_only
    return ParameterFacts(arrays, frozenset(extents), is_grid_narrow)
