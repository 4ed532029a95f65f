"""Branches and loops around an operation, and operations before it in which lanes left."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from kerneldsl.ir.operations import LOOPS, Function, Label, Operation, Region

__all__ = ["Context", "Contexts", "Guard", "Leaving", "Round"]


class Guard(NamedTuple):
    """A branch with a condition that holds where an operation is executed, or that does not."""

    branch: Operation
    holds: bool


class Leaving(NamedTuple):
    """An operation before, in which some lanes left."""

    operation: Operation


class Round(NamedTuple):
    """A loop around an operation."""

    loop: Operation


Context: TypeAlias = tuple["Guard | Leaving | Round", ...]


class Contexts:
    """The context of each operation of a kernel.

    Parameters
    ----------
    function : Function
        The kernel.
    """

    def __init__(self, function: Function) -> None:
        self._contexts: dict[Operation, Context] = {}
        #: Operations to the ``leave`` operations in them by which lanes leave them.
        self._leaves: dict[Operation, list[Operation]] = {}
        self._find_leaves(function.body)
        self._enter(function.body, ())

    def of(self, operation: Operation) -> Context:
        """Return what is around an operation, outermost first."""
        return self._contexts[operation]

    def is_left(self, operation: Operation) -> bool:
        """Return whether lanes may leave an operation before its end."""
        return bool(self._leaves[operation])

    def _find_leaves(self, region: Region) -> list[Operation]:
        found = []
        for each in region.operations:
            inside = [leave for inner in each.regions for leave in self._find_leaves(inner)]
            label: Label | None = each.attributes.get("label")
            if each.name == "leave":
                inside.append(each)
            elif label is not None:
                inside = [leave for leave in inside if leave.attributes["label"] is not label]
            self._leaves[each] = inside
            found += inside
        return found

    def _enter(self, region: Region, context: Context) -> None:
        for each in region.operations:
            self._contexts[each] = context
            for number, inner in enumerate(each.regions):
                if each.name == "if":
                    self._enter(inner, (*context, Guard(each, number == 0)))
                elif each.name in LOOPS:
                    self._enter(inner, (*context, Round(each)))
                else:
                    self._enter(inner, context)
            if self._leaves[each]:
                context = (*context, self._after(each))

    def _after(self, operation: Operation) -> Guard | Leaving:
        """Return what holds after an operation in which lanes may have left."""
        if operation.name == "if" and len(self._leaves[operation]) == 1:
            for number, region in enumerate(operation.regions):
                if region.is_left:
                    return Guard(operation, number != 0)
        return Leaving(operation)
