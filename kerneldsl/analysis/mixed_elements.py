"""Elements of tuples that are a uint64 in one place and signed in another.

Tuples of equal lengths have one type where they meet: in a variable, in a conditional expression
and in what a function returns. Each element becomes what holds both, an int64.

Types are Numba's, of a :class:`~kerneldsl.frontend.typed_unit.TypedUnit`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from kerneldsl.analysis.observed_values import (
    SIGNED_INTEGERS,
    ObservedValues,
    ObservedValuesOfCalls,
    is_whole,
)
from kerneldsl.analysis.reaching import Reaching
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.language.kinds import ScalarKind, TupleKind
from kerneldsl.language.types import TupleType, Type

__all__ = ["MixedElement", "MixedElements", "element", "numbers_of"]


#: Where an element is in a tuple, and in tuples in it: ``(0, 2)`` of ``t[0][2]``.
_Path: TypeAlias = tuple[int, ...]


class MixedElement(NamedTuple):
    """An element of both types.

    Parameters
    ----------
    node : ast.AST
        Where it becomes an int64.
    wide, signed : ast.expr
        What is a uint64, and what is signed.
    signed_type : str
        Its type.
    variable : tuple of str and tuple of int, or None
        The variable that holds the tuple, and where in it the element is.
    """

    node: ast.AST
    wide: ast.expr
    signed: ast.expr
    signed_type: str
    variable: tuple[str, _Path] | None = None


class MixedElements:
    """Finds them in one function.

    Parameters
    ----------
    typed : TypedUnit
        The function.
    reaching : Reaching
        Its reaching definitions.
    observed : ObservedValues
        Where its values are observed.
    is_small : callable
        Returns whether an expression is certainly less than 2**63.
    """

    def __init__(
        self,
        typed: TypedUnit,
        reaching: Reaching,
        observed: ObservedValues,
        is_small: Callable[[ast.AST], bool],
    ) -> None:
        self._typed = typed
        self._reaching = reaching
        self._observed = observed
        self._is_small = is_small

    def found(self, places: ObservedValuesOfCalls) -> Iterator[MixedElement]:
        """Yield those whose sign is visible in one of these places."""
        told: set[tuple[str, _Path]] = set()
        returned: list[ast.AST] = []
        for node in walk_here(self._typed.unit.tree):
            match node:
                case ast.Name(id=name):
                    stores = list(self._reaching.stores.get(node, ()))
                    for path, wide, signed in self._mixed(self._typed.type_of(node), stores):
                        is_told = (name, path) in told
                        if not is_told and _is_seen(self._observed, node, path, places):
                            told.add((name, path))
                            yield self._element(node, wide, signed, path, (name, path))
                case ast.IfExp(body=body, orelse=other):
                    kind = self._typed.type_of(node)
                    for path, wide, signed in self._mixed(kind, [body, other]):
                        if _is_seen(self._observed, node, path, places):
                            yield self._element(node, wide, signed, path)
                case ast.Return(value=ast.expr() as value):
                    returned.append(value)
        for path, wide, signed in self._mixed(self._typed.result, returned):
            if _is_seen(self._observed, wide, path, places):
                yield self._element(wide, wide, signed, path)

    def _mixed(
        self, kind: Type | None, nodes: Sequence[ast.AST]
    ) -> Iterator[tuple[_Path, ast.AST, ast.AST]]:
        """Yield the elements that are both in some of these tuples, with one of each."""
        if not isinstance(kind, TupleType | TupleKind) or len(nodes) < 2:
            return
        given = [(node, self._types(node)) for node in nodes]
        for path, dtype in numbers_of(kind).items():
            if dtype != "int64":
                continue
            wide = [n for n, types in given if types.get(path) == "uint64"]
            wide = [n for n in wide if not self._is_small(element(n, path, self._reaching))]
            signed = [n for n, types in given if types.get(path) in SIGNED_INTEGERS]
            if wide and signed:
                yield path, wide[0], signed[0]

    def _types(self, node: ast.AST) -> dict[_Path, str]:
        """Return the types of a tuple's elements."""
        if isinstance(node, ast.arg):
            place = self._typed.unit.parameters.index(node.arg)
            return numbers_of(self._typed.arguments[place])
        return numbers_of(self._typed.type_of(node))

    def _element(
        self,
        node: ast.AST,
        wide: ast.AST,
        signed: ast.AST,
        path: _Path,
        variable: tuple[str, _Path] | None = None,
    ) -> MixedElement:
        one, other = (element(each, path, self._reaching) for each in (wide, signed))
        return MixedElement(node, one, other, self._types(signed)[path], variable)


def element(node: ast.AST, path: _Path, reaching: Reaching) -> ast.expr:
    """Return an element of a tuple: as it is written, if the tuple is."""
    found = reaching.values.get(node, node)
    if not isinstance(found, ast.expr):
        name = node.arg if isinstance(node, ast.arg) else ""
        found = ast.copy_location(ast.Name(name, ast.Load()), node)
    for place in path:
        if isinstance(found, ast.Tuple):
            found = found.elts[place]
            continue
        made = ast.Subscript(found, ast.Constant(place), ast.Load())
        for where in ("lineno", "col_offset", "kd_origin"):  # no end, as it is not written
            if hasattr(found, where):
                setattr(made, where, getattr(found, where))
        found = made
    return found


def numbers_of(kind: Type | None) -> dict[_Path, str]:
    """Return the types of all numbers in a tuple."""
    if isinstance(kind, ScalarKind):
        return {(): kind.dtype}
    if not isinstance(kind, TupleType | TupleKind):
        return {}
    return {
        (place, *path): dtype
        for place, each in enumerate(kind.elements)
        for path, dtype in numbers_of(each).items()
    }


_Value: TypeAlias = tuple[ObservedValues, ast.AST, _Path]


def _is_seen(
    function: ObservedValues, node: ast.AST, path: _Path, places: ObservedValuesOfCalls
) -> bool:
    """Return whether the sign of an element of a tuple is visible in a result."""
    pending: list[_Value] = [(function, node, path)]
    seen = set(pending)
    while pending:
        owner, value, rest = pending.pop()
        if not rest:
            if any(True for _ in places.places(owner, [value])):
                return True
            continue
        onward = _onward(owner, value, rest, places)
        if onward is None:
            return True
        pending += [each for each in onward if each not in seen]
        seen.update(onward)
    return False


def _onward(
    function: ObservedValues, node: ast.AST, path: _Path, places: ObservedValuesOfCalls
) -> list[_Value] | None:
    """Return what has the element in turn; ``None`` if that is not known."""
    parent = function.parents[node]
    match parent:
        case ast.Subscript(slice=ast.Constant(value=int(number))) if number >= 0:
            return [(function, parent, path[1:])] if number == path[0] else []
        case ast.IfExp(test=test):
            return [] if node is test else [(function, parent, path)]
        case ast.Return():
            return [(owner, call, path) for owner, call in places.calls_of(function.unit)]
        case ast.Assign(targets=[target]):
            return _stored(function, target, path)
    return None


def _stored(function: ObservedValues, target: ast.expr, path: _Path) -> list[_Value] | None:
    """Return where an element is read again, once its tuple is assigned to a target."""
    match target:
        case ast.Tuple(elts=parts) if path and path[0] < len(parts):
            return _stored(function, parts[path[0]], path[1:])
        case ast.Name() if path or is_whole(function.type_of(target)):
            return [(function, use, path) for use in function.uses([target])]
        case ast.Subscript() if not path and is_whole(function.type_of(target)):
            return []
    return None
