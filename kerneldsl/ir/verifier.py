"""Check the rules that every function obeys between passes."""

from __future__ import annotations

from kerneldsl.ir.operations import Function, Operation, Region, Value

__all__ = ["VerificationError", "verify"]

#: Regions of the structured operations; their yields are the operation's results.
_YIELDS_RESULTS = {"if", "for", "for_each"}


class VerificationError(Exception):
    """A pass made a function that breaks a rule."""


def verify(function: Function) -> None:
    """Raise :class:`VerificationError` for the first broken rule.

    Each value is defined before it is read, in the same region or in one around it. Each region
    ends with its only ``yield``. The types of a yield are those of what it becomes.
    """
    _region(function.body, set())


def _region(region: Region, known: set[Value]) -> None:
    known = known | set(region.arguments)
    for number, operation in enumerate(region.operations):
        for value in operation.operands:
            if value not in known:
                raise VerificationError(f"{operation.name} reads a value that is not defined")
        is_last = number == len(region.operations) - 1
        if (operation.name == "yield") != is_last:
            raise VerificationError("a region ends with its only yield")
        for inner in operation.regions:
            _region(inner, known)
        _yields(operation)
        known.update(operation.results)
    if not region.operations:
        raise VerificationError("a region ends with a yield")


def _yields(operation: Operation) -> None:
    if operation.name in _YIELDS_RESULTS:
        for region in operation.regions:
            _same(operation, region.yielded, operation.results)
    if operation.name in ("for", "for_each"):
        count = len(operation.results)
        (region,) = operation.regions
        _same(operation, operation.operands[-count:] if count else [], operation.results)
        _same(operation, region.arguments[1:], operation.results)
    if operation.name == "while":
        before, body = operation.regions
        for each in (operation.operands, before.arguments, body.arguments, body.yielded):
            _same(operation, each, operation.results)


def _same(operation: Operation, values: list[Value], results: list[Value]) -> None:
    found = [value.type for value in values]
    expected = [value.type for value in results]
    if found != expected:
        raise VerificationError(f"{operation.name}: {found} is not {expected}")
