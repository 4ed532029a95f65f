"""Stores of floats in elements of integer arrays, which cut off the fraction without a word.

NumPy does the same in ``out[i] = 0.5``. If it is meant, write a conversion: ``int(x)``. Atomic
functions convert what they are given in the same way.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Iterator

import numpy as np
from numba import types

from kerneldsl.contract.findings import Finding
from kerneldsl.frontend.parts import Part
from kerneldsl.ir.frontend.findings.flow import Flow
from kerneldsl.ir.operations import Operation, Value
from kerneldsl.ir.recognize import operator_of
from kerneldsl.language.intrinsics.intrinsic import Typing

__all__ = ["ATOMIC", "lossy_stores"]

#: Typings of intrinsics with an array, an index and values for the element.
ATOMIC = (Typing.ATOMIC, Typing.ATOMIC_CAS, Typing.ATOMIC_STORE)
_SIGNS = (operator.neg, operator.pos)
#: Functions with results that are floats, and whole numbers.
_ROUNDING = (np.ceil, np.fix, np.floor, np.rint, np.round, np.trunc, math.ceil, math.floor)


def lossy_stores(flow: Flow) -> Iterator[Finding]:
    """Yield the floats that are stored in integer elements."""
    for operation in flow.operations:
        if operation.name == "array.store":
            source: Part = operation.source
            node = source.node
            place = node.value if isinstance(node, ast.Assign) else node
            yield from _found(flow, operation.operands[-1], Part(source.unit, place))
        elif "use" in operation.attributes:
            node = operation.source.node
            typing = operation.attributes["use"].intrinsic.typing
            if typing in ATOMIC and isinstance(node, ast.Call):
                given = zip(operation.operands[2:], node.args[2:], strict=True)
                for value, argument in given:
                    yield from _found(flow, value, Part(operation.source.unit, argument))


def _found(flow: Flow, stored: Value, place: Part) -> Iterator[Finding]:
    made = stored.owner
    if not isinstance(made, Operation) or made.name != "cast" or "written" in made.attributes:
        return
    (value,) = made.operands
    is_lossy = isinstance(value.type, types.Float) and isinstance(stored.type, types.Integer)
    if is_lossy and not all(map(_is_rounded_source, flow.sources(value))):
        yield Finding(
            place,
            f"a value of type {value.type} is stored in an element of type {stored.type}, which "
            "cuts off its fraction, in `{0.text}`. If that is meant, write int(…) around it; else "
            f"make the array one of {value.type}, as array.astype(np.{value.type}) does.",
            (place,),
        )


def _is_rounded_source(value: Value) -> bool:
    made = value.owner
    if not isinstance(made, Operation):
        return False
    if made.name == "const":
        return float(made.attributes["value"]).is_integer()
    if made.name == "cast":
        (source,) = made.operands
        is_float = isinstance(source.type, types.Float)
        return _is_rounded_source(source) if is_float else isinstance(source.type, types.Integer)
    function = operator_of(made)
    if function in _SIGNS:
        return _is_rounded_source(made.operands[0])
    return function is operator.floordiv or any(function is each for each in _ROUNDING)
