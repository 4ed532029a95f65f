"""Values of uint64 that become int64, where that can be seen in a result.

Numba computes uint64 with a signed integer as int64, and a variable that holds both is an int64.
The bits are the same, so that sums, products and stores in arrays of integers are right; quotients,
right shifts, conversions to floats and indices are not where the number is 2**63 or more.

Types are Numba's, of a :class:`~kerneldsl.frontend.typed_unit.TypedUnit`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kerneldsl.analysis.library_names import library_name
from kerneldsl.analysis.reaching import Reaching
from kerneldsl.analysis.unsigned_bounds import UnsignedBound
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES
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
#: Operators whose lowest 64 bits do not depend on signs.
_SAME_BITS = ast.Add | ast.Sub | ast.Mult | ast.BitAnd | ast.BitOr | ast.BitXor | ast.LShift


def sign_changes(typed: TypedUnit) -> Iterator[SignChange]:
    """Yield the conversions in a kernel and in what it calls, each variable once."""
    for each in typed.reachable():
        if not each.unit.is_plain_numba:
            yield from _Function(each).changes()


class _Function:
    """Looks for conversions in one function."""

    def __init__(self, typed: TypedUnit) -> None:
        self._typed = typed
        self._unit = typed.unit
        self._parents = {
            child: node
            for node in ast.walk(self._unit.tree)
            for child in ast.iter_child_nodes(node)
        }
        self._reaching = Reaching(self._unit.tree)
        self._bound = UnsignedBound(
            self._unit, lambda node: _name(typed.type_of(node)), self._reaching
        )

    def changes(self) -> Iterator[SignChange]:
        """Yield them."""
        told: set[str] = set()
        for node in ast.walk(self._unit.tree):
            match node:
                case ast.Name(id=name) if name not in told:
                    found = self._of_variable(node, name)
                    if found is not None:
                        told.add(name)
                        yield found
                case ast.BinOp() | ast.AugAssign() | ast.Call():
                    yield from self._of_operation(node)
                case ast.IfExp(body=body, orelse=other):
                    yield from self._of_choice(node, [body, other])
                case ast.BoolOp(values=values):
                    yield from self._of_choice(node, values)

    # ------------------------------------------------------------------------------- places

    def _of_variable(self, node: ast.Name, name: str) -> SignChange | None:
        stores = self._reaching.stores.get(node, ())
        wide = [each for each in stores if self._stored_type(each) == _WIDE]
        signed = [each for each in stores if _is_signed(self._stored_type(each))]
        if not (wide and signed) or all(map(self._is_small, wide)):
            return None
        uses = [use for use in self._uses(wide) if use in self._uses(signed)]
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
            is_of_call = isinstance(node, ast.Call)
            if not is_of_call and _name(operation.result) != _SIGNED:
                continue
            wide: list[ast.expr] = [
                n
                for n, to in pairs
                if self._type(n) == _WIDE and (not is_of_call or _name(to) == _SIGNED)
            ]
            signed = [n for n, _ in pairs if _is_signed(self._type(n))]
            if wide and signed and not all(map(self._is_small, wide)) and self._is_observed(node):
                kind = self._type(signed[0]) or _SIGNED
                yield SignChange(self._unit, node, wide[0], signed[0], kind)

    def _of_choice(self, node: ast.expr, parts: list[ast.expr]) -> Iterator[SignChange]:
        if _name(self._typed.type_of(node)) != _SIGNED:
            return
        wide = [each for each in parts if self._type(each) == _WIDE and not self._is_small(each)]
        signed = [each for each in parts if _is_signed(self._type(each))]
        if wide and signed and self._is_observed(node):
            yield SignChange(self._unit, node, wide[0], signed[0], self._type(signed[0]) or _SIGNED)

    def _uses(self, stores: Iterable[ast.AST]) -> list[ast.AST]:
        """Return where a variable may be read with a value of one of some assignments."""
        found = self._reaching.stores.items()
        wanted = set(stores)
        return [use for use, reached in found if reached & wanted and use in self._parents]

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

    def _is_observed(self, node: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> bool:
        """Return whether the sign of a value can be told from a result."""
        if node in seen:
            return False
        seen |= {node}
        if isinstance(node, ast.AugAssign):
            return self._is_stored_visibly(node.target, seen) or not isinstance(node.op, _SAME_BITS)
        if isinstance(node, ast.BinOp) and not isinstance(node.op, _SAME_BITS):
            return True
        if isinstance(node, ast.Call) and not seen - {node}:
            return True  # of a function, which may look at the sign
        parent = self._parents[node]
        match parent:
            case ast.BinOp(op=op, left=left, right=right) if isinstance(op, _SAME_BITS):
                return not self._stays_whole(left, right) or self._is_observed(parent, seen)
            case ast.Assign(targets=targets):
                return any(self._is_stored_visibly(target, seen) for target in targets)
            case ast.AugAssign(target=target, op=op):
                if not isinstance(op, _SAME_BITS):
                    return True
                return self._is_stored_visibly(target, seen)
            case ast.Call(func=function, args=[_]):
                name = library_name(function, self._unit.namespace) or ""
                return not _is_whole(name.removeprefix("numpy."))
            case ast.If(test=test) | ast.While(test=test):
                return test is not node
            case ast.Expr():
                return False
        return True

    def _is_stored_visibly(self, target: ast.expr, seen: frozenset[ast.AST]) -> bool:
        match target:
            case ast.Subscript():
                return not _is_whole(self._element(target))
            case ast.Name():
                return any(self._is_observed(use, seen) for use in self._uses([target]))
        return True

    def _element(self, target: ast.Subscript) -> str | None:
        found = self._typed.type_of(target.value)
        return found.dtype if isinstance(found, ArrayKind) else None

    def _stays_whole(self, *nodes: ast.expr) -> bool:
        return all(_is_whole(_name(self._typed.type_of(each))) for each in nodes)

    def _is_shifted(self, node: ast.AST) -> bool:
        parent = self._parents[node]
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


def _is_signed(name: str | None) -> bool:
    return name is not None and ELEMENT_TYPES[name].is_signed and ELEMENT_TYPES[name].is_integer


def _is_whole(name: str | None) -> bool:
    return name in ELEMENT_TYPES and (ELEMENT_TYPES[name].is_integer or name == "bool")
