"""Turn guards around what a row does into its bounds.

``if i < n:`` around everything that a row does becomes the bound ``min(high, n)``: no test is left
in the loop. A condition that all iterations share is tested before the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kerneldsl.ir.operations import Operation, Region, Value
from kerneldsl.ir.ranges import Interval
from kerneldsl.ir.recognize import is_false
from kerneldsl.ir.rewriter import clone, clone_region
from kerneldsl.ir.simplify import simplify
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.regions.index_arithmetic import IndexArithmetic
from targets.cpu.regions.index_forms import Bounds, IndexForms
from targets.cpu.regions.row_regions import defined_in, has_effects, if_then, row_like

__all__ = ["narrowed"]


@dataclass
class _Layer:
    """Operations, and a condition under which what follows them runs."""

    operations: list[Operation]
    condition: Value
    truth: bool


def narrowed(row: Operation, known: Mapping[Value, Interval]) -> list[Operation]:
    """Return a row with bounds in the place of its guards.

    `known` has intervals of values.
    """
    (region,) = row.regions
    layers, body = _layers(region)
    copied = {value for layer in layers for each in layer.operations for value in each.results}
    forms = IndexForms(region.arguments[0], defined_in(row) | copied, known)
    bounds, is_left = Bounds(), []
    for layer in layers:
        found = forms.bounds_of(layer.condition, truth=layer.truth)
        is_left.append(found is None)
        if found is not None:
            bounds.add(found)
    if all(is_left):
        return [row]
    out: list[Operation] = []
    make = IndexArithmetic(out)
    assumed = bounds.write_assumptions(make)
    # Both versions are made of the row as it is.
    careful = _copy(row) if assumed else None
    for layer, stays in zip(layers[::-1], is_left[::-1], strict=True):
        if stays:
            branch = if_then(layer.condition, *((body, ()) if layer.truth else ((), body)))
            body = [branch]
        body = [*layer.operations, *body]
    region.operations = [*body, Operation("yield", [])]
    simplify(region)  # conditions have been copied
    inner = _within(row, bounds)
    if careful is None:
        return [*out, *inner]
    out.append(if_then(make.all(assumed), inner, [careful]))
    return out


def _within(row: Operation, bounds: Bounds) -> list[Operation]:
    """Return a row within bounds, if the conditions hold."""
    out: list[Operation] = []
    make = IndexArithmetic(out)
    low, high = row.operands
    lows, highs = bounds.write_limits(make)
    for each in lows:
        low = make.larger(low, each)
    for each in highs:
        high = make.smaller(high, each)
    inner = row_like(row, row.regions[0], (low, high))
    conditions = bounds.write_conditions(make)
    out.append(if_then(make.all(conditions), [inner]) if conditions else inner)
    return out


def _copy(row: Operation) -> Operation:
    """Return the row that runs if an assumption does not hold: it stays as it is."""
    copied = row_like(row, clone_region(row.regions[0], {}))
    copied.attributes["rare"] = True
    return copied


def _layers(region: Region) -> tuple[list[_Layer], list[Operation]]:
    """Return the conditions around everything that a region does, and what it does under them."""
    layers: list[_Layer] = []
    operations = region.operations[:-1]
    while operations:
        *before, branch = operations
        if branch.name != "if" or branch.results or has_effects(before):
            break
        yes, no = branch.regions
        if yes.is_left or no.is_left:
            break
        if len(no.operations) == 1:
            truth, inner = True, yes
        elif len(yes.operations) == 1:
            truth, inner = False, no
        else:
            break
        parts = list(_parts(branch.operands[0], truth))
        if any(has_effects(each.operations) for each in parts):
            break
        parts[0].operations[:0] = before
        layers += parts
        operations = inner.operations[:-1]
    return layers, operations


def _parts(condition: Value, truth: bool) -> Iterator[_Layer]:
    """Yield the parts of ``and``, with what is computed for each.

    What a region of ``and`` computes is copied, because its result may have other uses.
    """
    made = condition.owner
    if truth and isinstance(made, Operation) and made.name == "if" and len(made.results) == 1:
        first, (yes, no) = made.operands[0], made.regions
        is_and = not (yes.is_left or no.is_left) and (
            no.yielded[0] is first or is_false(no.yielded[0])
        )
        if is_and:
            yield from _parts(first, True)
            values: dict[Value, Value] = {}
            copied = [clone(each, values) for each in yes.operations[:-1]]
            second = yes.yielded[0]
            inner = list(_parts(values.get(second, second), True))
            inner[0].operations[:0] = copied
            yield from inner
            return
    yield _Layer([], condition, truth)
