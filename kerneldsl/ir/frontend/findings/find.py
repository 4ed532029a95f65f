"""Find what to warn of in a kernel.

Each analysis is a module of this package and a row of :func:`_findings`. The row says what a kernel
has that the analysis is about. Most kernels have none of it, and import no analysis.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numba import types

from kerneldsl.contract.findings import Finding
from kerneldsl.ir.frontend.source_names import SourceNames
from kerneldsl.ir.operations import Function, Operation, Value
from kerneldsl.ir.recognize import operator_of
from kerneldsl.lowering.numba_extremes import numba_print
from kerneldsl.utilities.cached_property import cached_property

if TYPE_CHECKING:
    from kerneldsl.ir.frontend.findings.flow import Flow

__all__ = ["add_findings"]

_POWERS = (operator.pow, pow, np.power)


def add_findings(function: Function, names: SourceNames) -> None:
    """Add what to warn of to a function as it was read, each place once, and its wide stores.

    `names` are the variables of the source.
    """
    kernel = _Kernel(function, names)
    found: dict[tuple[int, str], Finding] = {}
    for each in _findings(kernel):
        found.setdefault((id(each.place.node), each.text), each)
    function.findings = tuple(found.values())
    if (types.float64, types.float32) in kernel.casts:
        from kerneldsl.ir.frontend.findings.widening import wide_stores

        function.wide_stores = tuple(wide_stores(kernel.flow, function))


def _findings(kernel: _Kernel) -> Iterator[Finding]:
    if kernel.has_unsigned:
        from kerneldsl.ir.frontend.findings.signs import sign_changes

        yield from sign_changes(kernel.flow)
    if kernel.cuts_fractions:
        from kerneldsl.ir.frontend.findings.stores import lossy_stores

        yield from lossy_stores(kernel.flow)
    if kernel.compares_atomically:
        from kerneldsl.ir.frontend.findings.extremes import changed_extremes

        yield from changed_extremes(kernel.flow, kernel.function)
    if kernel.has_unsigned:
        from kerneldsl.ir.frontend.findings.differences import unsigned_differences

        yield from unsigned_differences(kernel.flow)
    if kernel.has_unsigned and kernel.shifts_right:
        from kerneldsl.ir.frontend.findings.shifts import widened_shifts

        yield from widened_shifts(kernel.flow)
    if kernel.powers:
        from kerneldsl.ir.frontend.findings.powers import negative_powers

        yield from negative_powers(kernel.powers)
    if kernel.prints:
        from kerneldsl.ir.frontend.findings.prints import long_prints

        yield from long_prints(kernel.prints)
    if kernel.stores_at_fixed_places:
        from kerneldsl.ir.frontend.findings.updates import lost_updates

        yield from lost_updates(kernel.flow)


class _Kernel:
    """A function as it was read, and what its operations have."""

    def __init__(self, function: Function, names: SourceNames) -> None:
        self.function = function
        self._names = names
        operations = list(function.body.walk())
        values = [*function.body.arguments, *(each for op in operations for each in op.results)]
        kinds = {value.type for value in values}
        self.has_unsigned = any(isinstance(k, types.Integer) and not k.signed for k in kinds)
        #: The types that conversions convert, and those that they convert to.
        self.casts = {
            (each.operands[0].type, each.result.type) for each in operations if each.name == "cast"
        }
        self.cuts_fractions = any(
            isinstance(one, types.Float) and isinstance(other, types.Integer)
            for one, other in self.casts
        )
        self.compares_atomically = any(each.name.startswith("atomic.") for each in operations)
        self.shifts_right = any(operator_of(each) is operator.rshift for each in operations)
        self.powers = [each for each in operations if operator_of(each) in _POWERS]
        #: Prints by numba.cuda's rules.
        self.prints = [op for op in operations if op.attributes.get("function") is numba_print]
        #: Whether all indices of some store are plain values, not results of computations.
        self.stores_at_fixed_places = any(
            each.name == "array.store" and all(map(_is_plain, each.operands[1:-1]))
            for each in operations
        )

    @cached_property
    def flow(self) -> Flow:
        """The uses and merges of its values."""
        from kerneldsl.ir.frontend.findings.flow import Flow

        return Flow(self.function, self._names)


def _is_plain(index: Value) -> bool:
    """Return whether an index is a constant, or an argument of a region."""
    made = index.owner
    return not isinstance(made, Operation) or made.name in ("const", "cast")
