"""Read a kernel as it is written, as regions of typed operations."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from typing import Any

from numba import types

from kerneldsl.frontend.parts import Part
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.frontend.reader import Read, Reader
from kerneldsl.ir.operations import Value
from kerneldsl.ir.typing import Typing
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import ArrayKind, ScalarKind
from kerneldsl.language.types import (
    NONE,
    STRING,
    DtypeType,
    FunctionType,
    OtherType,
    RangeType,
    SliceType,
    TileType,
    TupleType,
    Type,
)
from kerneldsl.lowering.times import TimeType
from kerneldsl.lowering.types import NumbaTile
from kerneldsl.lowering.vectors import VectorType

__all__ = ["WrittenReader", "kind_of", "language_type", "value_type"]

_COMPOUND = (ast.If, ast.For, ast.While)


# The language's types of Numba's.


def value_type(found: Any) -> Type:
    """Return the language's type of a Numba type.

    - `found`: any type. The value of a literal, and whether an array is read-only, are not part of
      what is returned.

    Examples
    --------
    >>> str(value_type(types.UniTuple(types.int64, 2)))
    '(int64, int64)'
    >>> value_type(types.literal(3))
    ScalarKind(dtype='int64')
    """
    plain = types.unliteral(found)
    match plain:
        case types.Number() | types.Boolean() | types.Record() | VectorType() | TimeType():
            return ScalarKind(str(plain)) if _is_element(plain) else OtherType(str(plain))
        case types.Array() if _is_element(plain.dtype):
            return ArrayKind(str(plain.dtype), plain.ndim, plain.layout)
        case types.Array():
            from kerneldsl.language.structures import structure_name  # few programs have such types

            struct = structure_name(plain.dtype)
            if struct is not None:
                return ArrayKind(struct, plain.ndim, plain.layout)
        case types.BaseTuple():
            elements = tuple(value_type(element) for element in plain.types)
            return TupleType(elements, tuple(getattr(plain, "fields", ())))
        case NumbaTile():
            return TileType(plain.shape, str(plain.dtype))
        case types.NoneType():
            return NONE
        case types.UnicodeType():
            return STRING
        case types.SliceType():
            return SliceType(plain.has_step)
        case types.RangeType() if _is_element(plain.dtype):
            return RangeType(str(plain.dtype))
        case types.NumberClass() | types.DType() if _is_element(plain.dtype):
            return DtypeType(str(plain.dtype))
        case types.Dispatcher():
            return FunctionType(plain.dispatcher.py_func.__name__)
        case types.BoundFunction():
            return FunctionType(str(plain.typing_key).rpartition(".")[2])
        case types.Function():
            key = plain.typing_key
            named = getattr(key, "name", None) or getattr(key, "__name__", None)
            return FunctionType(str(named or key))
    return OtherType(str(found))


def _is_element(found: Any) -> bool:
    return str(found) in ELEMENT_TYPES


#: Returns the language's type of one of Numba's.
language_type = cache(value_type)


class WrittenReader(Reader):
    """Reads statements as they are written.

    An operation has the place and source of its expression or target. A ``statement`` is the start
    of a statement that has no others in it.
    """

    def __init__(self, unit: FunctionUnit, typing: Typing) -> None:
        super().__init__(unit, typing)
        self.keeps_returns = True

    def statement(self, node: ast.stmt) -> None:
        if not isinstance(node, _COMPOUND):
            written = node.value if isinstance(node, ast.Expr) else node
            self.at(written, self.begin, written)
        super().statement(node)

    def begin(self, node: ast.AST) -> None:
        self.add("statement", [])

    def read(self, node: ast.expr, read: Read | None) -> Any:
        return self.at(node, self._value, node, read)

    def at(self, node: ast.AST, act: Callable[..., Any], *values: Any) -> Any:
        around, self.source = self.source, Part(self.unit, node)
        found = super().at(node, act, *values)
        self.source = around
        return found


def kind_of(value: Value) -> Type:
    return language_type(value.type)
