"""Records for Numba: its own record types, by the names and with the layouts of ours.

Accesses to a packed record say that they are not aligned, of which a GPU makes accesses to bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from numba import errors, types
from numba.extending import models, register_model

from kerneldsl.language.element_types import ElementType

__all__ = ["record_type"]


class _Record(types.Record):
    """A record whose name is its element type's."""

    def __init__(self, row: ElementType, fields: list[tuple[str, dict[str, Any]]]) -> None:
        super().__init__(fields, row.nbytes, row.is_aligned)
        self.name = row.name

    def typeof(self, key: str) -> types.Type:
        """Return the type of a field."""
        if key not in self.fields:
            known = ", ".join(self.fields)
            raise errors.TypingError(f"a record has no field {key!r}; its fields are {known}")
        return super().typeof(key)


register_model(_Record)(models.RecordModel)


@cache
def record_type(row: ElementType, element_type: Callable[[str], types.Type]) -> types.Record:
    """Return the Numba type of the element type of a record, of fields whose types are given."""
    fields = []
    for field in row.fields:
        found = element_type(field.dtype)
        if field.shape:
            found = types.NestedArray(found, field.shape)
            found.aligned = row.is_aligned
        fields.append((field.name, {"type": found, "offset": field.offset}))
    return _Record(row, fields)
