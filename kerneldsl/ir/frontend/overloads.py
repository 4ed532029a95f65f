"""Calls of functions, methods and attributes that a program has overloaded for kernels.

The Python function that an overload returns for the types of a call is read as a device function.
It may use the language of kernels, but not the place of the thread and operations of a block.
A launch needs to know these before types are inferred.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba import errors, types

from kerneldsl.analysis.analyze import analyze
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.frontend.specialized import spread_parameter
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.frontend.members import packed, unpacked
from kerneldsl.ir.frontend.reader import Reader, constant_of
from kerneldsl.ir.operations import Value
from kerneldsl.ir.refusals import Refusal
from kerneldsl.lowering.numba_internals.overloads import find_implementation

__all__ = ["call_overload"]


def call_overload(
    reader: Reader,
    node: ast.expr,
    name: str,
    templates: list[Any],
    arguments: list[Any],
    keywords: dict[str, Any],
) -> Any:
    """Return the result of a call of what `name` is; `templates` are its overloads."""
    values = [_packed(reader, each) for each in arguments]
    named = {key: _packed(reader, each) for key, each in keywords.items()}
    forms = [
        (tuple(map(each, values)), {key: each(value) for key, value in named.items()})
        for each in (_plain, _literal)
    ]
    try:
        function, signature = find_implementation(templates, forms)
    except errors.NumbaError as error:
        text = str(getattr(error, "msg", error)).strip().rstrip(".")
        remedy = "Give it arguments that an overload has an implementation for"
        raise Refusal(f"the overloads of {name} do not take this call: {text}", remedy) from error
    if signature is not None:
        values = [
            value if isinstance(value, FunctionUnit) else reader.cast(value, kind)
            for value, kind in zip(values, signature.args, strict=True)
        ]
        arguments, keywords = [_unpacked(reader, each) for each in values], {}
    bound = _bound(reader, function, arguments, keywords)
    functions = {key: each for key, each in bound.items() if isinstance(each, FunctionUnit)}
    spread = spread_parameter(function) if isinstance(function, FunctionType) else None
    counts = {} if spread is None else {f"*{spread}": len(bound[spread])}
    unit = _unit_of(function, name, {**functions, **counts})
    for linked, code in unit.linked_functions().items():
        # The linker finds them among the functions that the kernel calls.
        reader.kernel.callees.setdefault(f"{code.symbol} of {name}, {id(code)}", linked)
    given = [each for key, each in bound.items() if key not in functions]
    found = reader.call(unit, given)
    if reader.notes is not None and isinstance(node, ast.Call):
        reader.notes.add_call(node, reader.notes.of_call(unit, given), found)
    return found


def _packed(reader: Reader, value: Any) -> Any:
    return value if isinstance(value, FunctionUnit) else packed(reader, value)


def _unpacked(reader: Reader, value: Any) -> Any:
    return value if isinstance(value, FunctionUnit) else unpacked(reader, value)


def _plain(value: Value | FunctionUnit) -> Any:
    if isinstance(value, FunctionUnit):
        return types.Dispatcher(value.function)
    return types.unliteral(value.type)


def _literal(value: Value | FunctionUnit) -> Any:
    constant = None if isinstance(value, FunctionUnit) else constant_of(value)
    return types.literal(constant) if type(constant) in (int, bool, str) else _plain(value)


def _unit_of(function: Callable[..., Any], name: str, constants: dict[str, Any]) -> FunctionUnit:
    """Return the normal form of an implementation.

    - `constants`: functions that are given by their parameters, and how many a star stands for.
    """
    unit = make_unit(function, is_device=True, constants=constants, follows_numba=True)
    traits = analyze(unit)
    if traits.uses_block or not traits.uses_grid_only or traits.grid_ndims or traits.uses_tiles:
        used = ", ".join(sorted({f"kd.{use.intrinsic.name}" for use in unit.all_uses()}))
        raise Refusal(
            f"an overload of {name} uses {used}, which must be known before types are inferred",
            f"Use it in the kernel, and give {name} the result",
        )
    if unit.hidden or traits.syncs_grid:
        raise Refusal(
            f"an overload of {name} reads an array of a device, or waits for the grid",
            "Use it in a device function instead",
        )
    return unit


def _bound(
    reader: Reader, function: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]
) -> dict[str, Any]:
    """Return a value for each parameter of a function."""
    try:
        bound = inspect.signature(function).bind(*arguments, **keywords)
    except TypeError as error:
        raise Refusal(f"an overload returns a function of other parameters: {error}") from error
    given = set(bound.arguments)
    bound.apply_defaults()
    return {
        # No arguments of a rest are an empty tuple here, too.
        name: value
        if name in given or (type(value) is tuple and not value)
        else reader.constant(value)
        for name, value in bound.arguments.items()
    }
