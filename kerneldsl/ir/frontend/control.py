"""Branches and ``while`` loops, as operations with regions; tests with a result that is known.

The other branch of a known test has no types. The rules are those of Numba, which drops branches
before it finds types. It knows tests of a constant, and comparisons of two. A constant is a
literal, a captured value, the rank of an array or the length of a tuple. A variable that is
assigned one of these and nothing else is a constant, too. A comparison with ``None`` is known if an
argument is ``None``.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from numba import types

from kerneldsl.frontend.library_names import outside_value
from kerneldsl.frontend.operators import COMPARISONS
from kerneldsl.frontend.trees import walk_here
from kerneldsl.ir.frontend.exits import has, labeled, unreachable
from kerneldsl.ir.frontend.merging import End, LoopVariables, merge
from kerneldsl.ir.frontend.reader import Reader, constant_of, reads_statement
from kerneldsl.ir.operations import Region, Value

__all__ = [
    "BeforeEnd",
    "assigned",
    "known_test",
    "read_body",
    "read_branches",
    "read_branches_of",
    "read_loop",
]

#: Readings of a loop's body until the types of its variables are known, for each variable.
_ROUNDS = 10


class BeforeEnd(ast.If):
    """A branch around the rest of a kernel: threads that do not take it have returned."""


@reads_statement(ast.If, BeforeEnd)
def read_branch(reader: Reader, node: ast.If) -> None:
    bodies = (partial(reader.block, body) for body in (node.body, node.orelse))
    read_branches(reader, node.test, *bodies, ends_kernel=isinstance(node, BeforeEnd))


def read_branches(
    reader: Reader,
    test: ast.expr,
    body: Callable[[], None],
    orelse: Callable[[], None],
    *,
    ends_kernel: bool = False,
) -> None:
    """Read a branch by a condition; the functions read its two sides.

    With `ends_kernel`, threads without the condition have returned from the kernel.
    """
    known = known_test(reader, test)
    if known is not None:
        (body if known else orelse)()
        return
    condition = reader.truth(reader.value(test), test)
    read_branches_of(reader, condition, body, orelse, ends_kernel=ends_kernel)


def read_branches_of(
    reader: Reader,
    condition: Value,
    body: Callable[[], None],
    orelse: Callable[[], None],
    *,
    ends_kernel: bool = False,
) -> None:
    """Read a branch by a condition that is read already."""
    before, regions, ends = reader.variables, [], []
    for read in (body, orelse):
        region = Region()
        reader.variables = dict(before)
        reader.into(region, partial(_without_results, read))
        regions.append(region)
        if not region.is_left:
            ends.append(End(region, reader.variables))
    attributes = {"ends_kernel": True} if ends_kernel else None
    made = reader.add("if", [condition], (), attributes, regions)
    reader.variables = merge(reader, made, ends, before)
    if not ends:
        unreachable(reader)


def _without_results(read: Callable[[], None]) -> list[Value]:
    read()
    return []


@reads_statement(ast.While)
def read_while(reader: Reader, node: ast.While) -> None:
    if has(node.body, ast.Break):
        labeled(reader, "break", lambda: _while(reader, node))
    else:
        _while(reader, node)


def _while(reader: Reader, node: ast.While) -> None:
    known = known_test(reader, node.test)
    if known is False:
        return

    def read(variables: LoopVariables, regions: list[Region]) -> dict[str, Any] | None:
        before, body = regions
        reader.variables = variables.inside(0)
        reader.into(before, lambda: [reader.truth(reader.value(node.test), node.test)])
        reader.variables = variables.inside(1)
        return read_body(reader, body, node.body)

    read_loop(reader, "while", [], {}, 2, assigned(node.body), read)
    if known:
        unreachable(reader)


def read_body(
    reader: Reader, region: Region, body: list[ast.stmt], bind: Callable[[], None] | None = None
) -> dict[str, Any] | None:
    """Read the body of a loop; return the variables at its end, ``None`` if control leaves it."""

    def statements() -> None:
        if bind is not None:
            bind()
        reader.block(body)

    def read() -> list[Value]:
        if has(body, ast.Continue):
            labeled(reader, "continue", statements)
        else:
            statements()
        return []

    reader.into(region, read)
    return None if region.is_left else reader.variables


def read_loop(
    reader: Reader,
    name: str,
    bounds: list[Value],
    attributes: dict[str, Any],
    regions: int,
    names: list[str],
    read: Callable[[LoopVariables, list[Region]], dict[str, Any] | None],
    arguments: tuple[Any, ...] = (),
) -> bool:
    """Read a loop until the types of its variables are settled; return if its end is reached.

    `read` reads the regions, and returns the variables at the end of the body. `arguments` are the
    types of the body's first arguments.
    """
    before, kinds, origins = reader.variables, dict[Any, Any](), dict[Any, Any]()
    outside = reader.take_skipped()
    outer = {left: len(left.ends) for left in reader.exits.values()}
    for _ in range(_ROUNDS * (1 + len(names))):
        made = [Region(arguments) for _ in range(regions)]
        reader.variables = before
        carries = "tiles" not in attributes
        variables = LoopVariables(reader, made, names, kinds, origins, carries=carries)
        reader.origins.loops += 1
        reader.loops += 1
        try:
            end = read(variables, made)
            reader.variables = before
            exits = [
                each
                for name, left in reader.exits.items()
                for each in left.ends[outer[left] :]
                if name != "return"
            ]
            is_settled = variables.is_settled(end, exits)
        finally:
            reader.origins.loops -= 1
            reader.loops -= 1
        if is_settled:
            skipped = reader.take_skipped()
            if skipped is not None and not reader.loops:
                raise skipped
            reader.skipped = skipped or outside
            variables.make(name, bounds, attributes)
            return end is not None
        reader.take_skipped()
        for left, count in outer.items():
            del left.ends[count:]
    raise AssertionError("the types of a loop's variables do not settle")


def assigned(body: list[ast.stmt]) -> list[str]:
    """Return the names that statements assign, in their order."""
    found: dict[str, None] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[node.id] = None
    return list(found)


_UNKNOWN: Any = object()
_COMPARISONS: dict[type[ast.cmpop], Any] = {
    **COMPARISONS,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, two: one in two,
    ast.NotIn: lambda one, two: one not in two,
}


def known_test(reader: Reader, node: ast.expr) -> bool | None:
    """Return the result of a test that is known now, else ``None``."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            found = known_test(reader, operand)
            return None if found is None else not found
        case ast.BoolOp(op=op, values=values):
            first = known_test(reader, values[0])
            if first is None:
                return None
            if first is isinstance(op, ast.Or):
                return first
            rest = values[1:]
            return known_test(reader, rest[0] if len(rest) == 1 else ast.BoolOp(op, rest))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            one, two = _constant(reader, left), _constant(reader, right)
            if one is _UNKNOWN or two is _UNKNOWN:
                return None
            try:
                return bool(_COMPARISONS[type(op)](one, two))
            except TypeError:
                return None
    found = _constant(reader, node)
    return None if found is _UNKNOWN else bool(found)


def _constant(reader: Reader, node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in reader.variables:
            if _count(reader, name) + (name in reader.unit.parameters) > 1:
                return _UNKNOWN
            value = reader.known(name)
            if not isinstance(value, Value):
                return _UNKNOWN
            if value.type == types.none:
                return None
            if name in reader.unit.parameters:
                return _UNKNOWN
            return _assigned(reader, name, value)
        case ast.Name(id=name) if name in reader.unit.constants:
            return reader.unit.constants[name].value
        case ast.Name() | ast.Attribute(value=ast.Name()) | ast.Attribute(value=ast.Attribute()):
            if isinstance(node, ast.Attribute) and node.attr == "ndim":
                array = reader.value(node.value)
                if isinstance(array, Value) and isinstance(array.type, types.Array):
                    return array.type.ndim
            found = outside_value(node, reader.unit.namespace)
            return found if isinstance(found, int | float) else _UNKNOWN
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
            found = reader.known(name)
            return len(found) if isinstance(found, tuple) else _UNKNOWN
        case ast.Call(func=ast.Name(id="isinstance")):
            tested = getattr(reader.value(node), "type", None)
            return tested.literal_value if isinstance(tested, types.Literal) else _UNKNOWN
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -value
    return _UNKNOWN


def _assigned(reader: Reader, name: str, value: Value) -> Any:
    """Return the constant that the only assignment of a variable names, if it names one."""
    for node in walk_here(reader.unit.tree):
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == name for target in node.targets
        ):
            # Python itself computes with literals, and calls nothing.
            leaves = [each for each in ast.walk(node.value) if isinstance(each, ast.expr)]
            if all(isinstance(each, ast.Constant | ast.BinOp | ast.UnaryOp) for each in leaves):
                found = constant_of(value)
                return _UNKNOWN if found is None else found
            return _constant(reader, node.value)
    return _UNKNOWN


def _count(reader: Reader, name: str) -> int:
    nodes = walk_here(reader.unit.tree)
    return sum(
        isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store)
        for each in nodes
    )
