"""Check the rules that every function obeys between passes."""

from __future__ import annotations

from numba import types

from kerneldsl.ir.operations import Function, Label, Operation, Region, Value

__all__ = ["VerificationError", "verify"]

#: Regions of the structured operations; their yields are the operation's results.
_YIELDS_RESULTS = {"if", "for", "for_each", "labeled"}
_ENDS = {"yield", "leave", "unreachable"}


class VerificationError(Exception):
    """A pass made a function that breaks a rule."""


def verify(function: Function) -> None:
    """Raise :class:`VerificationError` for the first broken rule.

    Each value is defined before it is read, in the same region or in one around it. Each region
    ends with its only ``yield``, ``leave`` or ``unreachable``. A ``leave`` is inside the operation
    that it leaves. The types of a ``yield`` or ``leave`` are those of the results that it gives.
    The region of a tile expression has an element of each tile, and one value.
    An access of an element has an integer for each axis, and the type of the elements.
    """
    _region(function.body, set(), {})


def _region(region: Region, known: set[Value], labels: dict[Label, Operation]) -> None:
    known = known | set(region.arguments)
    for number, operation in enumerate(region.operations):
        for value in operation.operands:
            if value not in known:
                raise VerificationError(f"{operation.name} reads a value that is not defined")
        is_last = number == len(region.operations) - 1
        if (operation.name in _ENDS) != is_last:
            raise VerificationError("a region ends with its only yield")
        if operation.name == "leave":
            left = labels.get(operation.attributes["label"])
            if left is None:
                raise VerificationError("leave is not in the operation that it leaves")
            _same(operation, operation.operands, left.results)
        inside = labels
        if operation.name == "labeled":
            inside = {**labels, operation.attributes["label"]: operation}
        for inner in operation.regions:
            _region(inner, known, inside)
        _yields(operation)
        if "transposed" in operation.attributes:
            _elements(operation)
        _accesses(operation)
        known.update(operation.results)
    if not region.operations:
        raise VerificationError("a region ends with a yield")


def _yields(operation: Operation) -> None:
    if operation.name in _YIELDS_RESULTS:
        for region in operation.regions:
            if not region.is_left:
                _same(operation, region.yielded, operation.results)
    if operation.name in ("for", "for_each"):
        count = len(operation.results)
        (region,) = operation.regions
        _same(operation, operation.operands[-count:] if count else [], operation.results)
        _same(operation, region.arguments[-count:] if count else [], operation.results)
    if operation.name == "while":
        before, body = operation.regions
        for each in (operation.operands, before.arguments, body.arguments):
            _same(operation, each, operation.results)
        if not body.is_left:
            _same(operation, body.yielded, operation.results)


def _elements(operation: Operation) -> None:
    """Check the region of a tile expression: an element of each tile, then indices."""
    attributes = operation.attributes
    tiles = operation.operands[attributes["first"] :]
    region = operation.regions[0]
    found = [value.type for value in region.arguments]
    expected = [tile.type.dtype for tile in tiles] + [types.int64] * len(attributes["axes"])
    if found != expected or len(attributes["transposed"]) != len(tiles):
        raise VerificationError(f"{operation.name}: elements {found} are not {expected}")
    if len(region.yielded) != 1:
        raise VerificationError(f"{operation.name}: an expression has one value")


def _accesses(operation: Operation) -> None:
    if operation.name in ("array.load", "array.store", "array.part"):
        array, *indices = operation.operands
        given = operation.results
        if operation.name == "array.store":
            *indices, value = indices
            given = [value]
        if not isinstance(array.type, types.Array):
            raise VerificationError(f"{operation.name} of {array.type}")
        is_element = len(indices) == array.type.ndim
        if is_element == (operation.name == "array.part"):
            raise VerificationError(f"{operation.name} has {len(indices)} indices")
        if not all(isinstance(each.type, types.Integer) for each in indices):
            raise VerificationError(f"{operation.name} has an index that is no integer")
        if is_element and given[0].type != array.type.dtype:
            raise VerificationError(f"{operation.name} of {given[0].type} in {array.type}")
    if operation.name == "tuple.member":
        members = operation.operands[0].type.types
        if members[operation.attributes["number"]] != operation.result.type:
            raise VerificationError("a member of a tuple has another type")


def _same(operation: Operation, values: list[Value], results: list[Value]) -> None:
    found = [value.type for value in values]
    expected = [value.type for value in results]
    if found != expected:
        raise VerificationError(f"{operation.name}: {found} is not {expected}")
