"""Write a function with variables in the place of the elements of small arrays."""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import NamedTuple

from kerneldsl.analysis.expressions import assigned_names, index_parts
from kerneldsl.analysis.hoisting import place_at
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, call, load
from kerneldsl.frontend.trees import Transformer, copy_tree, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.passes.code_size import size_of
from targets.cpu.passes.counted_loops import is_range
from targets.cpu.passes.known_integers import KnownIntegers
from targets.cpu.passes.unrolled_loops import UnrolledLoops

__all__ = ["ElementWriter", "LocalArray", "conversion", "element_of"]

#: Statements that a nest of loops may become when it is written out, and all nests together.
_MOST_OF_NEST = 64
_MOST_STATEMENTS = 256


class LocalArray(NamedTuple):
    """An array of a thread's own."""

    #: Reserved name of the call that declares it.
    declaration: str
    #: Extents along its axes.
    shape: tuple[int, ...]
    #: Name of its elements' type.
    dtype: str


def conversion(dtype: str, value: ast.expr) -> ast.expr:
    """Return a value as it is read again from an element in which it is stored."""
    return call(f"kd_{dtype}", value)


def element_of(node: ast.Subscript) -> tuple[str, list[ast.expr]] | None:
    """Return the variable and the indices of ``a[i, j]``, or of ``a[i][j]``."""
    parts: list[ast.expr] = []
    base: ast.expr = node
    while isinstance(base, ast.Subscript):
        parts[:0] = index_parts(base)
        base = base.value
    return (base.id, parts) if isinstance(base, ast.Name) else None


class _TooLongError(Exception):
    """A nest of loops would become too many statements."""


@dataclass(frozen=True)
class _Place:
    """The place of a statement, with what is known there."""

    known: KnownIntegers
    #: Variables of loops that are written out, which no statement assigns.
    counters: frozenset[str] = frozenset()
    #: Variables that a round of a loop has for itself, with their names in this copy of it.
    renamed: Mapping[str, str] = field(default_factory=dict)
    #: Whether it is never reached.
    is_dead: bool = False

    def knowing(self, values: Mapping[str, int]) -> _Place:
        """Return the place with more variables that are known."""
        known = KnownIntegers(self.known.constants, {**self.known.values, **values})
        return replace(self, known=known)

    def when(self, is_reached: bool | None) -> _Place:
        """Return the place under a condition, which may be known."""
        return replace(self, is_dead=True) if is_reached is False else self


class ElementWriter:
    """Writes the statements of one function.

    Where an array cannot become variables, its name is in :attr:`failed` afterwards, and what was
    written is useless.
    """

    def __init__(
        self,
        unit: FunctionUnit,
        arrays: Mapping[str, LocalArray],
        names: FreshNames,
        *,
        wraparound: bool,
    ) -> None:
        self.unit = unit
        self.arrays = arrays
        self.names = names
        self.wraparound = wraparound
        self.failed: set[str] = set()
        #: Variables of the elements of each array.
        self.elements = {
            name: [names.make(f"{name}_{number}") for number in range(math.prod(array.shape))]
            for name, array in arrays.items()
        }
        self.dtypes = {
            element: arrays[name].dtype for name, each in self.elements.items() for element in each
        }
        #: Other new variables, with those in whose place they are.
        self.copies: dict[str, str] = {}
        self._loops = UnrolledLoops(unit, self._indexed)
        self._stores = Counter(
            n.id
            for n in walk_here(unit.tree)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        )
        self._depth = self._written = self._most = 0

    def written(self) -> list[ast.stmt]:
        """Return the function's statements; those that declare arrays stay where they are."""
        return self._block(self.unit.tree.body, _Place(KnownIntegers(self.unit.constants)))

    def converted(self, dtype: str, value: ast.expr) -> ast.expr:
        """Return what is stored in an element, as it is read again."""
        is_same = isinstance(value, ast.Name) and self.dtypes.get(value.id) == dtype
        return value if is_same else conversion(dtype, value)

    def element(self, node: ast.Subscript, place: _Place) -> str | None:
        """Return the variable of an element; ``None`` if it is none, or not known which."""
        found = element_of(node)
        if found is None or found[0] not in self.arrays:
            return None
        name, parts = found
        number = 0
        for part, extent in zip(parts, self.arrays[name].shape, strict=True):
            index = self._within(part, extent, place)
            if index is None:
                self.failed.add(name)
                return None
            number = number * extent + index
        return self.elements[name][number]

    def _within(self, part: ast.expr, extent: int, place: _Place) -> int | None:
        index = place.known.integer(part)
        if index is None:
            return None
        is_literal = isinstance(part, ast.UnaryOp) and isinstance(part.operand, ast.Constant)
        if index < 0 and (self.wraparound or is_literal):
            index += extent
        if 0 <= index < extent:
            return index
        return 0 if place.is_dead else None

    def _count(self, node: ast.stmt, written: list[ast.stmt]) -> None:
        """Count what a statement became; what is in a compound one is counted already."""
        match node:
            case ast.If(test=part) | ast.While(test=part) | ast.For(iter=part):
                self._written += isinstance(node, ast.If) + size_of(part, self.unit)
            case _:
                self._written += sum(size_of(each, self.unit) for each in written)
        if self._written > self._most:
            raise _TooLongError

    def _indexed(self, node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
        for inner in walk_here(node):
            found = element_of(inner) if isinstance(inner, ast.Subscript) else None
            if found is not None and found[0] in self.arrays:
                yield from ((found[0], part) for part in found[1])

    # -- statements ------------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt], place: _Place) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for node in body:
            new = self._statement(node, place)
            if self._depth:
                self._count(node, new)
            out += new
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                    self._stores[name] == 1 and name not in self.unit.parameters
                ):
                    number = place.known.integer(value)
                    if number is not None:
                        place = place.knowing({name: number})
        return out

    def _statement(self, node: ast.stmt, place: _Place) -> list[ast.stmt]:
        match node:
            case ast.For():
                rounds = self._loops.rounds(node, place.known)
                if rounds is not None:
                    return self._unrolled(node, rounds, place)
                target = self._expression(node.target, place)
                iterable = self._expression(node.iter, place)
                body, orelse = self._block(node.body, place), self._block(node.orelse, place)
                return [_like(node, target=target, iter=iterable, body=body, orelse=orelse)]
            case ast.While():
                test = self._expression(node.test, place)
                body, orelse = self._block(node.body, place), self._block(node.orelse, place)
                return [_like(node, test=test, body=body, orelse=orelse)]
            case ast.If():
                return self._if(node, place)
            case ast.Assign() if any(map(self._holds_element, node.targets)):
                return [place_at(each, node) for each in self._stored(node, place)]
            case ast.AugAssign(target=ast.Subscript() as target) if self._holds_element(target):
                name = self.element(target, place)
                if name is None:
                    return [node]
                value = self._expression(node.value, place)
                result = ast.BinOp(load(name), node.op, value)
                return [place_at(assign(name, conversion(self.dtypes[name], result)), node)]
        return [_Expressions(self, place).generic_visit(copy_tree(node))]  # type: ignore[list-item]

    def _if(self, node: ast.If, place: _Place) -> list[ast.stmt]:
        decided = place.known.decide(node.test) if place.known.values else None
        if decided is not None:
            chosen, other = (node.body, node.orelse) if decided else (node.orelse, node.body)
            # A variable of two types has one that holds both, wherever it is assigned.
            if not assigned_names(other):
                return self._block(chosen, place)
        body = self._block(node.body, place.when(decided))
        opposite = None if decided is None else not decided
        orelse = self._block(node.orelse, place.when(opposite))
        return [_like(node, test=self._expression(node.test, place), body=body, orelse=orelse)]

    def _unrolled(self, node: ast.For, rounds: range, place: _Place) -> list[ast.stmt]:
        assert isinstance(node.target, ast.Name)
        if not self._depth:
            self._most = min(self._written + _MOST_OF_NEST, _MOST_STATEMENTS)
        out: list[ast.stmt] = []
        self._depth += 1
        try:
            for number in rounds:
                inner = place.knowing({node.target.id: number})
                own = {name: self._copied(name) for name in self._loops.own_names(node)}
                out += self._block(
                    node.body,
                    replace(
                        inner,
                        counters=place.counters | {node.target.id},
                        renamed={**place.renamed, **own},
                    ),
                )
        except _TooLongError:
            if self._depth > 1:
                raise
            self.failed |= {name for name, _ in self._indexed(node)}
        finally:
            self._depth -= 1
        return out

    def _copied(self, name: str) -> str:
        copied = self.names.make(name)
        self.copies[copied] = name
        return copied

    # -- assignments -----------------------------------------------------------------------------

    def _holds_element(self, target: ast.expr) -> bool:
        return any(True for _ in self._indexed(target))

    def _stored(self, node: ast.Assign, place: _Place) -> list[ast.stmt]:
        """Write an assignment to elements, and to others."""
        targets, value = node.targets, self._expression(node.value, place)
        if any(isinstance(target, ast.Tuple | ast.List) for target in targets):
            self.failed |= {name for name, _ in self._indexed(node)}
            return [node]
        if len(targets) == 1:
            return [self._store(targets[0], value, place)]
        saved = self.names.make("value")
        return [assign(saved, value), *(self._store(e, load(saved), place) for e in targets)]

    def _store(self, target: ast.expr, value: ast.expr, place: _Place) -> ast.stmt:
        name = self.element(target, place) if isinstance(target, ast.Subscript) else None
        if name is None:
            return ast.Assign([self._expression(target, place)], value)
        return assign(name, self.converted(self.dtypes[name], value))

    def _expression(self, node: ast.expr, place: _Place) -> ast.expr:
        return _Expressions(self, place).visit(copy_tree(node))  # type: ignore[no-any-return]

    def is_range(self, node: ast.expr) -> bool:
        """Return whether an expression is a range; its bounds are integers."""
        return is_range(node, self.unit)


def _like(node: ast.stmt, **fields: object) -> ast.stmt:
    """Return a compound statement like another one, with other parts."""
    new = type(node).__new__(type(node))
    new.__dict__.update(node.__dict__, **fields)
    if not new.__dict__["body"]:
        new.__dict__["body"] = [place_at(ast.Pass(), node)]
    return new


class _Expressions(Transformer):
    """Writes expressions of one place.

    A known variable is a constant in an index. Elsewhere it is a value of int64 of which Numba
    cannot tell that it is constant, as the variable was: no branch is left out, which would change
    the types of variables, and powers are computed as they were.
    """

    def __init__(self, writer: ElementWriter, place: _Place) -> None:
        self.writer = writer
        self.place = place
        self.is_index = False

    def visit_Name(self, node: ast.Name) -> ast.expr:
        place = self.place
        value = place.known.values.get(node.id) if isinstance(node.ctx, ast.Load) else None
        if value is not None and self.is_index:
            return place_at(ast.Constant(value), node)
        if value is not None and node.id in place.counters:
            return place_at(call("kd_int64", ast.Constant(value)), node)
        node.id = place.renamed.get(node.id, node.id)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        name = self.writer.element(node, self.place)
        if name is not None:
            if isinstance(node.ctx, ast.Load):
                return place_at(load(name), node)
            found = element_of(node)
            assert found is not None
            self.writer.failed.add(found[0])  # it is no target that is known here
        node.value = self.visit(node.value)
        with self.within(is_index=True):
            node.slice = self.visit(node.slice)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        with self.within(is_index=self.writer.is_range(node)):
            return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        with self.within(is_index=self.is_index and not isinstance(node.op, ast.Pow)):
            return self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        decided = self.place.known.decide(node.test)
        node.test = self.visit(node.test)
        with self.under(decided):
            node.body = self.visit(node.body)
        with self.under(None if decided is None else not decided):
            node.orelse = self.visit(node.orelse)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        goes_on: bool | None = True
        for position, value in enumerate(node.values):
            decided = self.place.known.decide(value)
            with self.under(None if goes_on else goes_on):
                node.values[position] = self.visit(value)
            if goes_on and decided is not None and decided != isinstance(node.op, ast.And):
                goes_on = False
        return node

    @contextmanager
    def within(self, *, is_index: bool) -> Iterator[None]:
        before, self.is_index = self.is_index, is_index
        yield
        self.is_index = before

    @contextmanager
    def under(self, is_reached: bool | None) -> Iterator[None]:
        before, self.place = self.place, self.place.when(is_reached)
        yield
        self.place = before
