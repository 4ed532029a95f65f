"""``break``, ``continue`` and ``return``: what leaves an operation before its end."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from kerneldsl.frontend.parts import Part
from kerneldsl.ir.frontend.merging import End, merge
from kerneldsl.ir.frontend.reader import Reader, reads_statement
from kerneldsl.ir.frontend.source_names import RESULT
from kerneldsl.ir.operations import Effect, Label, Region, Value
from kerneldsl.ir.refusals import Refusal

__all__ = ["Exit", "has", "labeled", "of_loop", "returns_early"]


class Exit:
    """A ``labeled`` operation that is read, and the ends from which control leaves it."""

    def __init__(self, name: str, *, ends_kernel: bool) -> None:
        self.label = Label(name, ends_kernel=ends_kernel)
        self.ends: list[End] = []


def labeled(reader: Reader, name: str, read: Callable[[], None]) -> None:
    """Read statements that control leaves by ``break``, ``continue`` or ``return``."""
    ends_kernel = name == RESULT and reader.depth == 0
    region, left, before = Region(), Exit(name, ends_kernel=ends_kernel), reader.variables
    outer = reader.exits
    reader.exits = {**outer, name: left}
    reader.variables = dict(before)

    def inside() -> list[Value]:
        read()
        return []

    reader.into(region, inside)
    reader.exits = outer
    ends = list(left.ends)
    if not region.is_left:
        ends.append(End(region, reader.variables))
    made = reader.add("labeled", [], (), {"label": left.label}, [region])
    reader.variables = merge(reader, made, ends, before)
    if not ends:
        unreachable(reader)


def leave(reader: Reader, name: str) -> None:
    """Leave the innermost operation of a kind."""
    left: Exit = reader.exits[name]
    left.ends.append(End(reader.region, reader.variables))
    reader.add("leave", [], (), {"label": left.label}, effect=Effect.LEAVE)


def unreachable(reader: Reader) -> None:
    """End a region before its end, which control never reaches."""
    reader.add("unreachable", [], effect=Effect.LEAVE)


@reads_statement(ast.Break)
def read_break(reader: Reader, node: ast.Break) -> None:
    leave(reader, "break")


@reads_statement(ast.Continue)
def read_continue(reader: Reader, node: ast.Continue) -> None:
    leave(reader, "continue")


@reads_statement(ast.Return)
def read_return(reader: Reader, node: ast.Return) -> None:
    value = reader.constant(None) if node.value is None else reader.value_or_tile(node.value)
    if reader.depth == 0 and node.value is not None:
        raise Refusal("the kernel returns a value", "Write the result into an array argument")
    reader.variables = {**reader.variables, RESULT: value}
    if node.value is not None:
        place = Part(reader.unit, node.value)
        reader.names.assign(RESULT, value, place, node.value, reader.caller)
    if "return" in reader.exits:
        leave(reader, "return")


def returns_early(body: list[ast.stmt]) -> bool:
    """Return whether a function returns before its last statement."""
    return any(isinstance(node, ast.Return) for each in body[:-1] for node in ast.walk(each)) or (
        bool(body)
        and not isinstance(body[-1], ast.Return)
        and any(isinstance(node, ast.Return) for node in ast.walk(body[-1]))
    )


def has(body: Iterable[ast.stmt], kind: type[ast.stmt]) -> bool:
    """Return whether the body of a loop has a ``break`` or ``continue`` of that loop."""
    return any(isinstance(each, kind) for each in of_loop(body))


def of_loop(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Return the statements of a loop's body that are in no inner loop."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If):
            yield from of_loop(statement.body)
            yield from of_loop(statement.orelse)
