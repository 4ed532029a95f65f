"""Values as SymPy expressions of coordinates, loop counters, parameters and extents.

A variable with one value is what it was given. The variable of a loop, one that is given several
values, and values in memory are separate symbols.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from numba import types

from kerneldsl.explain.lane_memory import record_type
from kerneldsl.explain.sites import site_of
from kerneldsl.explain.symbols import (
    Expression,
    coordinate,
    import_sympy,
    is_of_thread,
    symbol,
    variable,
)
from kerneldsl.ir.frontend.written import kind_of
from kerneldsl.ir.operations import Function, Operation, Value
from kerneldsl.ir.recognize import operands_of, operator_of

__all__ = ["Indices"]

_COORDINATES = tuple(
    f"{name}.{axis}" for name in ("threadIdx", "blockIdx", "blockDim", "gridDim") for axis in "xyz"
)
_LOADS = ("array.load", "array.part", "packed.load")
_MADE = ("local.array", "shared.array")


class _Element(NamedTuple):
    """An array, and the indices that choose an element or a part of it."""

    array: Value
    indices: tuple[Expression, ...]


class Indices:
    """Expressions of a kernel's values.

    - `function`: the kernel.
    - `ndim`: number of axes of the extent, if the launch has one. The last one is along x.
    """

    def __init__(self, function: Function, ndim: int | None) -> None:
        self._ndim = ndim
        self._sympy = import_sympy()
        self._known: dict[Value, Expression] = {}
        #: Loops over ranges, by their counters.
        self._loops = {
            each.regions[0].arguments[0]: each
            for each in function.body.walk()
            if each.name == "for"
        }

    @property
    def counters(self) -> set[str]:
        """Names of the counters of loops."""
        return {value.name for value in self._loops if value.name}

    def of(self, value: Value) -> Expression:
        """Return the expression of an integer; any other value is a symbol with its text."""
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = self._of(value)
        return found

    def _of(self, value: Value) -> Expression:
        if value in self._loops:
            return self._counter(value, self._loops[value])
        made = value.owner
        if not isinstance(made, Operation):
            return variable(value.name)
        write = _WRITTEN.get(made.name)
        found = None if write is None else write(self, made)
        if found is None:
            source = made.source
            found = variable(source.printed if source.is_expression else value.name)
        return found

    def _counter(self, value: Value, loop: Operation) -> Expression:
        """Return the counter of a loop: a symbol, after the place at which each thread begins."""
        bounds = list(map(self.of, loop.operands[:3]))
        if not is_of_thread(bounds[0]) and not is_of_thread(bounds[2]):
            return symbol(value.name)
        return bounds[0] + bounds[2] * symbol(f"round({value.name})")

    def _constant(self, made: Operation) -> Expression | None:
        value = made.attributes["value"]
        is_integer = isinstance(made.result.type, types.Integer | types.Boolean)
        return self._sympy.Integer(int(value)) if is_integer else None

    def _converted(self, made: Operation) -> Expression | None:
        is_integer = isinstance(made.result.type, types.Integer | types.Boolean)
        return self.of(made.operands[0]) if is_integer else None

    def _operator(self, made: Operation) -> Expression | None:
        function, operands = operator_of(made), operands_of(made)
        write = _OPERATORS.get(function)
        if write is None or not isinstance(made.result.type, types.Integer):
            return None
        return write(*map(self.of, operands))

    def _extent_of(self, made: Operation) -> Expression | None:
        return self.extent(made.operands[0], made.attributes["axis"])

    def _size(self, made: Operation) -> Expression | None:
        (array,) = made.operands
        return self._sympy.prod(self.extent(array, n) for n in range(array.type.ndim))

    def _coordinate(self, made: Operation) -> Expression | None:
        return symbol(made.name)

    def _grid(self, made: Operation) -> Expression | None:
        axis = self._axis(made)
        block = coordinate("blockIdx", axis) * coordinate("blockDim", axis)
        return block + coordinate("threadIdx", axis)

    def _grid_size(self, made: Operation) -> Expression | None:
        axis = self._axis(made)
        return coordinate("gridDim", axis) * coordinate("blockDim", axis)

    def _axis(self, made: Operation) -> int:
        place: int = made.attributes.get("axis", 0)
        return place if self._ndim is None else self._ndim - 1 - place

    def _member(self, made: Operation) -> Expression | None:
        return variable(_name_of(made.result))

    # ------------------------------------------------------------------ arrays

    def extent(self, array: Value, axis: int) -> Expression:
        """Return an array's extent: a number of one that the kernel makes, else a symbol."""
        made = array.owner
        if isinstance(made, Operation):
            if made.name in _MADE and tuple(made.attributes["shape"]) != (0,):
                return self._sympy.Integer(made.attributes["shape"][axis])
            if made.name == "array.part":
                return self.extent(made.operands[0], axis + len(made.operands) - 1)
        return symbol(f"{_name_of(array)}.shape[{axis}]")

    def _element(self, value: Value) -> _Element | None:
        """Return the array that a value is an element or a part of, and the indices."""
        made = value.owner
        if isinstance(made, Operation):
            if made.name in _LOADS:
                return self._within(made.operands[0], made.operands[1:])
            is_field = made.name in ("attribute", "item")
            if made.name == "cast" or (is_field and record_type(kind_of(made.operands[0]))):
                return self._element(made.operands[0])
            if made.name == "array.view":
                return None
        return _Element(value, ())

    def _within(self, array: Value, indices: Iterable[Value]) -> _Element | None:
        found = self._element(array)
        return found and _Element(found.array, (*found.indices, *map(self.of, indices)))

    def _accessed(self, operation: Operation) -> _Element | None:
        operands = operation.operands
        if operation.name == "array.store":
            return self._within(operands[0], operands[1:-1])
        if operation.name != "numba" and "use" not in operation.attributes:
            return self._element(operation.result if operation.results else operands[0])
        index = operands[1].owner
        if isinstance(index, Operation) and index.name == "tuple.make":
            return self._within(operands[0], index.operands)
        return self._within(operands[0], operands[1:2])

    def place(
        self, operations: Collection[Operation]
    ) -> tuple[tuple[Expression, ...], Expression | None]:
        """Return the indices of an access, and how many elements it is from the array's first.

        The latter is by the array's order. It is ``None`` if the array is not known, or has other
        strides. If calls of a function access it by different indices, these are as the function
        writes them.
        """
        found = list(map(self._accessed, operations))
        first = found[0]
        if first is None or any(each is None for each in found):
            return (), None
        ways = {each.indices for each in found if each is not None}
        if len(ways) > 1:
            texts = next(iter(operations)).source.index_texts
            if {len(texts)} != set(map(len, ways)):
                return (), None
            pairs = zip(texts, zip(*ways, strict=True), strict=True)
            return tuple(each[0] if len({*each}) == 1 else variable(t) for t, each in pairs), None
        array, indices = first
        layout = getattr(array.type, "layout", "C")
        if getattr(array.type, "ndim", len(indices)) != len(indices) or layout == "A":
            return indices, None
        offset = self._sympy.Integer(0)
        numbered = list(enumerate(indices))
        for axis, index in numbered[::-1] if layout == "F" else numbered:
            offset = offset * self.extent(array, axis) + index
        return indices, self._sympy.expand(offset)


def _name_of(value: Value) -> str:
    """Return what a value is called; members of a tuple have the name of the tuple in front."""
    made = value.owner
    if isinstance(made, Operation) and made.name == "tuple.member":
        (whole,), number = made.operands, made.attributes["number"]
        label = getattr(whole.type, "fields", range(number + 1))[number]
        return f"{_name_of(whole)}.{label}"
    if value.name or not isinstance(made, Operation):
        return value.name
    return site_of(made).text


def _quotient(one: Expression, two: Expression) -> Expression:
    return import_sympy().floor(one / two)


def _shifted_left(one: Expression, two: Expression) -> Expression | None:
    return one * 2**two if two.is_Integer else None


def _shifted_right(one: Expression, two: Expression) -> Expression | None:
    return import_sympy().floor(one / 2**two) if two.is_Integer else None


def _masked(one: Expression, two: Expression) -> Expression | None:
    is_mask = two.is_Integer and (int(two) + 1).bit_count() == 1
    return import_sympy().Mod(one, int(two) + 1) if is_mask else None


#: Python's operators as expressions of their operands.
_OPERATORS: dict[Any, Callable[..., Expression | None]] = {
    operator.add: operator.add,
    operator.sub: operator.sub,
    operator.mul: operator.mul,
    operator.floordiv: _quotient,
    operator.mod: lambda a, b: import_sympy().Mod(a, b),
    operator.lshift: _shifted_left,
    operator.rshift: _shifted_right,
    operator.and_: _masked,
    operator.neg: operator.neg,
    operator.pos: operator.pos,
    min: lambda *values: import_sympy().Min(*values),
    max: lambda *values: import_sympy().Max(*values),
}
_WRITTEN: dict[str, Callable[[Indices, Operation], Expression | None]] = {
    **dict.fromkeys(_COORDINATES, Indices._coordinate),
    "array.extent": Indices._extent_of,
    "array.size": Indices._size,
    "cast": Indices._converted,
    "const": Indices._constant,
    "grid": Indices._grid,
    "gridsize": Indices._grid_size,
    "laneid": Indices._coordinate,
    "numba": Indices._operator,
    "tuple.member": Indices._member,
}
