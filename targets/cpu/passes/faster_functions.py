"""Choose among the functions that a kernel may be written from.

Functions are inlined, and local arrays become variables or are laid out for rows of threads, if
that lets threads run together. Whether it does is known when loops have been chosen.
"""

from __future__ import annotations

from collections.abc import Iterator

from kerneldsl.analysis.expressions import assigned_names
from kerneldsl.analysis.inline import inline_block_functions
from kerneldsl.contract import Specialization
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.passes.local_elements import with_constant_extents, with_element_variables
from targets.cpu.passes.loop_functions import functions_with_loops

__all__ = ["NO_REQUIREMENTS", "VariantRequirements", "faster_functions"]


@dataclass(frozen=True)
class VariantRequirements:
    """Requirements of a variant of a kernel; it is written only if they hold."""

    #: Whether loops must have moved outside those over threads.
    has_rows: bool = False
    #: Arrays that only such loops may use. They are named by the calls that declare them, and
    #: have the elements of neighbouring threads side by side.
    spread: frozenset[str] = frozenset()
    #: Variables that loops over single threads may use only with contiguous accesses.
    contiguous: frozenset[str] = frozenset()


#: Every function fulfills these.
NO_REQUIREMENTS = VariantRequirements()


def faster_functions(
    spec: Specialization, flat: FunctionUnit, *, keeps_arrays: bool
) -> Iterator[tuple[FunctionUnit, VariantRequirements]]:
    """Yield variants that may be faster than the kernel with inlined block functions, best first.

    Each is made after the ones before it did not meet their requirements.
    """
    with_elements = flat
    if not keeps_arrays:
        with_elements = with_element_variables(flat, wraparound=spec.options.wraparound)
    new = frozenset(assigned_names(with_elements.tree) - assigned_names(flat.tree))
    units = (with_elements, flat) if with_elements is not flat else (flat,)
    for unit in units:
        contiguous = new if unit is with_elements else frozenset[str]()
        if also := functions_with_loops(unit):
            yield (
                inline_block_functions(unit, also),
                VariantRequirements(has_rows=True, contiguous=contiguous),
            )
        fixed, arrays = with_constant_extents(unit)
        if arrays and not spec.traits.syncs_grid:
            yield fixed, VariantRequirements(spread=arrays, contiguous=contiguous)
        if unit is not flat:
            yield unit, VariantRequirements(contiguous=contiguous)
