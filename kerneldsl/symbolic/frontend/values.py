"""Read the expressions of a function in normal form as SymPy's, calls by the table of functions."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import sympy
from sympy.codegen import cfunctions

from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.library_names import library_name, outside_value
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.symbolic.frontend.readings import OPERATORS, Array, Reading, Shape, constant
from kerneldsl.symbolic.printing import CALLS, is_condition

__all__ = ["ValueReader", "either", "first_line", "negated"]

_OTHERS = {
    "math.sqrt": sympy.sqrt,
    "math.pow": sympy.Pow,
    "math.fabs": sympy.Abs,
    "math.cbrt": cfunctions.Cbrt,
    "math.exp2": lambda x: sympy.Integer(2) ** x,
    "numpy.square": lambda x: x**2,
    "numpy.power": sympy.Pow,
    "numpy.reciprocal": lambda x: 1 / x,
    "numpy.sign": sympy.sign,
    "numpy.absolute": sympy.Abs,
    "numpy.maximum": sympy.Max,
    "numpy.minimum": sympy.Min,
    "numpy.arcsin": sympy.asin,
    "numpy.arccos": sympy.acos,
    "numpy.arctan": sympy.atan,
    "numpy.arctan2": sympy.atan2,
    "numpy.arcsinh": sympy.asinh,
    "numpy.arccosh": sympy.acosh,
    "numpy.arctanh": sympy.atanh,
    "float": lambda x: x,
    "pow": sympy.Pow,
}
_INTRINSICS = {
    "fma": lambda a, b, c: a * b + c,
    "rsqrt": lambda x: 1 / sympy.sqrt(x),
    "cbrt": cfunctions.Cbrt,
    "selp": lambda test, a, b: sympy.Piecewise((a, sympy.Ne(test, 0)), (b, True)),
}
#: Functions that are constant between jumps.
_WHOLE_FUNCTIONS = (sympy.floor, sympy.ceiling)


class ValueReader:
    """Reads values; how a function is called is said by what reads its statements."""

    def __init__(
        self, reading: Reading, unit: FunctionUnit, variables: Mapping[str, Any], depth: int
    ) -> None:
        self._reading = reading
        self._unit = unit
        self._variables = dict(variables)
        self._memory: dict[Any, Any] = {}
        self._depth = depth
        self.results: list[tuple[tuple[Any, ...], Any]] = []

    def refuse(self, node: ast.AST, what: str, *, limit: str = "", remedy: str = "") -> Any:
        raise UnsupportedConstructError(
            what,
            where=self._unit.locate(node),
            value=ast.unparse(node),
            limit=limit
            or "A derivative is of what one element is computed from: arithmetic, "
            "functions of math, branches, and loops over fixed ranges",
            remedy=remedy or "Write this part so, or write the derivative by hand",
        )

    def value(self, node: ast.expr) -> Any:
        """Return what an expression gives: an expression of SymPy, an array or a tuple."""
        match node:
            case ast.Constant(value=value):
                return self._constant(node, value)
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.Tuple(elts=elements):
                return tuple(self.value(each) for each in elements)
            case ast.UnaryOp(op=ast.Not()):
                return self._condition(node)
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(node, op, self._number(operand))
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(node, op, self._number(left), self._number(right))
            case ast.Compare() | ast.BoolOp():
                return self._condition(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return either(self._condition(test), self._chosen(body), self._chosen(orelse))
            case ast.Subscript():
                return self._element(node)
            case ast.Attribute(value=owner, attr=attr):
                return self._attribute(node, owner, attr)
            case ast.Call():
                return self._call(node)
        return self.refuse(node, f"{ast.unparse(node)} cannot be differentiated")

    def _number(self, node: ast.expr) -> Any:
        return self._as_number(node, self.value(node))

    def _as_number(self, node: ast.AST, value: Any) -> Any:
        if isinstance(value, Array):
            return self._reading.number(value.name)
        if is_condition(value):
            return sympy.Piecewise((1, value), (0, True))
        if not isinstance(value, sympy.Expr):
            self.refuse(node, f"{first_line(node)} is not a number")
        return value

    def _chosen(self, node: ast.expr) -> Any:
        found = self.value(node)
        return self._as_number(node, found) if isinstance(found, Array) else found

    def _constant(self, node: ast.AST, value: Any) -> Any:
        found = constant(value)
        if found is None:
            self.refuse(node, f"{first_line(node)} is not a real number")
        return found

    def _name(self, node: ast.Name, name: str) -> Any:
        if name in self._variables:
            return self._variables[name]
        if name in self._unit.constants:
            return self._constant(node, self._unit.constants[name].value)
        return self._constant(node, outside_value(node, self._unit.namespace))

    def _unary(self, node: ast.AST, op: ast.unaryop, value: Any) -> Any:
        if isinstance(op, ast.USub):
            return -value
        if isinstance(op, ast.UAdd):
            return value
        return self.refuse(node, "~ is an operation on bits, and has no derivative")

    def _binary(self, node: ast.AST, op: ast.operator, left: Any, right: Any) -> Any:
        left, right = self._as_number(node, left), self._as_number(node, right)
        operation: Any = OPERATORS.get(type(op))
        if operation is None:
            self.refuse(node, f"{first_line(node)} is an operation on bits or matrices")
        if isinstance(op, ast.FloorDiv | ast.Mod):
            self._check_smooth(node, left, right)
        return operation(left, right)

    def _check_smooth(self, node: ast.AST, *values: Any) -> None:
        """Refuse what jumps from integer to integer, where the derivative is by what is in it."""
        if any(map(self._reading.depends_on_wrt, values)):
            self.refuse(
                node,
                f"{first_line(node)} rounds what depends on {self._reading.wrt}",
                limit="A derivative is of what does not jump",
                remedy="Round after, or write the derivative by hand",
            )

    def _condition(self, node: ast.expr) -> Any:
        match node:
            case ast.BoolOp(op=op, values=values):
                word = sympy.And if isinstance(op, ast.And) else sympy.Or
                return word(*map(self._condition, values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return negated(self._condition(operand))
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                sides = [self._number(each) for each in (left, *comparators)]
                return sympy.And(
                    *(self._compared(node, op, *sides[n : n + 2]) for n, op in enumerate(ops))
                )
        found = self.value(node)
        if is_condition(found):
            return found
        return sympy.Ne(self._as_number(node, found), 0)

    def _compared(self, node: ast.AST, op: ast.cmpop, left: Any, right: Any) -> Any:
        words = {"Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Eq": "==", "NotEq": "!="}
        word = words.get(type(op).__name__)
        if word is None:
            self.refuse(node, f"{ast.unparse(node)} is not a comparison of numbers")
        if left == right and not (left.is_number or left.is_integer):
            self.refuse(
                node,
                f"{ast.unparse(node)} compares a number with itself",
                limit="A derivative takes numbers to be real, without NaN",
                remedy="Remove the test, or write the derivative by hand",
            )
        return sympy.Rel(left, right, word)

    # ------------------------------------------------------------------ arrays and calls

    def _index(self, node: ast.Subscript) -> tuple[Any, ...]:
        places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if any(isinstance(each, ast.Slice | ast.Starred) for each in places):
            self.refuse(node, f"{ast.unparse(node)} is not a single element")
        found = tuple(self._number(each) for each in places)
        self._check_smooth(node, *found)
        return found

    def _element(self, node: ast.Subscript) -> Any:
        owner = self.value(node.value)
        if isinstance(owner, Array):
            index = self._index(node)
            if (owner.name, index) in self._memory:
                return self._memory[owner.name, index]
            return self._reading.load(
                owner.name, index, lambda what, **fields: self.refuse(node, what, **fields)
            )
        place = self.value(node.slice) if not isinstance(node.slice, ast.Slice) else None
        if isinstance(place, sympy.Integer) and isinstance(owner, Shape):
            return self._reading.place(f"{owner.array}.shape[{place}]")
        if isinstance(place, sympy.Integer) and isinstance(owner, tuple):
            return owner[int(place)]
        return self.refuse(node, f"{ast.unparse(node)} is not an element of an argument")

    def _attribute(self, node: ast.Attribute, owner: ast.expr, attr: str) -> Any:
        found = outside_value(node, self._unit.namespace)
        if found is not None:
            return self._constant(node, found)
        array = self.value(owner)
        if isinstance(array, Array) and attr == "shape":
            return Shape(array.name)
        if isinstance(array, Array) and attr == "size":
            return self._reading.place(f"{array.name}.size")
        return self.refuse(node, f"{ast.unparse(node)} cannot be differentiated")

    def _call(self, node: ast.Call) -> Any:
        use, callee = self._unit.use_of(node), self._unit.callee_of(node)
        if use is not None:
            return self._intrinsic(node, use.intrinsic.name, use.static)
        if callee is not None:
            return self._called(node, callee)
        name = library_name(node.func, self._unit.namespace)
        arguments = [self._number(each) for each in node.args]
        if name is not None and name.rpartition(".")[0] in ("numpy", "numba"):
            last = name.rpartition(".")[2]
            if last.startswith(("float", "bfloat")):
                return arguments[0]
            name = "int" if last.startswith(("int", "uint")) else name
        if name == "int":
            self._check_smooth(node, *arguments)
            return arguments[0] if arguments[0].is_integer else sympy.floor(arguments[0])
        function = None if name is None or node.keywords else _function_called(name)
        if function is None:
            return self.refuse(
                node,
                f"{ast.unparse(node)} is a call of what has no derivative here",
                remedy="Write it by functions of math, or the derivative by hand",
            )
        if function in _WHOLE_FUNCTIONS:
            self._check_smooth(node, *arguments)
        return function(*arguments)

    def _intrinsic(self, node: ast.Call, name: str, static: Mapping[str, Any]) -> Any:
        if name == "grid":
            rank = static["ndim"]
            if self._reading.indices and len(self._reading.indices) != rank:
                self.refuse(node, "the kernel asks for grids of two ranks")
            places = tuple(self._reading.place(f"grid {n}") for n in range(rank))
            self._reading.indices = places
            return places if rank > 1 else places[0]
        function = _INTRINSICS.get(name)
        if function is not None:
            return function(*(self._number(each) for each in node.args))
        if not node.args and "." in name and name.partition(".")[0].endswith(("Idx", "Dim")):
            return self._reading.place(f"kd.{name}")
        return self.refuse(
            node,
            f"kd.{name} is more than one element is computed from",
            remedy="Differentiate a kernel of element form, without barriers, atomics and tiles",
        )

    def _called(self, node: ast.Call, callee: FunctionUnit) -> Any:
        raise NotImplementedError


def either(test: Any, chosen: Any, other: Any) -> Any:
    if chosen is other or chosen == other:
        return chosen
    if isinstance(chosen, tuple) and isinstance(other, tuple) and len(chosen) == len(other):
        return tuple(either(test, a, b) for a, b in zip(chosen, other, strict=True))
    if is_condition(chosen) and is_condition(other):
        return sympy.ITE(test, chosen, other)
    return sympy.Piecewise((chosen, test), (other, True))


def negated(condition: Any) -> Any:
    """Return the negation of a condition, which a NaN meets if it does not meet the condition.

    SymPy makes ``x <= 0`` of the negation of ``x > 0``: these are real numbers.
    """
    is_relation = getattr(condition, "is_Relational", False)
    return sympy.Not(condition, evaluate=not is_relation)


def first_line(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0]


def _function_called(name: str) -> Any:
    """Return what a builtin or library function means, by its name; ``None`` for an unknown one.

    Examples
    --------
    >>> [_function_called(name) for name in ("math.sin", "numpy.maximum", "open")]
    [sin, Max, None]
    """
    if name in _OTHERS:
        return _OTHERS[name]
    library, _, last = name.rpartition(".")
    if library == "numpy":
        name = f"math.{last}"
        if name in _OTHERS:
            return _OTHERS[name]
    for sympys, ours in CALLS.items():
        if ours == name:
            # Functions that the language has as more accurate separate ones stay such functions.
            return getattr(sympy, sympys, None) or getattr(cfunctions, sympys)
    return None
