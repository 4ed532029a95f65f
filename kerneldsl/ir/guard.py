"""Find the guard around a kernel's work that can be tested for many indices at once.

An element kernel usually works under one condition on its index: ``if 0 < i < n - 1: …``. It may
also return before the rest: ``if i >= n: return``. Such a guard is often a system of linear
inequalities in the coordinates of ``grid``. Then the indices that pass it are convex: if the
corners of a box of indices pass, all of the box does.
"""

from __future__ import annotations

import enum
import operator
from dataclasses import field
from typing import TypeAlias

from numba import types

from kerneldsl.ir.operations import Effect, Function, Operation, Region, Value
from kerneldsl.ir.recognize import comparison_of, constant_number, operator_of, parts_of
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Guard", "find_guard"]

#: Factors of a coordinate that cannot take it out of int64, whatever the extent is.
_MAX_FACTOR = 16
_RELATIONS = (operator.lt, operator.le, operator.gt, operator.ge)
_SUMS = (operator.add, operator.sub)
_PURE = frozenset(("const", "cast", "numba", "array.size", "array.extent", "grid", "gridsize"))


@dataclass
class Guard:
    """The branches that an index has to pass."""

    #: The branches, from the outermost on.
    branches: list[Operation] = field(default_factory=list)
    #: Index of the region of each branch that runs if the guard is passed: 1 if the first region
    #: returns.
    passed: list[int] = field(default_factory=list)
    #: The arithmetic before each branch.
    before: list[list[Operation]] = field(default_factory=list)

    def add(self, branch: Operation, passed: int, before: list[Operation]) -> None:
        self.branches.append(branch)
        self.passed.append(passed)
        self.before.append(before)


def find_guard(function: Function) -> Guard | None:
    """Find the branches that together are a kernel's guard.

    Before it there may be only arithmetic that reads no memory. It is either one branch with those
    nested in it at once, around all that the kernel does, or branches that return.
    """
    forms = _Forms(function)
    guard = Guard()
    region, outside = function.body, list[Operation]()
    while (found := _first_branch(region)) is not None:
        before, branch, rest = found
        if branch.name == "labeled":
            region = branch.regions[0]
            outside += before
            continue
        before, outside = [*outside, *before], []
        yes, no = branch.regions
        if _does_nothing(no) and all(each.name in ("yield", "leave") for each in rest):
            if not forms.is_convex(branch.operands[0]):
                break
            guard.add(branch, 0, before)
            region = yes
        elif _returns_alone(yes) and _does_nothing(no):
            if not forms.is_convex(branch.operands[0], truth=False):
                break
            guard.add(branch, 1, before)
            region = Region((), rest)
        else:
            break
    return guard if guard.branches else None


_Step: TypeAlias = tuple[list[Operation], Operation, list[Operation]]


def _first_branch(region: Region) -> _Step | None:
    """Return the arithmetic before the first branch, it, and what follows."""
    for number, operation in enumerate(region.operations):
        if operation.name in ("if", "labeled") and not (
            operation.name == "if" and operation.results and _is_pure(operation)
        ):
            rest = region.operations[number + 1 :]
            if operation.results:
                return None
            if operation.name == "labeled" and any(each.name != "yield" for each in rest):
                return None
            return region.operations[:number], operation, rest
        if not _is_pure(operation):
            return None
    return None


def _is_pure(operation: Operation) -> bool:
    if operation.name == "if":
        inner = (each for region in operation.regions for each in region.operations)
        return all(each.name == "yield" or _is_pure(each) for each in inner)
    return operation.name in _PURE and operation.effect == Effect.NONE


def _does_nothing(region: Region) -> bool:
    return region.operations[-1].name == "yield" and all(map(_is_pure, region.operations[:-1]))


def _returns_alone(region: Region) -> bool:
    return region.operations[-1].name == "leave" and all(map(_is_pure, region.operations[:-1]))


class _Form(enum.Enum):
    """Dependence of a value on the thread's index."""

    #: Independent of the thread's index.
    UNIFORM = enum.auto()
    #: A sum of coordinates, each with a small constant factor, and a uniform value.
    LINEAR = enum.auto()


class _Forms:
    def __init__(self, function: Function) -> None:
        self._parameters = set(function.body.arguments)

    def of(self, value: Value) -> _Form | None:
        """Return how a value depends on the index; ``None`` if that is not plain."""
        made = value.owner
        if value in self._parameters:
            return _Form.UNIFORM if isinstance(value.type, types.Number) else None
        if not isinstance(made, Operation):
            return None
        match made.name:
            case "const" | "gridsize":
                return _Form.UNIFORM
            case "array.size" | "array.extent":
                return _Form.UNIFORM if made.operands[0] in self._parameters else None
            case "grid":
                return _Form.LINEAR
            case "cast":
                form = self.of(made.operands[0])
                is_wider = made.operands[0].type == value.type or form is _Form.UNIFORM
                return form if is_wider else None
            case "numba":
                return self._of_operator(made)
        return None

    def _of_operator(self, made: Operation) -> _Form | None:
        function = operator_of(made)
        found = [self.of(value) for value in made.operands]
        if None in found or not found:
            return None
        if all(form is _Form.UNIFORM for form in found):
            return _Form.UNIFORM
        if made.result.type != types.int64:
            return None
        if function in (operator.neg, operator.pos) or function in _SUMS:
            return _Form.LINEAR
        if function is operator.mul:
            factor = made.operands[0] if found[1] is _Form.LINEAR else made.operands[1]
            number = constant_number(factor)
            if number is not None and 0 <= number <= _MAX_FACTOR:
                return _Form.LINEAR
        return None

    def is_convex(self, condition: Value, *, truth: bool = True) -> bool:
        """Return whether all indices between two that pass a condition pass it too.

        Without `truth`, those that fail it.
        """
        for part, is_true in parts_of(condition, truth):
            function, operands = comparison_of(part, is_true) or (None, [])
            if function not in _RELATIONS or None in map(self.of, operands):
                return False
        return True
