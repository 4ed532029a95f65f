"""Find which indices of a function may be tuples, and so stand for several indices."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Any, TypeAlias

from kerneldsl.frontend.effects.library_effects import (
    PLAIN_ATTRIBUTES,
    READING_METHODS,
    gives_scalar,
)
from kerneldsl.frontend.expressions import Binding, unpack_targets
from kerneldsl.frontend.library_names import name_of_function
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind, TupleKind

__all__ = ["TupleIndices", "Tuples", "longest", "substitute"]

#: Tuples that a value may be; none for a number. A negative number -n is a tuple of n elements, any
#: other number the parameter at that position, if that is a tuple.
Tuples: TypeAlias = frozenset[int]
_NONE: Tuples = frozenset()
#: A tuple of unknown length: of as many elements as an array has axes.
_ANY: Tuples = frozenset((-(1 << 30),))


class TupleIndices:
    """Expressions of one function that may be tuples.

    `function_of` gives the outside object that a call calls, and `returned_by` the tuples that a
    device function may return, in terms of its own parameters.
    """

    def __init__(
        self,
        unit: FunctionUnit,
        found: Iterable[Binding],
        function_of: Callable[[ast.Call], Any],
        returned_by: Callable[[ast.Call], Tuples | None],
    ) -> None:
        self._unit = unit
        self._function_of = function_of
        self._returned_by = returned_by
        self._names: dict[str, Tuples] = {
            name: frozenset((i,)) for i, name in enumerate(unit.parameters)
        }
        for name, captured in unit.constants.items():
            if isinstance(captured.value, tuple):
                self._names[name] = _of_length(captured.value)
        pairs = [
            (target.id, value)
            for binding in found
            if not binding.is_item
            for target, value in unpack_targets(binding.target, binding.value)
            if isinstance(target, ast.Name)
        ]
        changed = True
        while changed:
            changed = False
            for name, value in pairs:
                known = self._names.get(name, _NONE)
                self._names[name] = known | self.of(value)
                changed |= self._names[name] != known

    def of(self, node: ast.expr) -> Tuples:
        """Return the tuples that an expression may be."""
        match node:
            case ast.Tuple():
                return _of_length(node.elts)
            case ast.Name(id=name):
                return self._names.get(name, _NONE)
            case ast.IfExp():
                return self.of(node.body) | self.of(node.orelse)
            case ast.Attribute():
                is_number = node.attr in PLAIN_ATTRIBUTES - {"shape", "strides"}
                return _NONE if is_number else _ANY
            case ast.Call():
                return self._of_call(node)
        return _NONE

    def _of_call(self, node: ast.Call) -> Tuples:
        use = self._unit.use_of(node)
        if use is not None:
            ndim = use.static.get("ndim", 1)
            return frozenset((-ndim,)) if ndim > 1 else _NONE
        returned = self._returned_by(node)
        if returned is not None:
            return substitute(returned, map(self.of, node.args))
        function = self._function_of(node)
        if function is None and isinstance(node.func, ast.Attribute):
            return _NONE if node.func.attr in READING_METHODS - {"nonzero"} else _ANY
        is_type = (name_of_function(function) or "").startswith("numba.")
        is_number = is_type or (function is not divmod and gives_scalar(function, node))
        return _NONE if is_number else _ANY


def _of_length(elements: Sized) -> Tuples:
    return frozenset((-len(elements),))


def substitute(tuples: Tuples, arguments: Iterable[Tuples]) -> Tuples:
    """Return the tuples that a callee's value may be in terms of its caller's parameters.

    Examples
    --------
    >>> sorted(substitute(frozenset((-2, 1)), [frozenset(), frozenset((0, 3))]))
    [-2, 0, 3]
    """
    found = frozenset(each for each in tuples if each < 0)
    for position, argument in enumerate(arguments):
        if position in tuples:
            found |= argument
    return found


def longest(tuples: Tuples, kinds: Sequence[Kind]) -> int:
    """Return the length of the longest of some tuples, for arguments of these kinds.

    Examples
    --------
    >>> from kerneldsl.language.signatures import parse_signature
    >>> longest(frozenset((-2, 0)), parse_signature("(i8, i8, i8), f4[:]"))
    3
    """
    lengths = [-each for each in tuples if each < 0]
    given = [kinds[each] for each in tuples if each >= 0]
    return max([1, *lengths, *(len(k.elements) for k in given if isinstance(k, TupleKind))])
