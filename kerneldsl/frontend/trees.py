"""Walking, copying and rewriting ASTs, and nodes that are added to them.

Passes walk a kernel's tree hundreds of times. ``ast.walk``, ``ast.NodeTransformer`` and
``copy.deepcopy`` take three times as long, also for what never changes: operators, and the marks of
loads and stores.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, TypeVar, cast

__all__ = [
    "Transformer",
    "assign",
    "call",
    "children_of",
    "copy_tree",
    "fill_locations",
    "is_text",
    "jumps_of",
    "load",
    "slices_of",
    "spread_rest",
    "statements_in_loops",
    "statements_of",
    "store",
    "walk_here",
]

T = TypeVar("T")
N = TypeVar("N", bound=ast.AST)

#: Nodes without fields, which Python's parser shares, too.
_MARKS = ast.expr_context | ast.operator | ast.unaryop | ast.boolop | ast.cmpop
#: Fields that hold no nodes, or those alone.
_WITHOUT_NODES = frozenset({"arg", "attr", "ctx", "id", "kind", "op", "ops", "type_comment"})
#: Lists without anything but nodes.
_OF_NODES = frozenset(
    {"args", "body", "comparators", "elts", "keywords", "orelse", "targets", "values"}
)
#: Attributes with the location of a node in the source.
_LOCATION = ("lineno", "col_offset", "end_lineno", "end_col_offset")
#: The fields that may hold nodes, by the type of the node.
_parts: dict[type[ast.AST], tuple[str, ...]] = {ast.Constant: ()}


def walk_here(nodes: ast.AST | Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield every node below one node or a list of nodes, themselves included.

    Operators, ``ast.Load`` and ``ast.Store`` are left out. Below one node the order is that of
    ``ast.walk``, breadth first, and a node may be changed once it is yielded.
    """
    parts_of = _parts.get
    for first in [nodes] if isinstance(nodes, ast.AST) else nodes:
        found = [first]
        for node in found:  # grows meanwhile
            kind = type(node)
            parts = parts_of(kind)
            if parts is None:
                parts = _find_parts(kind)
            if parts:
                state = node.__dict__
                for name in parts:
                    value = state.get(name)
                    if type(value) is list:
                        if name in _OF_NODES:
                            found += value
                        else:
                            found += [each for each in value if isinstance(each, ast.AST)]
                    elif isinstance(value, ast.AST):
                        found.append(value)
            yield node


def jumps_of(statements: Iterable[ast.stmt]) -> Iterator[ast.Break | ast.Continue]:
    """Yield ``break`` and ``continue`` of the loop with this body, but those of loops in it."""
    for statement in statements:
        if isinstance(statement, ast.Break | ast.Continue):
            yield statement
        elif isinstance(statement, ast.If):
            yield from jumps_of([*statement.body, *statement.orelse])


def children_of(node: ast.AST) -> list[ast.AST]:
    """Return the nodes right below a node, in the order of its fields, as :func:`walk_here`."""
    found: list[ast.AST] = []
    state = node.__dict__
    for name in _parts_of(type(node)):
        value = state.get(name)
        if type(value) is list:
            found += [each for each in value if isinstance(each, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def _parts_of(kind: type[ast.AST]) -> tuple[str, ...]:
    found = _parts.get(kind)
    return _find_parts(kind) if found is None else found


def _find_parts(kind: type[ast.AST]) -> tuple[str, ...]:
    found = _parts[kind] = tuple(name for name in kind._fields if name not in _WITHOUT_NODES)
    return found


def fill_locations(tree: N) -> N:
    """Give each node without a location that of the node above it, in place.

    Does what ``ast.fix_missing_locations`` does.
    """
    pending: list[tuple[ast.AST, tuple[Any, ...]]] = [(tree, (1, 0, 1, 0))]
    while pending:
        node, above = pending.pop()
        state = node.__dict__
        here = tuple(map(state.get, _LOCATION))
        if None in here:
            here = tuple(b if a is None else a for a, b in zip(here, above, strict=True))
            if node._attributes:
                state.update(zip(_LOCATION, here, strict=True))
        pending += [(each, here) for each in children_of(node)]
    return tree


class Transformer(ast.NodeTransformer):
    """Python's transformer, which does not visit operators, ``ast.Load`` and ``ast.Store``."""

    #: The methods of a class, by the type of the node; ``None`` for those without one.
    _methods: ClassVar[dict[type[ast.AST], Any]]

    def __init_subclass__(cls) -> None:
        """Give each class its own table."""
        super().__init_subclass__()
        cls._methods = {}

    def visit(self, node: ast.AST) -> Any:
        """Call the method for a node of its type, or else visit its parts."""
        kind = type(node)
        try:
            method = self._methods[kind]
        except KeyError:
            method = self._methods[kind] = getattr(type(self), f"visit_{kind.__name__}", None)
        return self.generic_visit(node) if method is None else method(self, node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Visit the parts of a node, and put what takes their place there."""
        parts = _parts_of(type(node))
        if not parts:
            return node
        state = node.__dict__
        for name in parts:
            value = state.get(name)
            if type(value) is list:
                made: list[Any] = []
                for each in value:
                    if not isinstance(each, ast.AST):
                        made.append(each)
                        continue
                    new = self.visit(each)
                    if isinstance(new, ast.AST):
                        made.append(new)
                    elif new is not None:
                        made += new
                value[:] = made
            elif isinstance(value, ast.AST):
                new = self.visit(value)
                if new is None:
                    del state[name]
                else:
                    state[name] = new
        return node


def copy_tree(tree: T) -> T:
    """Copy an AST, or a list of nodes, so that a pass may change it.

    Operators and the marks of loads and stores are shared.
    """
    if isinstance(tree, list):
        return cast(T, [copy_tree(each) for each in tree])
    if not isinstance(tree, ast.AST) or isinstance(tree, _MARKS):
        return tree
    return cast(T, _copy(tree))


def _copy(node: ast.AST) -> ast.AST:
    kind = type(node)
    new = kind.__new__(kind)
    state = new.__dict__
    state.update(node.__dict__)
    for name in _parts_of(kind):
        part = state.get(name)
        if type(part) is list:
            state[name] = [_copy(each) if isinstance(each, ast.AST) else each for each in part]
        elif isinstance(part, ast.AST):
            state[name] = _copy(part)
    # A list of operators belongs to one node.
    if kind is ast.Compare:
        state["ops"] = list(state["ops"])
    return new


def statements_of(tree: ast.AST) -> list[ast.stmt]:
    """Return the statements of a function, in an order that is the same for equal trees."""
    return [node for node in walk_here(tree) if isinstance(node, ast.stmt)]


def statements_in_loops(tree: ast.AST) -> int:
    """Return how many statements loops repeat, each counted for each loop around it."""
    loops = (node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While))
    return sum(isinstance(node, ast.stmt) for loop in loops for node in ast.walk(loop))


def is_text(node: ast.AST) -> bool:
    """Return whether a node is a literal of text."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def slices_of(tree: ast.AST) -> Iterator[ast.Subscript]:
    for node in walk_here(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            yield node


# -- nodes that are added --------------------------------------------------------------------------


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.Name:
    """Return a variable as the target of an assignment."""
    return ast.Name(name, ast.Store())


def assign(name: str, value: ast.expr) -> ast.Assign:
    """Return the assignment of a value to a variable."""
    return ast.Assign([store(name)], value)


def call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(load(name), list(arguments), [])


def spread_rest(tree: ast.AST, name: str, count: int) -> None:
    """Write ``f(*rest)`` as ``f(rest[0], rest[1])``, in place, for a tuple of `count` items."""
    for node in walk_here(tree):
        if not isinstance(node, ast.Call):
            continue
        given, node.args = node.args, []
        for each in given:
            match each:
                case ast.Starred(ast.Name(found)) if found == name:
                    items = (
                        ast.Subscript(load(name), ast.Constant(i), ast.Load()) for i in range(count)
                    )
                    node.args += [fill_locations(ast.copy_location(i, each)) for i in items]
                case _:
                    node.args.append(each)
