"""The source, names and values that a kernel's normal form is made of, as text to compare.

That is the text of a function, with the place of its code there, and what names from outside mean.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from kerneldsl.frontend.captured import CellReader, GlobalReader, is_constant
from kerneldsl.frontend.fingerprint import UnidentifiedError, describe_constant, describe_object
from kerneldsl.frontend.function_text import FunctionText, number_in_text, text_of_function
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, IntrinsicGroup

__all__ = [
    "NoFormError",
    "describe_defaults",
    "describe_text",
    "describe_value",
    "number_of_code",
    "root_reader",
]

_PLAIN = (bool, int, float, complex, str, type(None))
#: Code of functions that was compiled from their texts, known meanings, and a number.
_known: WeakKeyDictionary[types.FunctionType, tuple[types.CodeType, list[Any], int]] = (
    WeakKeyDictionary()
)


class NoFormError(Exception):
    """It is not known what a normal form depends on, or it is another one."""


def root_reader(
    function: types.FunctionType, cells: Mapping[str, types.CellType], path: str
) -> GlobalReader | CellReader:
    """Return what reads the first name of a chain in a function."""
    name = path.partition(".")[0]
    closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cell = cells.get(name, closure.get(name))
    return GlobalReader(function.__globals__, name) if cell is None else CellReader(cell, name)


def describe_text(function: types.FunctionType) -> list[Any]:
    """Return the SHA-256 of a function's text, its line there and its name."""
    code = function.__code__
    if function.__name__ != code.co_name:
        raise NoFormError
    known = _known.get(function)
    if known is not None and known[0] is code:
        return known[1]
    return _described(_text_of(function), code)


def number_of_code(function: types.FunctionType, imported: Iterable[str]) -> int:
    """Return which code of its text a function has; that it has some is then known.

    Raises `NoFormError` if it was not compiled from the text.
    """
    code = function.__code__
    known = _known.get(function)
    if known is not None and known[0] is code:
        return known[2]
    text = _text_of(function)
    number = number_in_text(function, text, imported)
    if number is None:
        raise NoFormError
    _known[function] = code, _described(text, code), number
    return number


def _text_of(function: types.FunctionType) -> FunctionText:
    text = text_of_function(function)
    if text is None:
        raise NoFormError
    return text


def _described(text: FunctionText, code: types.CodeType) -> list[Any]:
    digest = hashlib.sha256(text.text.encode("utf-8", "surrogatepass")).hexdigest()
    return [digest, code.co_firstlineno - text.first_line, code.co_qualname]


def describe_defaults(function: types.FunctionType, *, is_kernel: bool) -> list[list[str]]:
    """Describe the default values of a function; of a kernel, launches give the arguments."""
    if is_kernel:
        return []
    named = sorted((function.__kwdefaults__ or {}).items())
    return [
        [describe_value("", each) for each in function.__defaults__ or ()],
        [f"{name}: {describe_value(name, each)}" for name, each in named],
    ]


def describe_value(path: str, value: Any) -> str:
    """Describe what a name from outside means to the front end.

    Raises `NoFormError` for values that it may look into.
    """
    if isinstance(value, types.ModuleType):
        if value.__name__.startswith("numba"):  # what is in it, its version says
            raise NoFormError
        return f"module {value.__name__}"
    if type(value) is Intrinsic:
        return f"intrinsic {value.name}"
    if isinstance(value, IntrinsicGroup):
        return f"group {value!r}"
    if is_constant(value):
        if not _is_plain(value):
            raise NoFormError
        return f"constant {describe_constant(value)}"
    if isinstance(value, type) and issubclass(value, BaseException):
        if value.__module__ != "builtins":
            raise NoFormError
        return f"exception {value.__name__}"
    try:
        found = describe_object(path, value)
    except UnidentifiedError as error:
        raise NoFormError from error
    if found.startswith("numba"):
        raise NoFormError
    return found


def _is_plain(value: Any) -> bool:
    """Return whether a constant has no arrays, and no other class."""
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return type(value) in _PLAIN or (
        isinstance(value, np.generic) and type(value).__module__ == "numpy"
    )
