"""Calls of functions that Numba knows: Python's, of modules, methods, types as conversions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
from numba import types

from kerneldsl.frontend.effects.library_effects import result_position
from kerneldsl.frontend.parts import Part
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.frontend.members import NamedMembers, class_of, packed, unpacked
from kerneldsl.ir.frontend.reader import NotReadError, Reader, constant_of
from kerneldsl.ir.operations import Effect, Operation, Value
from kerneldsl.ir.refusals import Refusal, attribute_refusal, call_refusal
from kerneldsl.ir.typing import name_of
from kerneldsl.lowering.numba_extremes import numba_cuda_form, numba_print
from kerneldsl.lowering.numba_internals.device_code import fold_arguments
from kerneldsl.lowering.numba_internals.integer_typing import key_of
from kerneldsl.lowering.numba_internals.overloads import is_of_program, overloads_of
from kerneldsl.lowering.types import PackedView

__all__ = ["call_function", "called", "read_outside_call", "starred_values"]


def read_outside_call(reader: Reader, node: ast.Call) -> Any:
    """Read a call of what is no function of the language and no device function."""
    if any(each.arg is None for each in node.keywords):
        raise NotReadError("keywords from a mapping")
    function = reader.outside(node.func)
    callee = None if function is not None else reader.number(node.func)
    arguments = [value for each in node.args for value in starred_values(reader, each)]
    keywords = {str(each.arg): _argument(reader, each.value) for each in node.keywords}
    return called(reader, node, function, arguments, keywords, callee)


def starred_values(reader: Reader, node: ast.expr) -> Iterable[Any]:
    """Return what one node of a sequence stands for: a value, or after ``*`` those of a tuple."""
    if not isinstance(node, ast.Starred):
        return (_argument(reader, node),)
    found = reader.value(node.value)
    if not isinstance(found, tuple):
        text = ast.unparse(node.value)
        raise Refusal(
            f"*{text} unpacks a value that is not a tuple", f"Pass each element of {text}"
        )
    return found


def _argument(reader: Reader, node: ast.expr) -> Any:
    """Return the value of an argument; of a function, which overloaded ones take, its unit."""
    unit = reader.unit.callees.get(node.id) if isinstance(node, ast.Name) else None
    return reader.value(node) if unit is None else unit


def called(
    reader: Reader,
    node: ast.Call,
    function: Any,
    arguments: list[Any],
    keywords: dict[str, Any],
    callee: Value | None = None,
) -> Any:
    """Return the result of a call; `callee` is what is called if that is no outside object."""
    named = class_of(function)
    if named is not None:
        return NamedMembers.called(named, arguments, keywords, reader.constant)
    if reader.unit.follows_numba and not keywords:
        kinds = [getattr(each, "type", None) for each in arguments]
        function = numba_cuda_form(function, kinds)
    kind = _type_of(reader, node.func, function) if callee is None else callee.type
    if reader.notes is not None:
        reader.notes.add_type(node.func, kind)
    overloads = overloads_of(kind) if callee is None else _overloads_of_method(callee)
    if overloads:
        from kerneldsl.ir.frontend.overloads import call_overload  # few programs have overloads

        name = ast.unparse(node.func)
        given = arguments if callee is None else [_receiver(callee), *arguments]
        return call_overload(reader, node, name, overloads, given, keywords)
    for each in (*arguments, *keywords.values()):
        if isinstance(each, FunctionUnit):
            text = f"The function {each.name} is used without being called"
            raise Refusal(text, f"Write {each.name}(…)")
    if function is not None and not keywords:
        found = _known(reader, function, arguments)
        if found is not None:
            return found
    if function is None or keywords:
        return call_function(reader, kind, arguments, keywords, callee)
    arguments = reader.origins.arguments(reader, function, arguments)
    made = call_function(reader, kind, arguments, keywords)
    reader.origins.set_called(function, arguments, made)
    return made


def _type_of(reader: Reader, node: ast.expr, function: Any) -> Any:
    """Return the type of a function from outside, which a node names."""
    try:
        return reader.typing.function(function)
    except Refusal as refusal:
        owner = reader.outside(node.value) if isinstance(node, ast.Attribute) else None
        found = refusal
        if isinstance(owner, ModuleType):
            found = attribute_refusal(types.Module(owner), node.attr)  # type: ignore[attr-defined]
        raise found.at(Part(reader.unit, node)) from refusal.__cause__


def _known(reader: Reader, function: Any, arguments: list[Any]) -> Any:
    """Return what a call is that needs no implementation of Numba's, or ``None``."""
    if len(arguments) != 1:
        return None
    (argument,) = arguments
    if function is len:
        if isinstance(argument, tuple):
            return reader.constant(len(argument), types.int64)
        if isinstance(argument.type, types.Array | PackedView) and argument.type.ndim:
            return reader.add("array.extent", [argument], (types.int64,), {"axis": 0}).result
    if isinstance(function, type) and issubclass(function, np.generic):
        kind = getattr(reader.typing.function(function), "instance_type", None)
        if isinstance(argument, Value) and isinstance(kind, types.Float):
            value = constant_of(argument)
            if type(value) in (int, float):
                return reader.constant(float(function(value)), kind)
    return None


def call_function(
    reader: Reader,
    function: Any,
    arguments: list[Any],
    keywords: dict[str, Any],
    callee: Value | None = None,
) -> Any:
    """Call what has a type of Numba's; `callee` is the method that is called, if it is one."""
    given = [packed(reader, each) for each in arguments]
    named = {name: packed(reader, each) for name, each in keywords.items()}
    if (
        isinstance(function, types.NumberClass)
        and len(given) == 1
        and not named
        and isinstance(given[0].type, types.Number | types.Boolean)
    ):
        if given[0].type == function.instance_type and constant_of(given[0]) is not None:
            return reader.origins.typed(reader, given[0])
        return reader.convert(given[0], function.instance_type, {"written": True})
    key = getattr(function, "typing_key", function)
    if name_of(function) in ("argsort", "sort") and not is_of_program(key):
        raise call_refusal(name_of(function), tuple(each.type for each in given))
    if callee is not None and name_of(function) == "copy" and not given and not named:
        original = _receiver(callee)
        if isinstance(constant_of(original), np.ndarray):  # which no kernel writes to
            return original
    if isinstance(function, types.BoundFunction) and name_of(function) == "ravel":
        array = function.this
        if given or named:
            raise Refusal("ravel takes no order in a kernel", "Write x.ravel(), in the order of C")
        if array.layout != "C":
            raise Refusal(
                f"ravel needs an array of layout C, and this one has the layout {array.layout}",
                "Index it by its axes, or pass np.ascontiguousarray(array)",
            )
        function = reader.typing.context.resolve_getattr(array, "reshape")
        key, given = function.typing_key, [reader.constant(-1)]
    is_print = key is print
    if is_print:
        given = [_text(reader, each) for each in given]
    if is_print and not named:
        parts = [part for each in given for part in _parts(reader, each)]
        if any(isinstance(each.type, types.Array | types.NoneType) for each in parts):
            raise call_refusal("print", tuple(each.type for each in given))
        _signature(reader, function, parts, {})
        signature, call = types.none(*(each.type for each in given)), ()
    else:
        signature, call = _signature(reader, function, given, named)
    operands = _folded(reader, function, signature, given, named)
    if isinstance(function, types.BoundFunction):
        assert callee is not None
        operands = [_receiver(callee), *operands]
    result = signature.return_type
    effect = Effect.NONE
    if any(isinstance(each.type, types.Array | types.Record) for each in operands):
        effect |= Effect.READ
    if is_of_program(key):
        effect |= Effect.READ | Effect.WRITE
    if result == types.none or _has_output(key_of(function), given, named):
        effect |= Effect.WRITE
    results = () if result == types.none else (result,)
    printing = numba_print if reader.unit.follows_numba else print
    attributes = {"function": printing if is_print else function, "signature": signature}
    attributes["call"] = None if is_print else call
    attributes["name"] = getattr(key, "__name__", str(key))
    made = reader.add("numba", operands, results, attributes, effect=effect)
    return unpacked(reader, made.result) if results else reader.constant(None)


def _has_output(function: Any, given: list[Value], named: dict[str, Value]) -> bool:
    """Return whether a function of NumPy's is given an array for its result."""
    if "out" in named:
        return True
    if not any(isinstance(each.type, types.Array) for each in given):
        return False
    place = result_position(function)
    return place is not None and len(given) > place


def _overloads_of_method(callee: Value) -> list[Any]:
    made = callee.owner
    found = made.attributes.get("overload") if isinstance(made, Operation) else None
    return [] if found is None else [found]


def _receiver(callee: Value) -> Value:
    made = callee.owner
    if getattr(made, "name", "") != "bound":
        raise NotReadError("a method in a variable")
    found: Value = made.operands[0]  # type: ignore[union-attr]
    return found


def _signature(
    reader: Reader, function: Any, given: list[Value], named: dict[str, Value]
) -> tuple[Any, tuple[Any, ...]]:
    """Return the signature of a call, and the types of arguments and keywords that give it.

    If the call needs the values of constants, these are their types.
    """
    call: tuple[Any, ...] = tuple(v.type for v in given), {n: v.type for n, v in named.items()}
    try:
        return reader.typing.call(function, *call), call
    except Refusal:
        literals = tuple(map(_literal, given)), {n: _literal(v) for n, v in named.items()}
        if literals == call:
            raise
        return reader.typing.call(function, *literals), literals


def _literal(value: Value) -> Any:
    constant = constant_of(value)
    if type(constant) in (int, bool, str):
        return types.literal(constant)
    return value.type


def _text(reader: Reader, value: Value) -> Value:
    """Return a constant text as a value of the type of this text: a kernel has no others."""
    text = constant_of(value)
    if not isinstance(text, str):
        return value
    return reader.add("const", [], (types.literal(text),), {"value": text}).result


def _parts(reader: Reader, value: Value) -> Iterator[Value]:
    """Yield a value, or the members of a tuple and of those in it."""
    if not isinstance(value.type, types.BaseTuple):
        yield value
        return
    for each in unpacked(reader, value):
        yield from _parts(reader, packed(reader, each))


def _folded(
    reader: Reader, function: Any, signature: Any, given: list[Value], named: dict[str, Value]
) -> list[Value]:
    """Return a value for each type of a signature: given, by default, or the tuple of a rest."""
    if signature.pysig is None:
        if named:
            kinds = tuple(each.type for each in given)
            keywords = {key: value.type for key, value in named.items()}
            raise call_refusal(name_of(function), kinds, keywords)
        return given
    kinds = signature.args

    def default(index: int, parameter: Any, value: Any) -> Value:
        return reader.add("const", [], (kinds[index],), {"value": value}).result

    def rest(index: int, parameter: Any, values: tuple[Value, ...]) -> Value:
        return reader.add("tuple.make", list(values), (kinds[index],)).result

    return list(
        fold_arguments(
            signature.pysig, given, named, lambda index, name, value: value, default, rest
        )
    )
