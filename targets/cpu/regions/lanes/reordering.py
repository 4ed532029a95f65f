"""Find rows with accesses that LLVM must not reorder.

Iterations of a row may run in any order, and its loop is marked so. LLVM's vectorizer then takes
all accesses for independent, also those of one iteration. It combines accesses that are a constant
stride apart: all are loaded before the first, and stored after the last. A thread must load what it
stored ::

    out[2 * i] = x[2 * i] * c - x[2 * i + 1] * s
    out[2 * i + 1] = x[2 * i] * s + x[2 * i + 1] * c      # x may be out

Such a row is not marked, and LLVM compares addresses. Elements that are side by side are not
combined, unless LLVM unrolls the loop before (docs/upstream.md).
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Collection, Iterator

from numba import types

from kerneldsl.ir.operations import LOOPS, Operation, Region, Value
from kerneldsl.ir.recognize import operands_of, operator_of
from targets.cpu.codegen.storage import is_of_block, may_share
from targets.cpu.regions.lanes.values import LaneValues, place_of

__all__ = ["Order", "order_of"]

#: Operators of sums and products, also of ``or`` without common bits.
_AFFINE = (operator.add, operator.sub, operator.mul, operator.lshift, operator.or_, operator.neg)
_STORES = ("array.store", "item.set")


class Order(enum.Enum):
    """Needs of the accesses of one iteration of a row."""

    ANY = enum.auto()
    #: That the loop is not unrolled before it makes vectors.
    SIDE_BY_SIDE = enum.auto()
    #: That it compares addresses.
    COMPARED = enum.auto()


def order_of(row: Operation, parameters: Collection[Value]) -> Order:
    """Return what the accesses of one iteration need, in a kernel with some parameters."""
    pairs = [
        (one, two)
        for one, two in _pairs(row.regions[0])
        if may_share(_array(one), _array(two), parameters)
    ]
    if not pairs:
        return Order.ANY
    values = LaneValues(row)
    accesses = {access for pair in pairs for access in pair}
    if any(_is_strided(each, values) for each in accesses):
        return Order.COMPARED
    # Other rows are not unrolled before LLVM makes vectors of them.
    has_loops = any(each.name in LOOPS for each in row.regions[0].walk())
    return Order.SIDE_BY_SIDE if has_loops else Order.ANY


def _pairs(region: Region) -> Iterator[tuple[Operation, Operation]]:
    """Yield each store with each access that may run after it."""
    stores: list[Operation] = []
    for operation in region.operations:
        if operation.regions:
            inner = [each for each in operation.walk() if _is_access(each)]
            again = [each for each in inner if each.name in _STORES]
            yield from ((one, two) for one in stores for two in inner)
            if operation.name in LOOPS:
                yield from ((one, two) for one in again for two in inner)
            else:
                for each in operation.regions:
                    yield from _pairs(each)
            stores += again
        elif _is_access(operation):
            yield from ((one, operation) for one in stores)
            if operation.name in _STORES:
                stores.append(operation)


def _is_access(operation: Operation) -> bool:
    return operation.name in _STORES or operation.name in ("array.load", "item")


def _array(access: Operation) -> Value:
    """Return the array that an access is of, or the record itself."""
    found = access.operands[0]
    made = found.owner
    if access.name.startswith("item") and isinstance(made, Operation) and made.operands:
        found = made.operands[0]
    return found


def _is_strided(access: Operation, values: LaneValues) -> bool:
    """Return whether LLVM may know that neighbours access elements that are some apart."""
    if access.name.startswith("item") or isinstance(access.operands[0].type.dtype, types.Record):
        return True
    array, indices = place_of(access)
    if array.type.layout == "A":
        return False
    if array.type.layout == "F":
        indices = indices[::-1]
    if not indices:
        return False
    *rows, last = indices
    if any(each in values.varying for each in rows):
        return is_of_block(array)
    return values.stride(last) not in (0, 1, -1) and _is_affine(last, values)


def _is_affine(index: Value, values: LaneValues) -> bool:
    """Return whether LLVM may find that an index grows by a constant from thread to thread."""
    if index is values.lane or index not in values.varying:
        return True
    made = index.owner
    if not isinstance(made, Operation):
        return False
    is_sum = made.name == "cast" or operator_of(made) in _AFFINE
    return is_sum and all(_is_affine(each, values) for each in operands_of(made))
