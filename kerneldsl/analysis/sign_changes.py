"""Values of uint64 that become int64, if that can be seen in a result.

Numba computes uint64 with a signed integer as int64, and a variable that holds both is an int64.
The bits are the same, so that sums, products and stores in arrays of integers are right. Quotients,
right shifts, conversions to floats and indices are not where the number is 2**63 or more.

Types are Numba's, of a :class:`~kerneldsl.frontend.typed_unit.TypedUnit`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from kerneldsl.analysis.library_names import library_name, name_of_function, outside_value
from kerneldsl.analysis.mixed_elements import MixedElements, element, numbers_of
from kerneldsl.analysis.observed_values import (
    SAME_BITS,
    SIGNED_INTEGERS,
    ObservedValues,
    ObservedValuesOfCalls,
)
from kerneldsl.analysis.reaching import Reaching
from kerneldsl.analysis.unsigned_bounds import UnsignedBound
from kerneldsl.frontend.foreign import is_ufunc_of_numba
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import ArrayKind, ScalarKind
from kerneldsl.language.types import Type

__all__ = ["SignChange", "sign_changes"]


class SignChange(NamedTuple):
    """A uint64 that becomes an int64.

    Parameters
    ----------
    unit : FunctionUnit
        The function.
    node : ast.AST
        Where the number is converted: an operation, or where a variable of both types is read.
    wide, signed : ast.AST
        What is a uint64, and what is signed: operands, or where the variable is assigned.
    signed_type : str
        Its type.
    variable : str or None
        The variable that holds both.
    is_shifted : bool
        Whether bits of that variable are shifted to the right, which no value of both types has
        a meaning for.
    """

    unit: FunctionUnit
    node: ast.AST
    wide: ast.AST
    signed: ast.AST
    signed_type: str
    variable: str | None = None
    is_shifted: bool = False


_WIDE, _SIGNED = "uint64", "int64"


def sign_changes(typed: TypedUnit) -> Iterator[SignChange]:
    """Yield the conversions in a kernel and in what it calls, each variable once."""
    functions = [_Function(each) for each in typed.reachable()]
    observed = ObservedValuesOfCalls(each.observed for each in functions)
    for function in functions:
        yield from function.changes(observed)


class _Function:
    """Looks for conversions in one function."""

    def __init__(self, typed: TypedUnit) -> None:
        self._typed = typed
        self._unit = typed.unit
        self._reaching = Reaching(self._unit.tree)
        self.observed = ObservedValues(self._unit, self._reaching, self._element_type)
        self._bound = UnsignedBound(
            self._unit, lambda node: _name(typed.type_of(node)), self._reaching
        )
        self._places: ObservedValuesOfCalls  # of all functions, once these are known

    def changes(self, observed: ObservedValuesOfCalls) -> Iterator[SignChange]:
        """Yield them, where one of these places sees them."""
        self._places = observed
        told: set[str] = set()
        for node in walk_here(self._unit.tree):
            match node:
                case ast.Name(id=name) if name not in told:
                    found = self._of_variable(node, name)
                    if found is not None:
                        told.add(name)
                        yield found
                case ast.Call(args=[numbers]) if self._is_sum(node):
                    yield from self._of_sum(node, numbers)
                case ast.BinOp() | ast.AugAssign() | ast.Call():
                    yield from self._of_operation(node)
                case ast.IfExp(body=body, orelse=other):
                    yield from self._of_choice(node, [body, other])
                case ast.BoolOp(values=values):
                    yield from self._of_choice(node, values)
        yield from self._of_result()
        yield from self._of_tuples()

    # ------------------------------------------------------------------------------- places

    def _of_variable(self, node: ast.Name, name: str) -> SignChange | None:
        stores = self._reaching.stores.get(node, ())
        wide = [each for each in stores if self._stored_type(each) == _WIDE]
        signed = [each for each in stores if self._stored_type(each) in SIGNED_INTEGERS]
        if not (wide and signed) or all(map(self._is_small, wide)):
            return None
        of_signed = set(self.observed.uses(signed))
        uses = [use for use in self.observed.uses(wide) if use in of_signed]
        shifted = [use for use in uses if self._is_shifted(use)]
        observed = shifted or [use for use in uses if self._is_observed(use)]
        if not observed:
            return None
        kind = self._stored_type(signed[0]) or _SIGNED
        return SignChange(
            self._unit, observed[0], wide[0], signed[0], kind, self._spelled(name), bool(shifted)
        )

    def _of_operation(self, node: ast.BinOp | ast.AugAssign | ast.Call) -> Iterator[SignChange]:
        given: list[ast.expr]
        match node:
            case ast.BinOp(left=left, right=right):
                given = [left, right]
            case ast.AugAssign(target=target, value=value):
                given = [target, value]
            case ast.Call(args=arguments):
                if self._unit.callee_of(node) is not None or self._unit.use_of(node) is not None:
                    return
                given = arguments
        for operation in self._typed.operations.get(node, ()):
            pairs = list(zip(given, operation.operands, strict=False))
            is_of_call = isinstance(node, ast.Call) and not self._is_of_operators(node)
            if not is_of_call and _name(operation.result) != _SIGNED:
                continue
            wide: list[ast.expr] = [
                n
                for n, to in pairs
                if self._type(n) == _WIDE and (not is_of_call or _name(to) == _SIGNED)
            ]
            signed = [n for n, _ in pairs if self._type(n) in SIGNED_INTEGERS]
            if wide and signed and not all(map(self._is_small, wide)) and self._is_observed(node):
                kind = self._type(signed[0]) or _SIGNED
                yield SignChange(self._unit, node, wide[0], signed[0], kind)

    def _is_sum(self, node: ast.Call) -> bool:
        return library_name(node.func, self._unit.namespace) == "sum"

    def _is_of_operators(self, node: ast.Call) -> bool:
        """Return whether a call computes as operators do: `pow`, or a ufunc that Numba made."""
        function = outside_value(node.func, self._unit.namespace)
        return is_ufunc_of_numba(function) or name_of_function(function) == "pow"

    def _of_sum(self, node: ast.Call, numbers: ast.expr) -> Iterator[SignChange]:
        kinds = numbers_of(self._typed.type_of(numbers))
        types = {element(numbers, path, self._reaching): dtype for path, dtype in kinds.items()}
        wide = [n for n, kind in types.items() if kind == _WIDE and not self._is_small(n)]
        signed = [n for n, kind in types.items() if kind in SIGNED_INTEGERS]
        is_signed = _name(self._typed.type_of(node)) == _SIGNED
        is_seen = any(True for _ in self._places.places(self.observed, [node]))
        if is_signed and wide and signed and is_seen:
            yield SignChange(self._unit, node, wide[0], signed[0], types[signed[0]])

    def _of_choice(self, node: ast.expr, parts: list[ast.expr]) -> Iterator[SignChange]:
        if _name(self._typed.type_of(node)) != _SIGNED:
            return
        wide = [each for each in parts if self._type(each) == _WIDE and not self._is_small(each)]
        signed = [each for each in parts if self._type(each) in SIGNED_INTEGERS]
        if wide and signed and self._is_observed(node):
            yield SignChange(self._unit, node, wide[0], signed[0], self._type(signed[0]) or _SIGNED)

    def _of_result(self) -> Iterator[SignChange]:
        """Yield the change of what the function returns, where a caller can see."""
        if _name(self._typed.result) != _SIGNED:
            return
        statements = [n for n in walk_here(self._unit.tree) if isinstance(n, ast.Return)]
        values = [each.value for each in statements if each.value is not None]
        wide = [each for each in values if self._type(each) == _WIDE and not self._is_small(each)]
        signed = [each for each in values if self._type(each) in SIGNED_INTEGERS]
        if wide and signed and any(True for _ in self._places.places(self.observed, wide)):
            kind = self._type(signed[0]) or _SIGNED
            yield SignChange(self._unit, wide[0], wide[0], signed[0], kind)

    def _of_tuples(self) -> Iterator[SignChange]:
        elements = MixedElements(self._typed, self._reaching, self.observed, self._is_small)
        for each in elements.found(self._places):
            name, path = each.variable or ("", ())
            variable = self._spelled(name) + "".join(f"[{place}]" for place in path)
            yield SignChange(
                self._unit, each.node, each.wide, each.signed, each.signed_type, variable or None
            )

    def _spelled(self, name: str) -> str:
        return self._unit.spellings.get(name, name)

    # -------------------------------------------------------------------------------- types

    def _type(self, node: ast.AST) -> str | None:
        """Return the element type of a value before it is converted."""
        if isinstance(node, ast.Name):
            found = {self._stored_type(each) for each in self._reaching.stores.get(node, ())}
            if len(found) == 1:
                return found.pop()
        return _name(self._typed.type_of(node))

    def _stored_type(self, node: ast.AST) -> str | None:
        if isinstance(node, ast.arg):
            place = self._unit.parameters.index(node.arg)
            return _name(self._typed.arguments[place])
        return _name(self._typed.type_of(node))

    # ------------------------------------------------------------------------- observability

    def _is_observed(self, node: ast.AST) -> bool:
        """Return whether the sign of a value is visible in a result."""
        if isinstance(node, ast.Call):
            return True  # of a function, which may look at the sign
        if isinstance(node, ast.BinOp | ast.AugAssign) and not isinstance(node.op, SAME_BITS):
            return True
        if isinstance(node, ast.AugAssign):
            node = node.value
        return any(True for _ in self._places.places(self.observed, [node]))

    def _element_type(self, node: ast.AST) -> str | None:
        """Return the type of a value or a target; of an element that of the array."""
        if isinstance(node, ast.Subscript):
            found = self._typed.type_of(node.value)
            if isinstance(found, ArrayKind):
                return found.dtype
        return _name(self._typed.type_of(node))

    def _is_shifted(self, node: ast.AST) -> bool:
        parent = self.observed.parents[node]
        match parent:
            case ast.BinOp(op=ast.RShift(), left=left):
                return left is node
            case ast.AugAssign(op=ast.RShift(), target=target):
                return target is node
        return False

    # ------------------------------------------------------------------------------- ranges

    def _is_small(self, node: ast.AST) -> bool:
        """Return whether a number is certainly less than 2**63."""
        return self._bound.is_below(node, 2**63)


def _name(kind: Type | None) -> str | None:
    return kind.dtype if isinstance(kind, ScalarKind) else None
