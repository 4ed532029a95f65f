"""Bodies of kernels and of the functions that they call."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from numba import types

from kerneldsl.frontend.parts import Part
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.frontend.control import BeforeEnd
from kerneldsl.ir.frontend.exits import labeled, returns_early
from kerneldsl.ir.frontend.members import is_tile, packed
from kerneldsl.ir.frontend.reader import Reader
from kerneldsl.ir.frontend.source_names import RESULT
from kerneldsl.ir.operations import Effect, Value
from kerneldsl.ir.refusals import Refusal
from kerneldsl.lowering.types import numba_type

if TYPE_CHECKING:
    from kerneldsl.frontend.linked_code import LinkedCode

__all__ = ["read_call_of", "read_kernel_body"]


def read_kernel_body(reader: Reader) -> None:
    """Read the body of a kernel into the region that is open.

    A kernel that ends early for some threads, ``if i >= n: return``, has a branch around what
    follows. A ``return`` at its end says nothing.
    """
    _note_parameters(reader)
    body = reader.unit.tree.body
    if not reader.keeps_returns:
        if isinstance(body[-1], ast.Return) and body[-1].value is None:
            body = body[:-1]
        body = _with_branches(body)
    _read_body(reader, body)
    if not reader.region.is_left:
        reader.add("yield", [])


def _with_branches(body: list[ast.stmt]) -> list[ast.stmt]:
    for number, statement in enumerate(body):
        match statement:
            case ast.If(body=[ast.Return(value=None)], orelse=[]):
                rest = _with_branches(body[number + 1 :]) or [ast.Pass()]
                negated = ast.copy_location(ast.UnaryOp(ast.Not(), statement.test), statement.test)
                branch = ast.copy_location(BeforeEnd(negated, rest, []), statement)
                return [*body[:number], branch]
    return body


def read_call_of(reader: Reader, unit: FunctionUnit, arguments: list[Any]) -> Any:
    """Read the body of a device function in the place of its call; return its result."""
    if unit.linked is not None and reader.calls_linked:
        return _linked(reader, unit, unit.linked, arguments)
    of_numbers = not any(map(is_tile, arguments))
    if unit.is_plain_numba and reader.plain_function is not None and of_numbers:
        from kerneldsl.ir.frontend.outside_calls import call_function

        function = reader.typing.function(reader.plain_function(unit))
        try:
            return call_function(reader, function, arguments, {})
        except Refusal:
            # Numba does not compile it. Its body says why.
            read, reader.plain_function = reader.plain_function, None
            _read_body_of(reader, unit, arguments)
            reader.plain_function = read
            raise
    if unit.signatures:
        return _read_as_declared(reader, unit, arguments)
    return _read_body_of(reader, unit, arguments)


def _read_as_declared(reader: Reader, unit: FunctionUnit, arguments: list[Any]) -> Any:
    """Read a call of a function for several signatures: numbers are converted to the best one."""
    from kerneldsl.frontend.declared_types import is_number  # few functions have signatures

    arguments, count = [*arguments], len(arguments) - len(unit.hidden)
    values = [packed(reader, each) for each in arguments[:count]]
    given = tuple(types.unliteral(each.type) for each in values)
    fitting = [each for each in unit.signatures if len(each[1]) == count]
    if not fitting:  # an argument is part of the function, as another function is
        return _read_body_of(reader, unit, arguments)
    cases = {types.none(*map(numba_type, kinds)): (kinds, result) for result, kinds in fitting}
    chosen = reader.typing.context.resolve_overload(unit.function, list(cases), given, {})
    if chosen is None:
        known = " or ".join(str(case.args) for case in cases)
        raise Refusal(
            f"{unit.name} is declared for {known}, and is called with {given}",
            "Convert the arguments, or leave out the signatures",
        )
    kinds, result = cases[chosen]
    for number, (value, kind) in enumerate(zip(values, kinds, strict=True)):
        if is_number(kind):
            arguments[number] = reader.cast(value, numba_type(kind))
    found = _read_body_of(reader, unit, arguments)
    is_converted = result is not None and is_number(result)
    return reader.cast(packed(reader, found), numba_type(result)) if is_converted else found


def _read_body_of(reader: Reader, unit: FunctionUnit, arguments: list[Any]) -> Any:
    outer = reader.unit, reader.variables, reader.exits, reader.place, reader.caller
    tile_types = reader.tile_types
    notes, is_active, loops = reader.notes, reader.origins.is_active, reader.loops
    reader.loops = 0
    reader.origins.is_active = not unit.is_plain_numba
    reader.unit, reader.depth = unit, reader.depth + 1
    reader.caller = reader.place._replace(call=reader.source)
    reader.variables = dict(zip(unit.parameters, arguments, strict=True))
    _note_parameters(reader)
    reader.tile_types = {
        name: value.type for name, value in reader.variables.items() if is_tile(value)
    }
    reader.exits = {}
    reader.notes = notes and notes.of_call(unit, arguments)
    try:
        found = _read_body(reader, unit.tree.body)
    finally:
        reader.unit, reader.variables, reader.exits, reader.place, reader.caller = outer
        reader.notes, reader.origins.is_active = notes, is_active
        reader.tile_types, reader.loops = tile_types, loops
        reader.depth -= 1
    reader.hold(None, found)
    return found


def _note_parameters(reader: Reader) -> None:
    """Note the parameters of the function that is read as assigned."""
    given = reader.unit.tree.args
    for number, each in enumerate((*given.posonlyargs, *given.args), 1):
        place, value = Part(reader.unit, each), reader.variables[each.arg]
        reader.names.assign(each.arg, value, place, None, reader.caller)
        reader.at(reader.unit.tree, reader.keep, each.arg, value, number)


def _linked(reader: Reader, unit: FunctionUnit, code: LinkedCode, arguments: list[Any]) -> Value:
    """Read a call of other code of a device."""
    from kerneldsl.ir.rules.linked import call_rule  # few kernels have linked functions

    given = [packed(reader, each) for each in arguments]
    rule = call_rule(code, unit.name, unit.parameters)
    signature = rule(tuple(each.type for each in given), {})
    # Linked code may contain an exchange between threads.
    effect = Effect.NONE if code.is_pure else Effect.READ | Effect.WRITE | Effect.EXCHANGE
    result = signature.return_type
    made = reader.add(
        "linked",
        reader.casts(given, list(signature.args)),
        () if result == types.void else (result,),
        {"name": unit.name, "code": code, "signature": signature},
        effect=effect,
    )
    found: Value = made.result if made.results else reader.constant(None)
    return found


def _read_body(reader: Reader, body: list[ast.stmt]) -> Any:
    """Read the statements of a function; return its result."""
    returns = any(isinstance(node, ast.Return) for each in body for node in ast.walk(each))
    if not returns:
        reader.block(body)
        return reader.constant(None) if reader.depth and not reader.region.is_left else None
    if returns_early(body):
        reader.variables = {**reader.variables, RESULT: reader.constant(None)}
        labeled(reader, "return", lambda: reader.block(body))
    else:
        reader.block(body)
    return reader.known(RESULT)
