"""Indices as SymPy expressions in coordinates, loop counters, parameters and extents.

A variable with one value is what it was given. A loop's variable, one that is given several values,
and values in memory are separate symbols.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from kerneldsl.analysis.bindings import bindings
from kerneldsl.analysis.expressions import index_parts
from kerneldsl.analysis.library_names import library_name
from kerneldsl.analysis.trips import is_range
from kerneldsl.explain.lane_memory import record_type
from kerneldsl.explain.reaching import Given, Reaching
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.language.kinds import ArrayKind
from kerneldsl.utilities import sympy_import
from kerneldsl.utilities.cached_property import cached_property

__all__ = [
    "Expression",
    "Symbols",
    "coordinate",
    "import_sympy",
    "is_of_thread",
    "neighbour_stride",
    "record_of",
    "symbol",
]

#: A SymPy expression.
Expression: TypeAlias = Any

_COORDINATE = re.compile(r"(?:threadIdx|blockIdx|blockDim|gridDim)\.[xyz]$")


def import_sympy() -> Any:
    """Return the module ``sympy``.

    Raises
    ------
    ToolMissingError
        If it is not installed.
    """
    return sympy_import.import_sympy("Explanations are SymPy expressions")


def symbol(name: str) -> Expression:
    """Return the symbol of an integer that is not negative, as coordinates and extents are."""
    return import_sympy().Symbol(name, integer=True, nonnegative=True)


def coordinate(name: str, axis: int) -> Expression:
    """Return a coordinate along an axis, such as ``threadIdx.x``."""
    return symbol(f"{name}.{'xyz'[axis]}")


def is_of_thread(expression: Expression) -> bool:
    """Return whether an expression has coordinates of a thread in it."""
    return any(
        str(each).startswith("threadIdx.") or str(each) == "laneid"
        for each in expression.free_symbols
    )


class Symbols:
    """Expressions of one function.

    Parameters
    ----------
    typed : TypedUnit
        The function.
    arguments : dict
        Of a device function that is called at one place: what its parameters are there.
    """

    def __init__(self, typed: TypedUnit, arguments: dict[str, Any] | None = None) -> None:
        self.typed, self.unit = typed, typed.unit
        self.sympy = import_sympy()
        self._arguments = arguments or {}
        self._asked: set[Given] = set()

    @cached_property
    def _reaching(self) -> Reaching:
        return Reaching(self.unit.tree)

    def statement_of(self, node: ast.AST) -> ast.stmt | None:
        """Return the statement that a node is in."""
        return self._reaching.statement_of(node)

    def of(self, node: ast.expr) -> Expression:
        """Return an expression of integers; what is none is a symbol with its text."""
        match node:
            case ast.Constant(value=bool() | int() as value):
                return self.sympy.Integer(int(value))
            case ast.Name():
                return self._name(node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.of(operand)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.of(operand)
            case ast.BinOp(left=left, op=op, right=right):
                found = self._operation(op, left, right)
                return self._opaque(node) if found is None else found
            case ast.Attribute(value=ast.Name(id=name), attr="size"):
                return self._size(name)
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=name), attr="shape"),
                slice=ast.Constant(value=int() as axis),
            ):
                return self.extent(name, axis)
            case ast.Call():
                return self._call(node)
        return self._opaque(node)

    def _operation(self, op: ast.operator, left: ast.expr, right: ast.expr) -> Expression | None:
        a, b = self.of(left), self.of(right)
        match op:
            case ast.Add():
                return a + b
            case ast.Sub():
                return a - b
            case ast.Mult():
                return a * b
            case ast.FloorDiv():
                return self.sympy.floor(a / b)
            case ast.Mod():
                return self.sympy.Mod(a, b)
            case ast.LShift() if b.is_Integer:
                return a * 2**b
            case ast.RShift() if b.is_Integer:
                return self.sympy.floor(a / 2**b)
            case ast.BitAnd() if b.is_Integer and (int(b) + 1).bit_count() == 1:
                return self.sympy.Mod(a, int(b) + 1)
        return None

    def _name(self, node: ast.Name) -> Expression:
        name = node.id
        if name in self._arguments:
            given = self._arguments[name]
            return symbol(name) if given is None else given
        if name in self.unit.constants:
            value = self.unit.constants[name].value
            if isinstance(value, int | np.integer):
                return self.sympy.Integer(int(value))
        given = self._reaching.value_of(node)
        if given is None or given in self._asked:
            return self._variable(name)
        self._asked.add(given)
        try:
            if given.is_item:
                return self._counter(name, given.value)
            if given.place is None:
                return self.of(given.value)
            return self._element(given.value, given.place, name)
        finally:
            self._asked.discard(given)

    def _counter(self, name: str, iterable: ast.expr) -> Expression:
        """Return a loop's variable: a symbol, behind where each thread begins by itself."""
        if not is_range(iterable, self.unit.namespace) or not isinstance(iterable, ast.Call):
            return self._variable(name)
        bounds = [self.of(each) for each in iterable.args]
        if len(bounds) == 1 or not any(map(is_of_thread, bounds)):
            return symbol(name)
        step = bounds[2] if len(bounds) == 3 else 1
        return bounds[0] + step * symbol(f"round({name})")

    def _variable(self, name: str) -> Expression:
        """Return the symbol of a parameter, a loop's variable, or one with several values."""
        return self.sympy.Symbol(name, integer=True)

    def _element(self, value: ast.expr, place: int, name: str) -> Expression:
        use = self.unit.use_of(value)
        if use is not None and use.intrinsic.name in ("grid", "gridsize"):
            return self._along(use.intrinsic.name, place, int(use.static["ndim"]))
        match value:
            case ast.Attribute(value=ast.Name(id=array), attr="shape"):
                return self.extent(array, place)
        return symbol(name)

    #: Whether the last index of ``grid`` runs along x, as in a launch over an extent.
    x_is_last = False

    def _along(self, name: str, place: int, ndim: int) -> Expression:
        axis = ndim - 1 - place if self.x_is_last else place
        if name == "gridsize":
            return coordinate("gridDim", axis) * coordinate("blockDim", axis)
        block = coordinate("blockIdx", axis) * coordinate("blockDim", axis)
        return block + coordinate("threadIdx", axis)

    def _call(self, node: ast.Call) -> Expression:
        use = self.unit.use_of(node)
        if use is not None:
            name = use.intrinsic.name
            if _COORDINATE.match(name) or name == "laneid":
                return symbol(name)
            if name in ("grid", "gridsize"):
                return self._along(name, 0, 1)
            return self._opaque(node)
        called = library_name(node.func, self.unit.namespace) or ""
        last = called.rpartition(".")[2]
        if last == "len" and isinstance(node.args[0], ast.Name):
            return self.extent(node.args[0].id, 0)
        if last in ("min", "max") and len(node.args) > 1:
            combine = self.sympy.Min if last == "min" else self.sympy.Max
            return combine(*map(self.of, node.args))
        if (last == "int" or last.startswith(("int", "uint"))) and len(node.args) == 1:
            return self.of(node.args[0])
        return self._opaque(node)

    def _opaque(self, node: ast.expr) -> Expression:
        """Return what depends on data, as a symbol."""
        return self.sympy.Symbol(ast.unparse(node), integer=True)

    # ------------------------------------------------------------------ arrays

    def array(self, node: ast.expr) -> tuple[str, Sequence[Expression], ArrayKind | None] | None:
        """Return the array that an expression is a view of, and the indices that choose it."""
        base = record_of(self.typed, node)
        if base is not None:
            return self.array(base)
        if isinstance(node, ast.Subscript):
            outer = self.array(node.value)
            parts = index_parts(node)
            if outer is None or any(isinstance(each, ast.Slice) for each in parts):
                return None
            return outer[0], (*outer[1], *map(self.of, parts)), outer[2]
        if isinstance(node, ast.Name):
            kind = self.typed.type_of(node)
            given = self._reaching.value_of(node)
            match given:
                case Given(ast.Subscript() | ast.Name() as value, None, False):
                    return self.array(value)
            return node.id, (), kind if isinstance(kind, ArrayKind) else None
        return None

    @cached_property
    def _made(self) -> dict[str, tuple[int, ...]]:
        """Extents of the arrays that the function makes, by the variables they are given to."""
        found = {}
        for binding in bindings(self.unit.tree):
            use = self.unit.use_of(binding.value)
            made = Effect.ALLOCATE_SHARED | Effect.ALLOCATE_LOCAL
            is_made = use is not None and use.intrinsic.effect & made
            if use is not None and is_made and isinstance(binding.target, ast.Name):
                found[binding.target.id] = tuple(use.static["shape"])
        return found

    def extent(self, name: str, axis: int) -> Expression:
        """Return an array's extent: a number of one that the kernel makes, else a symbol."""
        made = self._made.get(name)
        if made is not None and made != (0,):
            return self.sympy.Integer(made[axis])
        return symbol(f"{name}.shape[{axis}]")

    def _size(self, name: str) -> Expression:
        kind = next(
            (k for k in self.typed.variables.get(name, ()) if isinstance(k, ArrayKind)), None
        )
        if kind is None:
            return symbol(f"{name}.size")
        return self.sympy.prod(self.extent(name, axis) for axis in range(kind.ndim))

    def place(self, node: ast.AST) -> tuple[tuple[Expression, ...], Expression | None]:
        """Return the indices of an access, and how many elements it is from the array's first.

        The latter is by the array's order; ``None`` where the array is not known, or has strides of
        its own.
        """
        if isinstance(node, ast.Call) and len(node.args) > 1:
            node = ast.Subscript(node.args[0], node.args[1], ast.Load())
        found = self.array(node) if isinstance(node, ast.Subscript | ast.Attribute) else None
        if found is None:
            return (), None
        name, indices, kind = found
        if kind is not None and (kind.ndim != len(indices) or kind.layout == "A"):
            return tuple(indices), None
        offset = self.sympy.Integer(0)
        axes = list(enumerate(indices))
        for axis, index in reversed(axes) if kind is not None and kind.layout == "F" else axes:
            offset = offset * self.extent(name, axis) + index
        return tuple(indices), self.sympy.expand(offset)


def record_of(typed: TypedUnit, node: ast.AST) -> ast.expr | None:
    """Return the record, or records, that an expression reads a field of; ``None`` otherwise."""
    match node:
        case ast.Attribute(value=base) if record_type(typed.type_of(base)) is not None:
            return base
        case ast.Subscript(value=base, slice=ast.Constant(value=str())):
            return base
    return None


def neighbour_stride(offset: Expression) -> Expression | None:
    """Return the elements from a thread's access to that of its neighbour along x.

    ``None`` if that is not the same for all, or not known.

    Examples
    --------
    >>> x, pitch = coordinate("threadIdx", 0), symbol("a.shape[1]")
    >>> neighbour_stride(pitch * x + 3)
    a.shape[1]
    >>> neighbour_stride(x**2) is None
    True
    """
    along = coordinate("threadIdx", 0)
    step = import_sympy().expand(offset.subs(along, along + 1) - offset)
    return None if is_of_thread(step) else step
