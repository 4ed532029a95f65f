"""Finds the line of a kernel that a message of the back end is about."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from kerneldsl.contract import Specialization
from kerneldsl.errors import SourceLocation
from kerneldsl.ir.frontend.reader import Reader
from kerneldsl.ir.operations import Operation
from targets.cuda.compile.math_symbols import user_name
from targets.cuda.compile.regions.read import typed_regions

__all__ = ["find_call"]

_OPERATORS: dict[str, tuple[Callable[..., Any], ...]] = {
    "pow": (operator.pow, operator.ipow),
    "% (fmod)": (operator.mod, operator.imod, operator.floordiv, operator.ifloordiv),
}


def find_call(specialization: Specialization, function: str) -> SourceLocation:
    """Return the first place where a kernel or what it calls uses a mathematical function.

    It is the kernel's ``def`` if the use cannot be found: an operation on complex numbers may call
    the function, for example.
    """
    unit = specialization.unit
    for operation in typed_regions(unit, specialization.kinds, Reader).body.walk():
        if function in _names(operation) and operation.source is not None:
            where: SourceLocation = operation.source.where
            return where
    return unit.place()


def _names(operation: Operation) -> list[str]:
    """Return what messages call the functions that an operation may need."""
    group, _, name = operation.name.partition(".")
    if group == "libdevice":
        return [user_name(f"__nv_{name}")]
    function = operation.attributes.get("function")
    found = [name for name, functions in _OPERATORS.items() if function in functions]
    called = operation.attributes.get("name")
    return found if called is None else [*found, str(called)]
