"""Tuples of functions: ``F[0](x)`` and ``for f in F`` call functions that are known by their place.

Functions are not values in a kernel, so this pass replaces them by names. An item at a constant
index becomes a name that resolves to the function. A loop over functions is written out, once for
each. The result calls functions by name.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from kerneldsl.errors import KernelError
from kerneldsl.errors.values import as_int
from kerneldsl.frontend.captured import ItemReader, holds_functions, is_function
from kerneldsl.frontend.report import Reporter
from kerneldsl.frontend.resolve import Namespace
from kerneldsl.frontend.statics import StaticEvaluator
from kerneldsl.frontend.trees import (
    Transformer,
    assign,
    call,
    copy_tree,
    fill_locations,
    jumps_of,
    walk_here,
)
from kerneldsl.language.reserved import RESERVED_PREFIX
from kerneldsl.utilities.formatting import format_count

__all__ = ["select_functions"]

_KNOWN = "It must be known when the kernel is compiled which function is called"


def select_functions(
    tree: ast.FunctionDef,
    scope: Namespace,
    statics: StaticEvaluator,
    local_functions: Collection[str],
    reporter: Reporter,
) -> None:
    """Write calls of functions in tuples as calls by name, in place.

    - raises `UnsupportedConstructError` if it is not known which function is called: by an index
      that is no constant, or a variable that holds another one elsewhere.
    """
    selecting = _Selecting(scope, statics, local_functions, reporter)
    if any(map(selecting.is_tuple_of_functions, _candidates(tree))):
        tree.body = selecting.block(tree.body)


def _candidates(tree: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield nodes that may be tuples of functions; of each name outside an attribute one."""
    seen = set[str]()
    for node in walk_here(tree):
        if isinstance(node, ast.Name):
            if node.id not in seen:
                seen.add(node.id)
                yield node
        elif isinstance(node, ast.Tuple | ast.Attribute):
            yield node


class _Selecting(Transformer):
    """Follows a function's statements in order, with the variables that are functions by now."""

    def __init__(
        self,
        scope: Namespace,
        statics: StaticEvaluator,
        local_functions: Collection[str],
        reporter: Reporter,
    ) -> None:
        self._scope = scope
        self._statics = statics
        self._local_functions = local_functions
        self._reporter = reporter
        #: Variable to its replacement: a function, a tuple of functions, or the index of a loop.
        #: ``None`` if it may be one of several functions.
        self._known: dict[str, ast.expr | None] = {}

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Return statements without the choice of functions."""
        found: list[ast.stmt] = []
        for statement in statements:
            result = self.visit(statement)
            found += result if isinstance(result, list) else [result]
        return found

    # What a node names

    def is_tuple_of_functions(self, node: ast.AST) -> bool:
        """Return whether a node, as it is written, is a tuple with functions among its items."""
        try:
            if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
                return self._is_function(node)
            if isinstance(node, ast.Name | ast.Attribute):
                return self._items_outside(node) is not None
            return False
        except KernelError:  # a name that means nothing, which is refused where it is met
            return False

    def _outside(self, node: ast.expr) -> Any:
        """Return what a chain from outside names, with how it is read; ``None`` for other nodes."""
        if not isinstance(node, ast.Name | ast.Attribute) or not self._scope.is_outside(node):
            return None
        resolved = self._scope.resolve(node)
        return None if resolved.foreign is not None or resolved.rest else resolved

    def _is_function(self, node: ast.expr) -> bool:
        """Return whether a node, which has been visited, is a function or has some as items."""
        if isinstance(node, ast.Tuple):
            return any(map(self._is_function, node.elts))
        if isinstance(node, ast.Name) and node.id in self._local_functions:
            return True
        resolved = self._outside(node)
        if resolved is None:
            return False
        return is_function(resolved.value) or holds_functions(resolved.value)

    def _items(self, node: ast.expr) -> list[ast.expr] | None:
        """Return what a node runs over, if functions are among it, and else ``None``."""
        match node:
            case ast.Name(id=name) if (known := self._known.get(name)) is not None:
                return self._items(known)
            case ast.Tuple(elts=elements):
                visited = [self._visited(each) for each in elements]
                return visited if any(map(self._is_function, visited)) else None
            case ast.Subscript(value=value, slice=ast.Slice() as part):
                items = self._items(value)
                return items and items[self._slice(part)]
            case ast.Call(
                func=ast.Name(id="literal_unroll") | ast.Attribute(attr="literal_unroll"),
                args=[value],
            ):
                return self._items(value)
            case ast.Call(func=ast.Name(id="reversed"), args=[value], keywords=[]):
                items = self._items(value)
                return items and items[::-1]
            case ast.Call(func=ast.Name(id="enumerate"), args=[value, *start], keywords=[]):
                items = self._items(value)
                first = int(self._number(start[0], "the start of enumerate")) if start else 0
                return items and [
                    _tuple(node, [ast.Constant(n), each]) for n, each in enumerate(items, first)
                ]
            case ast.Call(func=ast.Name(id="zip"), args=values, keywords=[]):
                rows = [self._items(value) for value in values]
                if not any(rows):
                    return None
                columns = (r or self._constants(v) for r, v in zip(rows, values, strict=True))
                return [_tuple(node, each) for each in zip(*columns, strict=False)]
            case ast.Subscript():
                return self._items_outside(self._visited(node))
            case _:
                return self._items_outside(node)

    def _items_outside(self, node: ast.expr) -> list[ast.expr] | None:
        resolved = self._outside(node)
        if resolved is None or not holds_functions(resolved.value):
            return None
        self._statics.watch(node)  # a longer tuple has the same items, and more
        return [self._item(node, n) for n in range(len(resolved.value))]

    def _item(self, owner: ast.expr, index: int) -> ast.expr:
        """Return the name of an item of an outside tuple."""
        resolved = self._scope.resolve(owner)
        path = f"{resolved.path}[{index}]"
        self._scope.add(path, ItemReader(resolved.read, index))
        return ast.copy_location(ast.Name(path, ast.Load()), owner)

    def _constants(self, node: ast.expr) -> list[ast.expr]:
        """Return the items of what is beside functions in zip."""
        resolved = self._outside(node)
        if isinstance(node, ast.Tuple):
            return node.elts
        if resolved is None or not isinstance(resolved.value, tuple | np.ndarray):
            self._reporter.fail(
                node,
                f"functions are zipped with {ast.unparse(node)} of unknown length",
                "Loop over range(len(…)) of the functions, and index both",
                limit=_KNOWN,
            )
        numbers = range(len(resolved.value))
        return [
            ast.copy_location(ast.Subscript(copy_tree(node), ast.Constant(n), ast.Load()), node)
            for n in numbers
        ]

    def _number(self, node: ast.expr, what: str) -> Any:
        remedy = "Loop over the functions, or choose one by if"
        return self._statics.evaluate(self._visited(node), what, remedy, _KNOWN)

    def _slice(self, part: ast.Slice) -> slice:
        ends = (part.lower, part.upper, part.step)
        return slice(*(e and self._number(e, "an end of a slice of functions") for e in ends))

    def _visited(self, node: ast.expr) -> ast.expr:
        visited: ast.expr = self.visit(copy_tree(node))
        return visited

    # Expressions

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load) or node.id not in self._known:
            return node
        known = self._known[node.id]
        if known is None:
            self._reporter.fail(
                node,
                f"{node.id} may be one function or another here",
                "Call each one in the branch that chooses it, or put the condition into a function",
                limit=_KNOWN,
            )
        return ast.copy_location(copy_tree(known), node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        items = self._items(node.value) if isinstance(node.ctx, ast.Load) else None
        if items is None or isinstance(node.slice, ast.Slice):
            self.generic_visit(node)
            return node
        owner = ast.unparse(node.value)
        index = as_int(self._number(node.slice, f"the index of {owner}"))
        if index is None or not -len(items) <= index < len(items):
            self._reporter.fail(
                node,
                f"{owner} is indexed by {ast.unparse(node.slice)}",
                f"Give an index from 0 to {len(items) - 1}",
                limit=f"It has {format_count(len(items), 'item')}",
                value=index,
            )
        return ast.copy_location(items[index], node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        match node:
            case ast.Call(func=ast.Name(id="len"), args=[value], keywords=[]):
                items = self._items(value)
                if items is not None:
                    return ast.copy_location(ast.Constant(len(items)), node)
        self.generic_visit(node)
        return node

    # Statements

    def visit_If(self, node: ast.If) -> ast.stmt:
        node.test = self.visit(node.test)
        before = dict(self._known)
        node.body = self.block(node.body)
        after, self._known = self._known, before
        node.orelse = self.block(node.orelse)
        self._meet(after)
        return node

    def visit_While(self, node: ast.While) -> ast.stmt:
        self._repeat(node)
        return node

    def _repeat(self, node: ast.For | ast.While) -> None:
        """Follow a loop that stays one: what it assigns may come from an earlier round."""
        before = dict(self._known)
        self._forget(node)
        if isinstance(node, ast.While):
            node.test = self.visit(node.test)
        node.body = self.block(node.body)
        self._meet(before)

    def _meet(self, other: dict[str, ast.expr | None]) -> None:
        """Join two paths; one ends with the current state."""
        for name in {*self._known, *other}:
            one, two = self._known.get(name), other.get(name)
            if name in other and two is None:
                self._known[name] = None
            elif one is None or two is None or ast.dump(one) != ast.dump(two):
                self._drop(name, one, two)

    def _forget(self, *nodes: ast.AST) -> None:
        """Forget the variables that are assigned in some nodes."""
        for node in nodes:
            for each in walk_here(node):
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                    self._drop(each.id, self._known.get(each.id))

    def _drop(self, name: str, *values: ast.expr | None) -> None:
        """Forget a variable, which holds its number, but that it may be a function."""
        is_number = all(isinstance(each, ast.Constant) for each in values if each is not None)
        if name in self._known and self._known[name] is None:
            return
        self._known.pop(name, None)
        if not is_number:
            self._known[name] = None

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        target = node.targets[0]
        if len(node.targets) == 1 and self._holds_items(node.value):
            return self._bound(target, self._visited(node.value)) or [
                ast.copy_location(ast.Pass(), node)
            ]
        self.generic_visit(node)
        for each in node.targets:
            self._assigned(each)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        self.generic_visit(node)
        self._assigned(node.target)
        return node

    def _assigned(self, target: ast.expr) -> None:
        """Take a variable for one of numbers from here on."""
        for each in walk_here(target):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                self._known.pop(each.id, None)

    def _holds_items(self, value: ast.expr) -> bool:
        """Return whether a value is an item of a tuple of functions, or such a tuple."""
        if self._items(value) is not None:
            return True
        return isinstance(value, ast.Subscript) and self._items(value.value) is not None

    def _bound(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        """Give a variable its value, in the statements returned or in what is known."""
        if isinstance(target, ast.Tuple) and (items := self._items(value)) is not None:
            if len(items) != len(target.elts):
                self._reporter.fail(
                    target,
                    f"{len(items)} values are unpacked into {len(target.elts)} names",
                    "Give each value a name",
                )
            pairs = zip(target.elts, items, strict=True)
            return [statement for pair in pairs for statement in self._bound(*pair)]
        if isinstance(target, ast.Name) and self._is_function(value):
            self._known[target.id] = value
            return []
        self._assigned(target)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
            self._known[target.id] = value
        assigned = ast.Assign([copy_tree(target)], copy_tree(value))
        return [ast.copy_location(assigned, target)]

    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        items = self._items(node.iter)
        if items is None and self._counts_functions(node):
            items = [ast.copy_location(ast.Constant(n), node.iter) for n in self._range(node.iter)]
        if items is None:
            node.iter = self.visit(node.iter)
            self._repeat(node)
            return node
        jumps = {type(jump) for jump in jumps_of(node.body)}
        if jumps == {ast.Break, ast.Continue}:
            self._reporter.fail(
                next(jumps_of(node.body)),
                "a loop over functions has break and continue",
                "Write what continue leaves out under an if",
                limit="It is written out, once for each function",
            )
        rounds: list[ast.stmt] = []
        for item in items:
            body = self._bound(node.target, item) + self.block(copy_tree(node.body))
            rounds += _once(node, body) if ast.Continue in jumps else body
            if jumps:  # a round may end before a variable has its value
                self._forget(node.target, *node.body)
        if ast.Break in jumps:
            rounds = _once(node, rounds)
        return rounds or [ast.copy_location(ast.Pass(), node)]

    def _counts_functions(self, node: ast.For) -> bool:
        """Return whether a loop goes over a range with indices of functions."""
        match node:
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"))):
                return any(
                    isinstance(each, ast.Subscript)
                    and any(isinstance(n, ast.Name) and n.id == name for n in walk_here(each.slice))
                    and self._items(each.value) is not None
                    for statement in node.body
                    for each in walk_here(statement)
                )
        return False

    def _range(self, node: ast.expr) -> range:
        assert isinstance(node, ast.Call)
        return range(*(int(self._number(each, "the range of a loop")) for each in node.args))


def _tuple(node: ast.expr, items: Collection[ast.expr]) -> ast.expr:
    elements = [
        each if hasattr(each, "lineno") else ast.copy_location(each, node) for each in items
    ]
    return ast.copy_location(ast.Tuple(elements, ast.Load()), node)


def _once(node: ast.For, body: list[ast.stmt]) -> list[ast.stmt]:
    """Return a loop of one round, which break and continue leave."""
    rounds = call("range", ast.Constant(1))
    target = assign(f"{RESERVED_PREFIX}once", rounds).targets[0]
    loop = ast.For(target, rounds, body or [ast.Pass()], [])
    return [fill_locations(ast.copy_location(loop, node))]
