"""The results of reading a function as expressions, and what stands for values meanwhile."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import sympy

from kerneldsl.frontend.operators import BINARY_OPERATORS
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["OPERATORS", "Array", "Reading", "Shape", "Store", "constant"]

#: Floats with such denominators are exact fractions: 0.5, 1.25.
_MAX_DENOMINATOR = 64


class Array(NamedTuple):
    """A parameter: an array, or a number if it is used as one."""

    name: str


class Shape(NamedTuple):
    """The shape of a parameter."""

    array: str

    def extents(self, reading: Any, count: int) -> tuple[Any, ...]:
        """Return the symbols of its extents."""
        return tuple(reading.place(f"{self.array}.shape[{n}]") for n in range(count))


class Store(NamedTuple):
    """A value that a kernel stores."""

    #: Conditions under which that is done, in the order in which they are tested.
    path: tuple[Any, ...]
    #: Name of the array.
    array: str
    #: Indices of the element.
    place: tuple[Any, ...]
    #: The stored value.
    value: Any
    #: The statement.
    node: ast.AST


class Reading:
    """Expressions that say what a function does.

    - `unit`: the function.
    - `wrt`: the parameter by which derivatives are taken.
    - `stores`: values that the kernel stores.
    - `results`: path and value of each ``return`` of a function.
    - `loads`: Symbol to the array and the index of the element that it stands for.
    - `places`: Symbol to the text of an index or extent, ``out.shape[0]`` for instance.
    - `numbers`: Symbol to the name of a parameter.
    - `indices`: indices that ``kd.grid`` returns; none if the kernel does not need them.
    """

    def __init__(self, unit: FunctionUnit, wrt: str) -> None:
        self.unit = unit
        self.wrt = wrt
        self.stores: list[Store] = []
        self.results: list[tuple[tuple[Any, ...], Any]] = []
        self.loads: dict[Any, tuple[str, tuple[Any, ...]]] = {}
        self.places: dict[Any, str] = {}
        self.numbers: dict[Any, str] = {}
        self.indices: tuple[Any, ...] = ()
        self.turns = 0
        self._loaded: dict[Any, Any] = {}
        self._texts: dict[str, Any] = {}

    def load(self, array: str, index: tuple[Any, ...], refuse: Callable[..., Any]) -> Any:
        """Return the symbol of an element."""
        key = array, index
        if key not in self._loaded:
            if array == self.wrt and any(each[0] == array for each in self._loaded):
                refuse(
                    f"{array} is read at more than one element",
                    limit=f"The derivative of an element is by one element of {array}",
                    remedy="Differentiate by a number, or pass neighbours as arrays of their own",
                )
            symbol = sympy.Dummy(array, real=True)
            self._loaded[key] = symbol
            self.loads[symbol] = key
        return self._loaded[key]

    def number(self, name: str) -> Any:
        """Return the symbol of a parameter that is a number."""
        return self._named(name, self.numbers)

    def place(self, text: str) -> Any:
        """Return the symbol of an index or an extent."""
        return self._named(text, self.places, integer=True)

    def _named(self, text: str, into: dict[Any, str], **assumptions: Any) -> Any:
        if text not in self._texts:
            symbol = sympy.Dummy(text, real=True, **assumptions)
            self._texts[text] = symbol
            into[symbol] = text
        return self._texts[text]

    def depends_on_wrt(self, value: Any) -> bool:
        """Return whether a value depends on the variable of differentiation."""
        symbols: set[Any] = getattr(value, "free_symbols", set())
        names = {self.loads[s][0] if s in self.loads else self.numbers.get(s) for s in symbols}
        return self.wrt in names


def constant(value: Any) -> Any:
    """Return a number or a bool of Python's or NumPy's as SymPy's; ``None`` for anything else.

    Examples
    --------
    >>> constant(0.5), constant(3), constant(True), constant("text") is None
    (1/2, 3, True, True)
    """
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "ndim", None) == 0:
        value = item()
    if isinstance(value, bool):
        return sympy.true if value else sympy.false
    if isinstance(value, int):
        return sympy.Integer(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return sympy.nan if math.isnan(value) else sympy.oo if value > 0 else -sympy.oo
        above, below = value.as_integer_ratio()
        is_fraction = below <= _MAX_DENOMINATOR and abs(value) < 1 << 53
        return sympy.Rational(above, below) if is_fraction else sympy.Float(value, 17)
    return None


#: Operators of numbers; those on bits and matrices are not among them.
OPERATORS: dict[type[ast.operator], Any] = {
    **{node: BINARY_OPERATORS[node] for node in (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)},
    ast.FloorDiv: lambda a, b: sympy.floor(a / b),
    ast.Mod: sympy.Mod,
}
