"""Integers that an atomic function compares with elements of another type.

The number is converted to the type of the elements first. The maximum of a uint32 and -7 is that of
the uint32 and 2**32 - 7. A number that is stored or added gives its bits, as in an assignment to an
element. A number that is compared does not.

A number is found if it changes its sign. One that only loses its upper bits is found if it was
loaded from wider elements: Numba's arithmetic of narrower ones is 64 bits wide.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kerneldsl.analysis.inferred_types import InferredTypes, TypesOfCall
from kerneldsl.analysis.ranges import nonnegative_values
from kerneldsl.analysis.reaching import Reaching
from kerneldsl.analysis.unsigned_bounds import UnsignedBound
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import Kind

__all__ = ["MixedExtreme", "mixed_extremes"]

#: Atomic functions that compare a number with an element, and which of their arguments it is.
_COMPARED = {f"atomic.{name}": 2 for name in ("cas", "dec", "inc", "max", "min")}


class MixedExtreme(NamedTuple):
    """A number that changes when an atomic function compares it with elements of its array."""

    unit: FunctionUnit
    #: The call, the number, and its source.
    node: ast.Call
    value: ast.expr
    source: ast.AST
    value_type: str
    element_type: str


def mixed_extremes(unit: FunctionUnit, kinds: Sequence[Kind]) -> Iterator[MixedExtreme]:
    """Yield what is found in a kernel, and in what it calls, each place once."""
    if not any(use.intrinsic.name in _COMPARED for use in unit.all_uses()):
        return
    seen: set[ast.AST] = set()
    for types in InferredTypes(unit, kinds).of_calls():
        seen |= types.may_be_dropped()
        function = _Function(types)
        for node in walk_here(types.unit.tree):
            if isinstance(node, ast.Call) and node not in seen:
                found = function.found(node)
                if found is not None:
                    seen.add(node)
                    yield found


class _Function:
    """Looks through one function, as it is called."""

    def __init__(self, types: TypesOfCall) -> None:
        self._types = types
        self._unit = types.unit
        self._reaching = Reaching(types.unit.tree)
        self._bound = UnsignedBound(self._unit, self._type, self._reaching)

    def _type(self, node: ast.AST) -> str | None:
        return self._types.of(node) if isinstance(node, ast.expr) else None

    def found(self, node: ast.Call) -> MixedExtreme | None:
        """Return the number of a call that changes, if there is one."""
        use = self._unit.use_of(node)
        place = None if use is None else _COMPARED.get(use.intrinsic.name)
        if place is None or len(node.args) <= place:
            return None
        value, element = node.args[place], self._type(node)
        dtype = self._type(value)
        if dtype is None or element is None or not self._changes(value, dtype, element):
            return None
        stores = self._reaching.stores.get(value, ())
        source = next(iter(stores)) if len(stores) == 1 else value
        return MixedExtreme(self._unit, node, value, source, dtype, element)

    def _changes(self, value: ast.expr, dtype: str, element: str) -> bool:
        if not (ELEMENT_TYPES[dtype].is_integer and ELEMENT_TYPES[element].is_integer):
            return False
        low, high = ELEMENT_TYPES[dtype].integer_range
        least, largest = ELEMENT_TYPES[element].integer_range
        number = self._unit.literal(value)
        if number is not None:
            return not least <= number <= largest
        may_be_negative = low < 0 and value not in nonnegative_values(self._unit, {value})
        if may_be_negative and least == 0:
            return not self._bound.is_below(value, largest + 1)
        if high <= largest:
            return False
        if self._is_loaded(value):
            return not self._bound.is_below(value, largest + 1)
        # Of what was computed, only a uint64 has no sign in 64 bits.
        return low == 0 and least < 0 and not self._bound.is_below(value, 2**63)

    def _is_loaded(self, node: ast.AST) -> bool:
        """Return whether a number is an element of an array as it is."""
        if isinstance(node, ast.Name):
            stores = self._reaching.stores.get(node, ())
            values = [self._reaching.values.get(each) for each in stores]
            return bool(values) and all(isinstance(each, ast.Subscript) for each in values)
        return isinstance(node, ast.Subscript)
