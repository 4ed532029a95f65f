"""Records for Numba: its own record types, with the names and layouts of element types.

Accesses to a packed record are marked as unaligned: a GPU reads and writes bytes. A record that is
a kernel's argument is a copy, which is read and not written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from llvmlite import ir
from numba import errors, types
from numba.core import cgutils
from numba.extending import lower_builtin, lower_cast, models, register_model

from kerneldsl.language.element_types import ELEMENT_TYPES, ElementType
from kerneldsl.language.records import layout_of_name
from kerneldsl.lowering.numba_internals.operators import Conversion

__all__ = ["argument_type", "record_type", "record_value"]

_Types = Callable[[str], types.Type]


class _Record(types.Record):
    """A record with the name of its element type."""

    def __init__(self, row: ElementType, fields: list[tuple[str, dict[str, Any]]]) -> None:
        super().__init__(fields, row.nbytes, row.is_aligned)
        self.name = row.name

    def typeof(self, key: str) -> types.Type:
        if key not in self.fields:
            known = ", ".join(self.fields)
            raise errors.TypingError(f"a record has no field {key!r}; its fields are {known}")
        return super().typeof(key)

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        """Return how records of one layout are converted: aligned or not, their bytes are those.

        What may be a copy that is not written is such a copy.
        """
        if not isinstance(other, _Record):
            return None
        if layout_of_name(self.name).packed() != layout_of_name(other.name).packed():
            return None
        is_lost = isinstance(self, _Argument) and not isinstance(other, _Argument)
        return Conversion.unsafe if is_lost else Conversion.safe


class _Argument(_Record):
    """A record that is a kernel's argument, or is in one."""

    @property
    def key(self) -> Any:
        """Return its identity among types."""
        return self.name, "argument"


class _FieldArray(types.NestedArray):
    """An array in a record; of Numba's own there is one, whether it is aligned or not."""

    def __init__(
        self, dtype: types.Type, shape: tuple[int, ...], *, is_aligned: bool, is_mutable: bool
    ) -> None:
        super().__init__(dtype, shape)
        self.aligned: bool = is_aligned and getattr(dtype, "aligned", True)
        self.mutable = is_mutable
        if not is_mutable:
            self.name: str = f"readonly nestedarray({dtype}, {shape})"

    @property
    def key(self) -> Any:
        """Return its identity among types."""
        return self.dtype, self.shape, self.aligned, self.mutable

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        """Return that the elements of a copy, too, are stored in another record's array."""
        if isinstance(other, _FieldArray) and other.mutable and not self.mutable:
            is_same = (self.dtype, self.shape) == (other.dtype, other.shape)
            return Conversion.unsafe if is_same else None
        return super().can_convert_to(typingctx, other)


for _kind in (_Record, _Argument):
    register_model(_kind)(models.RecordModel)
register_model(_FieldArray)(models.NestedArrayModel)


@lower_cast(_FieldArray, _FieldArray)
@lower_cast(_Record, _Record)
def _as_another(context: Any, builder: Any, fromty: Any, toty: Any, value: Any) -> Any:
    """Pass a record or an array in it on, which is where its bytes are."""
    return value


@lower_builtin("static_setitem", _Argument, types.StringLiteral, types.Any)
def _refuse(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Refuse to write to a copy."""
    raise errors.TypingError(
        f"field {sig.args[1].literal_value!r} of a record that is an argument is written. Such a "
        "record is passed by value: pass an array of one record, and write to array[0]['field']"
    )


@cache
def record_type(row: ElementType, element_type: _Types) -> types.Record:
    """Return the Numba type of a record's element type, with the given types of its fields."""
    return _Record(row, _fields(row, element_type, is_mutable=True))


@cache
def argument_type(row: ElementType, element_type: _Types) -> types.Record:
    """Return the Numba type of a record that is a kernel's argument."""
    return _Argument(row, _fields(row, element_type, is_mutable=False))


def _fields(
    row: ElementType, element_type: _Types, *, is_mutable: bool
) -> list[tuple[str, dict[str, Any]]]:
    fields = []
    for field in row.fields:
        inner = ELEMENT_TYPES[field.dtype]
        found = element_type(field.dtype)
        if inner.is_record and not is_mutable:
            found = argument_type(inner, element_type)
        if field.shape:
            found = _FieldArray(
                found, field.shape, is_aligned=row.is_aligned, is_mutable=is_mutable
            )
        fields.append((field.name, {"type": found, "offset": field.offset}))
    return fields


def record_value(
    context: Any, builder: ir.IRBuilder, kind: types.Record, words: Sequence[ir.Value]
) -> ir.Value:
    """Return a record by itself, of the words that it is passed as: the place of a copy."""
    slot = cgutils.alloca_once(builder, ir.ArrayType(ir.IntType(64), len(words)))
    for number, word in enumerate(words):
        builder.store(word, cgutils.gep_inbounds(builder, slot, 0, number))
    return builder.bitcast(slot, context.get_value_type(kind))
