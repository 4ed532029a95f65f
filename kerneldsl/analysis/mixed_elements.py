"""Elements of tuples that are a uint64 in one place and signed in another.

Tuples of equal lengths have one type where they meet: in a variable, in a conditional expression
and in what a function returns. Each element becomes what holds both, an int64.

Types are Numba's, of a :class:`~kerneldsl.frontend.typed_unit.TypedUnit`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kerneldsl.analysis.observed_values import ObservedValues, ObservedValuesOfCalls, is_whole
from kerneldsl.analysis.reaching import Reaching
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import ScalarKind, TupleKind
from kerneldsl.language.types import TupleType, Type

__all__ = ["MixedElement", "MixedElements"]


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
    variable : str or None
        The variable that holds the tuple, and the number of the element.
    """

    node: ast.AST
    wide: ast.expr
    signed: ast.expr
    signed_type: str
    variable: tuple[str, int] | None = None


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
        Tells of an expression whether it is certainly less than 2**63.
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
        """Yield those whose sign can be told in one of these places."""
        told: set[tuple[str, int]] = set()
        returned: list[ast.AST] = []
        for node in ast.walk(self._typed.unit.tree):
            match node:
                case ast.Name(id=name):
                    stores = list(self._reaching.stores.get(node, ()))
                    for place, wide, signed in self._mixed(self._typed.type_of(node), stores):
                        if (name, place) not in told and _is_seen(
                            self._observed, [node], place, places
                        ):
                            told.add((name, place))
                            yield self._element(node, wide, signed, place, (name, place))
                case ast.IfExp(body=body, orelse=other):
                    kind = self._typed.type_of(node)
                    for place, wide, signed in self._mixed(kind, [body, other]):
                        if _is_seen(self._observed, [node], place, places):
                            yield self._element(node, wide, signed, place)
                case ast.Return(value=ast.expr() as value):
                    returned.append(value)
        for place, wide, signed in self._mixed(self._typed.result, returned):
            if _is_seen(self._observed, [wide], place, places):
                yield self._element(wide, wide, signed, place)

    def _mixed(
        self, kind: Type | None, nodes: Sequence[ast.AST]
    ) -> Iterator[tuple[int, ast.AST, ast.AST]]:
        """Yield the elements that are both in some of these tuples, with one of each."""
        if not isinstance(kind, TupleType | TupleKind) or len(nodes) < 2:
            return
        given = [(node, self._types(node)) for node in nodes]
        alike = [(node, types) for node, types in given if len(types) == len(kind.elements)]
        for place, element in enumerate(kind.elements):
            if element != ScalarKind("int64"):
                continue
            wide = [n for n, types in alike if types[place] == "uint64"]
            wide = [n for n in wide if not self._is_small_element(n, place)]
            signed = [n for n, types in alike if _is_signed(types[place])]
            if wide and signed:
                yield place, wide[0], signed[0]

    def _types(self, node: ast.AST) -> list[str | None]:
        """Return the types of a tuple's elements."""
        unit = self._typed.unit
        kind = (
            self._typed.arguments[unit.parameters.index(node.arg)]
            if isinstance(node, ast.arg)
            else self._typed.type_of(node)
        )
        if not isinstance(kind, TupleType | TupleKind):
            return []
        return [each.dtype if isinstance(each, ScalarKind) else None for each in kind.elements]

    def _is_small_element(self, node: ast.AST, place: int) -> bool:
        value = self._reaching.values.get(node, node)
        return isinstance(value, ast.Tuple) and self._is_small(value.elts[place])

    def _element(
        self,
        node: ast.AST,
        wide: ast.AST,
        signed: ast.AST,
        place: int,
        variable: tuple[str, int] | None = None,
    ) -> MixedElement:
        kind = self._types(signed)[place] or "int64"
        one, other = self._part(wide, place), self._part(signed, place)
        return MixedElement(node, one, other, kind, variable)

    def _part(self, node: ast.AST, place: int) -> ast.expr:
        """Return an element of a tuple: as it is written, if the tuple is."""
        value = self._reaching.values.get(node, node)
        if isinstance(value, ast.Tuple):
            return value.elts[place]
        name = node.arg if isinstance(node, ast.arg) else getattr(node, "id", None)
        owner = value if isinstance(value, ast.expr) else ast.Name(name or "", ast.Load())
        made = ast.Subscript(owner, ast.Constant(place), ast.Load())
        for where in ("lineno", "col_offset", "kd_origin"):  # not the end: it is not written there
            if hasattr(node, where):
                setattr(made, where, getattr(node, where))
        return made


def _is_seen(
    function: ObservedValues,
    nodes: Iterable[ast.AST],
    place: int,
    places: ObservedValuesOfCalls,
) -> bool:
    """Return whether the sign of an element of some tuples can be told from a result."""
    pending = [(function, node) for node in nodes]
    seen = set(pending)
    while pending:
        owner, node = pending.pop()
        elements, tuples = _onward(owner, node, place, places)
        if elements is None or any(True for _ in places.places(owner, elements)):
            return True
        pending += [each for each in tuples if each not in seen]
        seen.update(tuples)
    return False


_Values = list[tuple[ObservedValues, ast.AST]]


def _onward(
    function: ObservedValues, node: ast.AST, place: int, places: ObservedValuesOfCalls
) -> tuple[list[ast.AST] | None, _Values]:
    """Return what is the element of a tuple, ``None`` if that is not known; and equal tuples."""
    parent = function.parents[node]
    match parent:
        case ast.Subscript(slice=ast.Constant(value=int(number))) if number >= 0:
            return ([parent] if number == place else []), []
        case ast.IfExp(test=test):
            return [], [] if node is test else [(function, parent)]
        case ast.Return():
            return [], places.calls_of(function.unit)
        case ast.Assign(targets=[ast.Name() as target]):
            return [], [(function, use) for use in function.uses([target])]
        case ast.Assign(targets=[ast.Tuple(elts=targets)]) if place < len(targets):
            to = targets[place]
            if not is_whole(function.type_of(to)):
                return None, []
            if isinstance(to, ast.Name):
                return function.uses([to]), []
            return [] if isinstance(to, ast.Subscript) else None, []
    return None, []


def _is_signed(name: str | None) -> bool:
    return name is not None and ELEMENT_TYPES[name].is_signed and ELEMENT_TYPES[name].is_integer
