"""Count operations on floats, and divisions of integers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from kerneldsl.analysis.operations import SELECTIONS
from kerneldsl.explain.lane_memory import LaneMemory
from kerneldsl.explain.sites import site_of
from kerneldsl.explain.tally import DivisionTally, FloatTally
from kerneldsl.explain.values import Value
from kerneldsl.ir.frontend.written import kind_of
from kerneldsl.ir.operation_classes import class_of
from kerneldsl.ir.operations import Operation
from kerneldsl.ir.recognize import constant_number
from kerneldsl.language.kinds import ScalarKind
from kerneldsl.language.types import Type

__all__ = ["count_floats", "count_operation"]


def count_operation(run: LaneMemory, operation: Operation, values: Sequence[Value]) -> None:
    """Count an operation on floats, or a division of integers, of some values."""
    found, result = class_of(operation), kind_of(operation.result)
    if found is None or not isinstance(result, ScalarKind):
        return
    if result.element.is_float or result.element.is_complex:
        if found.name not in SELECTIONS:
            count_floats(run, operation, result, found.name)
    elif (
        found.name in ("div", "mod")
        and constant_number(operation.operands[1]) is None
        and not operation.attributes.get("is_implied")
    ):
        _divide(run, operation, result, values)


def count_floats(
    run: LaneMemory,
    operation: Operation,
    kind: ScalarKind,
    name: str,
    times: Fraction = Fraction(1),
) -> None:
    """Count an operation on floats, or on complex numbers of floats, so often for each thread."""
    dtype = kind.dtype
    if kind.element.is_complex:
        dtype, name = kind.element.arithmetic, f"complex {name}"
    site = site_of(operation)
    made = FloatTally(site, dtype, name, times)
    tally = run.tallies.floats.setdefault((site.node, dtype, name), made)
    tally.operations[operation] = None
    tally.count += run.weight * run.active.threads * float(times)


def _divide(
    run: LaneMemory, operation: Operation, result: ScalarKind, values: Sequence[Value]
) -> None:
    site = site_of(operation)
    is_narrow = all(map(_is_narrow, map(kind_of, operation.operands)))
    made = DivisionTally(site, result.dtype, is_narrow)
    tally = run.tallies.divisions.setdefault(site.node, made)
    tally.count += run.weight * run.active.threads
    tally.fits = tally.fits and all(_fits(run, each) for each in values)


def _fits(run: LaneMemory, value: Value) -> bool:
    """Return whether a value is from 0 to 2**32 - 1 in all lanes at work."""
    if not isinstance(value, int | np.integer | np.ndarray):
        return False
    found = np.broadcast_to(value, run.active.mask.shape)[run.active.mask]
    return bool(found.size == 0 or (found.min() >= 0 and found.max() < 1 << 32))


def _is_narrow(kind: Type | None) -> bool:
    """Return whether a type is an unsigned integer of 32 bits or fewer."""
    return isinstance(kind, ScalarKind) and kind.element.is_unsigned and kind.element.nbytes <= 4
