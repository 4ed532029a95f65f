"""Statements in which each thread goes through a whole array, where one would do for all."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.expressions import assigned_names, index_parts
from kerneldsl.frontend.library_names import library_name
from kerneldsl.frontend.rows.reductions import FUNCTIONS, METHODS
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["WholeArray", "whole_arrays"]

#: Elements that all threads together go through, from which it is reported.
_MANY = 1 << 24
_Shapes = Mapping[str, tuple[int, ...]]


class WholeArray(NamedTuple):
    """A statement or expression in which each thread goes through all elements of an array."""

    where: SourceLocation
    #: Text in the source.
    text: str
    array: str
    #: Elements that each thread goes through, and the threads.
    elements: int
    threads: int
    is_store: bool

    @property
    def what(self) -> str:
        verb = "writes" if self.is_store else "reads"
        return (
            f"each of {self.threads:,} threads {verb} {self.elements:,} elements of {self.array} "
            f"in `{self.text}`, {self.threads * self.elements:,} in all"
        )

    @property
    def why(self) -> str:
        """The reason why that is too much."""
        return "Every thread does the same work, so the time grows with threads times elements"

    @property
    def remedy(self) -> str:
        if self.is_store:
            return "Let each thread write its own element, as out[i] = … does"
        return (
            "Compute it once before the launch, on the host, by stdlib_kernels.reduce or in a "
            "kernel of its own, and pass the result as an argument"
        )

    def __str__(self) -> str:
        what = self.what[0].upper() + self.what[1:]
        return f"{what} ({self.where}). {self.why}. {self.remedy}."


def whole_arrays(unit: FunctionUnit, shapes: _Shapes, threads: int) -> Iterator[WholeArray]:
    """Yield what each of so many threads does with whole arrays, if that is much.

    - `unit`: the kernel as it is written; device functions that it calls are looked at too.
    - `shapes`: shapes of the arguments that are arrays, by their parameters.
    - `threads`: threads of the launch.
    """
    seen: set[SourceLocation] = set()
    for each in _Finder(unit, shapes, threads, ()).find():
        if each.where not in seen and each.threads > 1 and each.elements * each.threads >= _MANY:
            seen.add(each.where)
            yield each


class _Finder:
    """Looks through one function; `callers` are those that call it."""

    def __init__(
        self,
        unit: FunctionUnit,
        shapes: _Shapes,
        threads: int,
        callers: tuple[FunctionUnit, ...],
    ) -> None:
        self.unit, self.threads, self.callers = unit, threads, (*callers, unit)
        assigned = assigned_names(unit.tree)
        self.shapes = {name: shape for name, shape in shapes.items() if name not in assigned}
        #: Parameters that are the same in all threads.
        self.shared = frozenset(unit.parameters) - assigned if not callers else frozenset()

    def find(self) -> Iterator[WholeArray]:
        return self._of(self.unit.tree.body)

    def _of(self, nodes: Sequence[ast.AST]) -> Iterator[WholeArray]:
        for node in nodes:
            if isinstance(node, ast.If) and _chooses_one(node.test):
                yield from self._of(node.orelse)  # the other side is of few threads
                continue
            yield from self._at(node)
            yield from self._of([*ast.iter_child_nodes(node)])

    def _at(self, node: ast.AST) -> Iterator[WholeArray]:
        if isinstance(node, ast.Call):
            callee = self.unit.callee_of(node)
            if callee is not None and callee not in self.callers:
                given = {
                    name: self.shapes[argument.id]
                    for name, argument in zip(callee.parameters, node.args, strict=False)
                    if isinstance(argument, ast.Name) and argument.id in self.shapes
                }
                yield from _Finder(callee, given, self.threads, self.callers).find()
            for operand in self._reduced(node):
                yield from self._found(node, operand, is_store=False)
        elif isinstance(node, ast.Assign | ast.AugAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Subscript):
                yield from self._found(node, target, is_store=True)

    def _reduced(self, node: ast.Call) -> list[ast.expr]:
        """Return the arrays that a call reduces."""
        function = library_name(node.func, self.unit.namespace)
        if function in FUNCTIONS:
            return node.args[:1]
        if isinstance(node.func, ast.Attribute) and function is None:
            return [node.func.value] if node.func.attr in METHODS else []
        return []

    def _found(self, node: ast.AST, array: ast.expr, *, is_store: bool) -> Iterator[WholeArray]:
        name, shape = self._shape(array)
        if shape:
            where = self.unit.locate(node)
            text = ast.unparse(node)
            yield WholeArray(where, text, name, math.prod(shape), self.threads, is_store)

    def _shape(self, node: ast.expr) -> tuple[str, tuple[int, ...]]:
        """Return an array and the shape of the part that all threads name, or nothing."""
        if isinstance(node, ast.Name):
            return node.id, self.shapes.get(node.id, ())
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
            return "", ()
        shape = self.shapes.get(node.value.id, ())
        parts = [*index_parts(node)]
        if not all(map(self._is_shared, parts)) or len(parts) > len(shape):
            return "", ()
        kept = [
            extent
            for part, extent in zip(parts, shape, strict=False)
            if isinstance(part, ast.Slice)
        ]
        return node.value.id, (*kept, *shape[len(parts) :])

    def _is_shared(self, part: ast.expr) -> bool:
        names = {each.id for each in walk_here(part) if isinstance(each, ast.Name)}
        has_calls = any(isinstance(each, ast.Call | ast.Subscript) for each in walk_here(part))
        return names <= self.shared and not has_calls


def _chooses_one(test: ast.expr) -> bool:
    """Return whether a test is one that few threads pass, as ``i == 0``."""
    return any(
        isinstance(each, ast.Compare) and any(isinstance(op, ast.Eq) for op in each.ops)
        for each in walk_here(test)
    )
