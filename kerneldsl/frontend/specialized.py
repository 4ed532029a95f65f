"""Arguments of device functions that are no values: functions, dtypes, intrinsics, and shapes.

A call with such arguments calls a copy of the function in which they are compile-time constants.
``apply(twice, x)`` calls an ``apply`` of one parameter, in which ``f`` is ``twice``.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Iterator
from inspect import CO_VARARGS
from typing import Any

import numpy as np

from kerneldsl.frontend.foreign import is_dispatcher, is_numba_type
from kerneldsl.frontend.local_functions import GivenFunction
from kerneldsl.frontend.names import last_name, local_constants
from kerneldsl.frontend.resolve import device_function
from kerneldsl.frontend.source import find_source
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, IntrinsicGroup

__all__ = [
    "arguments_by_name",
    "called_function",
    "is_no_value",
    "lookup_of",
    "spread_argument",
    "spread_parameter",
    "static_parameters",
]

#: Objects that are for the compiler.
_OBJECTS = (Intrinsic, IntrinsicGroup, GivenFunction, FunctionUnit, np.dtype, np.ufunc)
#: The last part of the names of calls with constant arguments, a shape and a dtype, and from which
#: position on they are constant.
_FIRST_CONSTANT = {"array": 0, "tiles": 1}


def called_function(value: Any) -> types.FunctionType | None:
    """Return the Python function that a kernel calls by an object, a Numba function too."""
    found = device_function(value)
    if found is None and is_dispatcher(value):
        found = value.py_func
    return found


def is_no_value(value: Any) -> bool:
    """Return whether an object from outside is for the compiler alone: no thread has it."""
    return (
        isinstance(value, _OBJECTS)
        or (isinstance(value, type) and issubclass(value, np.generic | int | float | complex))
        or isinstance(value, types.BuiltinFunctionType)
        or is_numba_type(value)
        or called_function(value) is not None
    )


def arguments_by_name(call: ast.Call, function: types.FunctionType) -> dict[str, ast.expr]:
    """Return the arguments of a call by the names of parameters, nothing if some are starred.

    What does not fit the parameters is left out; the caller reports it.
    """
    if any(isinstance(each, ast.Starred) for each in call.args):
        return {}
    if any(each.arg is None for each in call.keywords):
        return {}
    code = function.__code__
    if len(call.args) > code.co_argcount and not code.co_flags & CO_VARARGS:
        return {}
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = dict(zip(names, call.args[: code.co_argcount], strict=False))
    return given | {str(k.arg): k.value for k in call.keywords if k.arg in names}


def spread_argument(call: ast.Call, function: types.FunctionType) -> dict[str, int]:
    """Return how many arguments a call gives ``*rest``, if the function calls others with it.

    Its name is that of the parameter with a star.
    """
    rest = (
        None if any(isinstance(a, ast.Starred) for a in call.args) else spread_parameter(function)
    )
    count = max(len(call.args) - function.__code__.co_argcount, 0)
    return {} if rest is None else {f"*{rest}": count}


def spread_parameter(function: types.FunctionType) -> str | None:
    """Return the parameter ``*rest`` of a function that calls others with it, else ``None``."""
    code = function.__code__
    if not code.co_flags & CO_VARARGS:
        return None
    rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
    for node in walk_here(find_source(function).node):
        match node:
            case ast.Starred(ast.Name(name), ast.Load()) if name == rest:
                return rest
    return None


def static_parameters(function: types.FunctionType, open_: tuple[Any, ...] = ()) -> frozenset[str]:
    """Return the parameters that a function needs as constants, such as the shape of an array."""
    if function in open_:
        return frozenset()
    lookup, names = lookup_of(function), _names_of(function.__code__)
    needed: dict[types.FunctionType, frozenset[str]] = {}
    for value in _objects(lookup, names):
        callee = called_function(value)
        if callee is not None:
            needed[callee] = static_parameters(callee, (*open_, function))
    if not names & _FIRST_CONSTANT.keys() and not any(needed.values()):
        return frozenset()  # as of most functions, which are not parsed for it
    tree = find_source(function).node
    constants = local_constants(tree)
    found = set[str]()
    for node in walk_here(tree):
        if not isinstance(node, ast.Call):
            continue
        first = _FIRST_CONSTANT.get(last_name(node.func) or "")
        callee = called_function(_object(node.func, lookup))
        if callee is not None:
            wanted = needed.get(callee, frozenset())
            parts = [e for n, e in arguments_by_name(node, callee).items() if n in wanted]
        elif first is not None:
            parts = [*node.args[first:], *(each.value for each in node.keywords)]
        else:
            continue
        for part in parts:
            found |= _names_in(part, constants)
    code = function.__code__
    return frozenset(found & set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]))


def _objects(lookup: Callable[[str], Any], names: set[str]) -> Iterator[Any]:
    """Yield the objects that some names mean, also as attributes of modules among them."""
    for name in names:
        value = lookup(name)
        yield value
        if isinstance(value, types.ModuleType):
            # A module that imports its attributes when they are read has none of them yet.
            yield from (found for each in names if (found := vars(value).get(each)) is not None)


def _object(node: ast.expr, lookup: Callable[[str], Any]) -> Any:
    """Return the object that a name or an attribute of a module means, else ``None``."""
    if isinstance(node, ast.Name):
        return lookup(node.id)
    if isinstance(node, ast.Attribute):
        owner = _object(node.value, lookup)
        if isinstance(owner, types.ModuleType):
            return vars(owner).get(node.attr)
    return None


def _names_of(code: types.CodeType) -> set[str]:
    """Return the names from outside, and the attributes, in a function and those in it."""
    found = {*code.co_names, *code.co_freevars}
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            found |= _names_of(each)
    return found


def _names_in(node: ast.expr, constants: dict[str, ast.expr]) -> set[str]:
    """Return the names in an expression, and in those that its variables stand for.

    Those of ``x.dtype`` are left out.
    """
    found, pending = set[str](), [node]
    while pending:
        part = pending.pop()
        if isinstance(part, ast.Attribute) and part.attr == "dtype":
            continue  # types have the dtype of a value
        for each in walk_here(part):
            if isinstance(each, ast.Name) and each.id not in found:
                found.add(each.id)
                if each.id in constants:
                    pending.append(constants[each.id])
    return found


def lookup_of(function: types.FunctionType) -> Callable[[str], Any]:
    """Return what gives the object that a name in a function means, ``None`` if it is unknown."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

    def find(name: str) -> Any:
        if name in cells:
            try:
                return cells[name].cell_contents
            except ValueError:  # not assigned yet
                return None
        return function.__globals__.get(name)

    return find
