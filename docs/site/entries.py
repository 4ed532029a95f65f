"""The entry of one public object in the reference, as reStructuredText.

Functions, classes, kernels and device functions are left to autodoc. What is none of them – an
intrinsic, a group of those, a kind of packed numbers, a dtype – says by data what it is, and its
entry is written here.
"""

from __future__ import annotations

import inspect
import re
from textwrap import indent
from types import ModuleType
from typing import Any, get_origin

import numpy as np

from kerneldsl.contract.error_history import ErrorLog
from kerneldsl.language.intrinsics.examples import example_of
from kerneldsl.language.intrinsics.intrinsic import Dim3, Intrinsic, IntrinsicGroup, Typing
from kerneldsl.language.packed_numbers import PackedNumbers

__all__ = ["entry", "first_sentence", "is_dtype", "names_in"]

#: What a class inherits from these is Python's or NumPy's to document.
_FOREIGN_BASES = "Exception, BaseException, Warning, tuple, dict, int, str, object"
#: Methods that programs call by brackets.
_SPECIAL = "__getitem__, __call__"
#: What an intrinsic's result is uniform in, by the name of the scope.
_UNIFORM = {
    "THREAD": "The result may differ between threads.",
    "WARP": "The lanes of a warp get the same result.",
    "BLOCK": "The threads of a block get the same result.",
    "GRID": "All threads get the same result.",
}


def is_dtype(value: object) -> bool:
    """Return whether a public name is a dtype that NumPy or ml_dtypes defines."""
    return isinstance(value, type) and value.__module__ in ("numpy", "ml_dtypes")


def names_in(name: str, value: object) -> list[str]:
    """Return the dotted names that an entry defines: of a group those of its members, too."""
    members = dir(value) if isinstance(value, IntrinsicGroup) else []
    return [name, *(f"{name}.{member}" for member in members)]


def first_sentence(name: str, value: object) -> str:
    """Return what a table says of a public name."""
    match value:
        case Intrinsic():
            text = value.summary
        case Dim3():
            text = f"{value.x.summary.removesuffix(' along x.')}: `x`, `y`, `z`."
        case IntrinsicGroup():
            text = ", ".join(f"`{member}`" for member in _shortened(dir(value)))
        case PackedNumbers():
            text = f"Numbers of {value.bits} bits, from {value.smallest} to {value.largest}."
        case str():
            text = "The version, a string."
        case np.dtype():
            text = "A dtype of NumPy."
        case float() | None:
            text = f"The value `{value!r}`."
        case _ if get_origin(value) is not None:
            text = f"The type `{value!r}`.".replace("typing.", "")
        case _ if _is_data(value):
            text = f"A `{type(value).__name__}`."
        case _ if is_dtype(value):
            text = f"The dtype of {value.__module__}'s `{value.__name__}`."
        case _:
            text = inspect.getdoc(value) or ""
    paragraph = text.split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`])", paragraph)[0]


def entry(name: str, value: Any) -> str:
    """Return the entry of an object with this dotted name."""
    match value:
        case Intrinsic():
            return _intrinsic(name, value)
        case IntrinsicGroup():
            return _group(name, value)
        case PackedNumbers():
            return _data(name, first_sentence(name, value), f"Read as {value.dtype}.")
        case ErrorLog():
            return _data(name, "The log of errors of this process, an :class:`ErrorLog`.")
        case _ if is_dtype(value) or _is_data(value):
            return _data(name, first_sentence(name, value))
        case type():
            options = (
                f":members:\n:inherited-members: {_FOREIGN_BASES}\n:special-members: {_SPECIAL}"
            )
            if issubclass(value, BaseException):
                options = ":show-inheritance:\n:members:"
            return f".. autoclass:: {name}\n{indent(options, '   ')}\n"
        case ModuleType():
            return automodule(name, ":members:")
        case _ if inspect.isroutine(value):
            return f".. autofunction:: {name}\n"
    raise TypeError(
        f"{name} is a {type(value).__name__}, which the reference has no entry for: "
        "describe its kind in docs/site/entries.py"
    )


def automodule(name: str, option: str) -> str:
    """Return the directive for a module's docstring.

    Entries that follow have full names, which must not be read as names in that module.
    """
    return f".. automodule:: {name}\n   {option}\n\n.. py:currentmodule:: None\n"


def _is_data(value: object) -> bool:
    """Return whether a public name is a value or a type's alias, with no docstring of its own."""
    if isinstance(value, type) or inspect.isroutine(value):
        return False
    return not isinstance(value, ModuleType)


def _data(name: str, *paragraphs: str) -> str:
    return _directive("py:data", name, [as_rst(paragraph) for paragraph in paragraphs])


def _group(name: str, group: IntrinsicGroup) -> str:
    """Return the entry of a namespace, with those of its members below it."""
    if isinstance(group, Dim3):
        about = "Coordinates, which are read and not called."
    elif callable(group):
        about = f"A group: ``{name}()`` gives it, in a kernel."
    else:
        about = "A namespace of intrinsics."
    members = [_intrinsic(f"{name}.{member}", getattr(group, member)) for member in dir(group)]
    return "\n".join([_directive("py:data", name, [about]), *members])


def _intrinsic(name: str, row: Intrinsic) -> str:
    is_called = row.typing is not Typing.INDEX or bool(row.parameters)
    parameters = ", ".join(
        f"{one}={row.defaults[one]!r}" if one in row.defaults else one for one in row.parameters
    )
    paragraphs = [as_rst(row.summary)]
    if row.dtypes:
        paragraphs.append(f":Elements: {', '.join(f'``{dtype}``' for dtype in row.dtypes)}")
    if row.static:
        paragraphs.append(f":Constants: {', '.join(f'``{one}``' for one in row.static)}")
    for parameter, words in row.choices.items():
        taken = ", ".join(f"``{word!r}``" for word in words)
        paragraphs.append(f":{parameter}: {taken}")
    if row.instead:
        paragraphs.append(f":On the CPU: refused; write ``{row.instead}``")
    if row.typing is not Typing.NOTHING and row.uniform_in is not None:
        paragraphs.append(f":Uniformity: {_UNIFORM[row.uniform_in.name]}")
    example = example_of(row.name)
    if example is not None:
        paragraphs.append(example)
    if is_called:
        return _directive("py:function", f"{name}({parameters})", paragraphs)
    return _directive("py:data", name, paragraphs)


def _directive(kind: str, head: str, paragraphs: list[str]) -> str:
    text, previous = "", ""
    for paragraph in paragraphs:
        # Fields that follow each other are one list.
        are_fields = previous.startswith(":") and paragraph.startswith(":")
        text += ("\n" if are_fields else "\n\n") + paragraph
        previous = paragraph
    return f".. {kind}:: {head}\n{indent(text, '   ')}\n"


def _shortened(names: list[str], most: int = 24) -> list[str]:
    return names if len(names) <= most else [*names[:most], "…"]


def as_rst(text: str) -> str:
    """Return prose of an intrinsic, in which single backticks stand around code, as literals."""
    return re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", text).replace("*", r"\*")
