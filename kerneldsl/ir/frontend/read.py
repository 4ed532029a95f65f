"""Reading a normal form into a typed function, in one forward pass.

Each operation is typed when it is made: the types of its operands are known by then. A variable
that a loop assigns has the type that holds its values before the loop and at the end of the body.
If that differs from the type before the loop, the loop is read again with it.

A variable that a body assigns for a later iteration has no type while the body is read. An inner
loop may carry it, and then has no type for it either. It is set once the outer loop is read.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from numba import types

from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.frontend import attributes, control, expressions, statements  # noqa: F401
from kerneldsl.ir.frontend.faults import Faults
from kerneldsl.ir.frontend.findings.find import add_findings
from kerneldsl.ir.frontend.functions import read_call_of, read_kernel_body
from kerneldsl.ir.frontend.members import is_tile, packed, unpacked
from kerneldsl.ir.frontend.reader import Reader, reads_statement
from kerneldsl.ir.operations import LOOPS, Effect, Function, Operation, Region, Value, handed_on
from kerneldsl.ir.rewriter import rewrite
from kerneldsl.ir.typing import Typing
from kerneldsl.language.intrinsics.intrinsic import Typing as Rule
from kerneldsl.language.kinds import Kind
from kerneldsl.lowering.types import element_type, numba_class, numba_types

if TYPE_CHECKING:
    from kerneldsl.frontend.typed_unit import TypedUnit
    from kerneldsl.ir.frontend.notes import Notes

__all__ = ["argument_types", "read_function", "set_late_types", "type_unit"]


@reads_statement(ast.For)
def _read_for(reader: Reader, node: ast.For) -> None:
    """Read a loop; many kernels have none, and import nothing for it."""
    from kerneldsl.ir.frontend.loops import read_for

    read_for(reader, node)


def argument_types(unit: FunctionUnit, kinds: tuple[Kind, ...]) -> tuple[Any, ...]:
    """Return Numba's types of the arguments of a kernel.

    What these types, and those of the arrays that the kernel makes, register with Numba is known
    when the contexts are refreshed next.
    """
    dtypes = {use.static["dtype"] for use in unit.all_uses() if "dtype" in use.static}
    if unit.uses_tiles():
        from kerneldsl.ir.frontend.tile_refusals import named_dtypes

        dtypes |= named_dtypes(unit)
    dtypes |= {u.intrinsic.name for u in unit.all_uses() if u.intrinsic.typing is Rule.VECTOR}
    for read in (*unit.reads.values(), *(each.namespace for each in unit.reachable())):
        for value in read.values():
            numba_class(value)  # as in kd.bfloat16(1)
    for dtype in dtypes - {None}:
        element_type(dtype)
    return numba_types(kinds)


def type_unit(unit: FunctionUnit, kinds: tuple[Any, ...], typing_context: Any) -> TypedUnit:
    """Return a normal form with the types of its nodes, for arguments of Numba's types.

    Raises as :func:`read_function`.
    """
    from kerneldsl.ir.frontend.notes import Notes

    notes = Notes(unit, kinds)
    read_function(unit, kinds, typing_context, notes=notes)
    return notes.typed(typing_context)


def read_function(
    unit: FunctionUnit,
    kinds: tuple[Any, ...],
    typing_context: Any,
    *,
    calls_linked: bool = False,
    plain_function: Callable[[FunctionUnit], Any] | None = None,
    debug: bool = False,
    checks_division: bool = False,
    keeps_variables: bool = False,
    raises: bool = False,
    notes: Notes | None = None,
    made_by: type[Reader] = Reader,
) -> Function:
    """Return the typed function of a normal form for arguments of Numba's types.

    With `calls_linked` linked functions are calls of other code. `plain_function` returns what
    Numba calls for one of its functions. Without these, bodies are read. In debug mode indices
    are checked, and ``assert`` and ``raise`` are faults. So are divisions by zero with
    `checks_division`. With `keeps_variables` there is an operation for each assignment of a
    variable. A target that `raises` ends a thread by an exception where Python does. `notes` get
    the types of nodes. `made_by` is the class of the reader.

    Raises :class:`NotReadError` for what this front end does not read. Raises Numba's
    ``TypingError`` where an operation has no type.
    """
    function = Function(unit.name, tuple(zip(unit.parameters, kinds, strict=True)), unit)
    reader = made_by(unit, Typing.of(typing_context))
    reader.bindings = function.bindings
    reader.call = partial(read_call_of, reader)
    reader.calls_linked = calls_linked
    reader.plain_function = plain_function
    reader.faults = Faults(checks_division=checks_division) if debug else None
    if keeps_variables:
        reader.keep = partial(_keep, reader)
    reader.raises = raises
    reader.notes = notes
    if unit.uses_tiles():
        from kerneldsl.ir.frontend.tile_expressions import TileReader  # few kernels have tiles
        from kerneldsl.ir.frontend.tiles import read_tile

        reader.tiles = TileReader(reader, read_tile)

    def read() -> None:
        reader.variables = {
            name: unpacked(reader, value)
            for name, value in zip(unit.parameters, function.body.arguments, strict=True)
        }
        read_kernel_body(reader)

    reader.into(function.body, read)
    set_late_types(function.body)
    function.has_loops = any(each.name in LOOPS for each in function.body.walk())
    add_findings(function, reader.names)
    rewrite(function.body, {"cast": _plain})
    if reader.faults is not None:
        function.fault_sites = tuple(reader.faults.sites)
    return function


def _keep(reader: Reader, name: str, value: Any, argument: int = 0) -> None:
    """Add an operation that says what a variable is assigned."""
    if _is_in_memory(value):
        attributes = {"name": name, "argument": argument}
        reader.add("variable", [packed(reader, value)], (), attributes, effect=Effect.WRITE)


def _is_in_memory(value: Any) -> bool:
    """Return whether a thread can have a value in its memory, as it cannot have a tile."""
    if isinstance(value, tuple):
        return all(map(_is_in_memory, value))
    return isinstance(value, Value) and not is_tile(value)


def _plain(operation: Operation) -> tuple[list[Operation], list[Value]] | None:
    """Drop what findings alone need: why a value is converted, and conversions to its own type."""
    operation.attributes = {}
    (value,) = operation.operands
    return ([], [value]) if value.type == operation.result.type else None


def set_late_types(body: Region) -> None:
    """Give the values that have no type the one of what they become, or are made of."""
    operations = [each for each in body.walk() if _is_open(each)]
    is_changed = bool(operations)
    while is_changed:
        is_changed = False
        for operation in operations:
            for values in _of_one_type(operation):
                kind = next((value.type for value in values if value.type is not None), None)
                if kind is not None:
                    is_changed |= _set(values, kind)
    for operation in operations:
        # Nothing assigns such a variable, nor reads it.
        _set((*operation.operands, *operation.results, *_arguments(operation)), types.int64)


def _set(values: Iterable[Value], kind: Any) -> bool:
    missing = [value for value in values if value.type is None]
    for value in missing:
        value.type = kind
    return bool(missing)


def _arguments(operation: Operation) -> Iterator[Value]:
    for region in operation.regions:
        yield from region.arguments


def _is_open(operation: Operation) -> bool:
    return any(value.type is None for value in (*operation.operands, *operation.results))


def _of_one_type(operation: Operation) -> Iterator[list[Value]]:
    """Yield the values of each variable that a branch or loop hands on, and of a conversion."""
    if operation.name == "cast":
        yield [*operation.operands, *operation.results]
    for targets, sources in handed_on(operation):
        yield [*targets, *sources]
