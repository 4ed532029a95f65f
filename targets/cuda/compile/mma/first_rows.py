"""Factors with the first rows of an array, as those up to the end of a group of rows.

``kd.tile.load(a[:end], …)`` has zeros from row `end` on. A copy by a tensor map has what the array
has there. Then the rows of the product from there on are wrong, and only they. So the result must
be stored to ``c[:end]``, at the same rows, and nothing else may read it. A warpgroup without other
rows does not multiply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from numba import types

from kerneldsl.ir.operations import Function, Operation, Region, Value
from kerneldsl.ir.ranges import Interval, interval_in
from targets.cuda.compile.mma.mapped_loads import NotPlanned, end_of

__all__ = ["find_ends"]

_REASON = "a factor has the first rows of an array"
_MAX_INDEX = 2**63 - 1


def find_ends(
    function: Function,
    products: Sequence[Operation],
    loops: Set[Region],
    uses: Mapping[Value, Sequence[Operation]],
    known: Mapping[Value, Interval],
) -> dict[Operation, tuple[Value, Value]]:
    """Return the number of the first row, and the end, of products with such factors.

    Raises
    ------
    NotPlanned
        If other rows of the result may be read.
    """
    found = {}
    for product in products:
        loads = [value.owner for value in product.operands[:2]]
        ends = [_end_of_load(each) for each in loads]
        if ends == [None, None]:
            continue
        end, load = ends[0], loads[0]
        if end is None or ends[1] is not None or product.attributes["exchanged"][0]:
            raise NotPlanned(f"{_REASON}, and not as rows of the result")
        if not _is_index(end, known):
            raise NotPlanned(f"{_REASON} up to a number that may be negative")
        assert isinstance(load, Operation)
        row = load.operands[2]
        if not all(_stores(each, end, row) for each in _readers(function, product, loops, uses)):
            raise NotPlanned(f"{_REASON}, and other rows of the result may be read")
        found[product] = (row, end)
    return found


def _end_of_load(made: Operation | Region | None) -> Value | None:
    if not isinstance(made, Operation) or made.name != "tile.load":
        return None
    return end_of(made.operands[0])


def _is_index(end: Value, known: Mapping[Value, Interval]) -> bool:
    """Return whether an end cannot count from the last row, as a negative one does."""
    low, high = interval_in(known, end)
    return isinstance(end.type, types.Integer) and low >= 0 and high <= _MAX_INDEX


def _readers(
    function: Function,
    product: Operation,
    loops: Set[Region],
    uses: Mapping[Value, Sequence[Operation]],
) -> Sequence[Operation]:
    """Return what reads a product that the iterations of a loop add to each other."""
    for loop in function.body.walk():
        if loops.isdisjoint(loop.regions) or product not in loop.regions[0].operations:
            continue
        region, added = loop.regions[0], product.operands[2:]
        end = region.operations[-1]
        if added and added[0] in region.arguments and uses[added[0]] == [product]:
            place = region.arguments.index(added[0]) - 1  # the counter is first
            if uses[product.result] == [end] and end.operands[place] is product.result:
                return uses.get(loop.results[place], ())
    return [product]


def _stores(reader: Operation, end: Value, row: Value) -> bool:
    """Return whether an operation stores a result to rows before `end`, from a row on."""
    if reader.name != "tile.store" or any(reader.attributes["transposed"]):
        return False
    array, first = reader.operands[:2]
    return first is row and end_of(array) is end
