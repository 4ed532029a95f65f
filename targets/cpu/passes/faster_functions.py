"""Choose among the functions that a kernel may be written from.

Functions are inlined, and local arrays become variables or are laid out for rows of threads, where
that lets threads run together; whether it does is known when loops have been chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kerneldsl.analysis.expressions import assigned_names
from kerneldsl.analysis.inline import inline_block_functions
from kerneldsl.contract import Specialization
from kerneldsl.frontend.unit import FunctionUnit
from targets.cpu.passes.local_elements import with_constant_extents, with_element_variables
from targets.cpu.passes.loop_functions import functions_with_loops

__all__ = ["ANYTHING", "Wanted", "faster_functions"]


@dataclass(frozen=True)
class Wanted:
    """The conditions under which a function is written at all."""

    #: Loops that were moved outside those over threads.
    has_rows: bool = False
    #: That all loops with these arrays are such loops. They are named by the calls that declare
    #: them, and have the elements of neighbouring threads side by side.
    spread: frozenset[str] = frozenset()
    #: That threads by themselves use these variables where vectors serve them alone.
    near: frozenset[str] = frozenset()


#: Nothing is asked of a function.
ANYTHING = Wanted()


def faster_functions(
    spec: Specialization, flat: FunctionUnit, *, keeps_arrays: bool
) -> Iterator[tuple[FunctionUnit, Wanted]]:
    """Yield functions that may be faster than the one whose block functions are inlined, in order.

    Each is made when the ones before it turned out not to be what is wanted of them.
    """
    with_elements = flat
    if not keeps_arrays:
        with_elements = with_element_variables(flat, wraparound=spec.options.wraparound)
    new = frozenset(assigned_names(with_elements.tree) - assigned_names(flat.tree))
    units = (with_elements, flat) if with_elements is not flat else (flat,)
    for unit in units:
        near = new if unit is with_elements else frozenset[str]()
        if also := functions_with_loops(unit):
            yield inline_block_functions(unit, also), Wanted(has_rows=True, near=near)
        fixed, arrays = with_constant_extents(unit)
        if arrays and not spec.traits.syncs_grid:
            yield fixed, Wanted(spread=arrays, near=near)
        if unit is not flat:
            yield unit, Wanted(near=near)
