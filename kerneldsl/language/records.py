"""Element types of records: NumPy's structured dtypes, each told by a name that says its layout.

A record has fields of the element types, or arrays of them in it, at any offsets that do not
overlap: packed as NumPy has them by default, or aligned as C has them. The name of its element type
is its fields with their offsets, ``Record(x: float32 @ 0, m: int32[2] @ 4; 12 aligned)``, so that
argument kinds and the keys of compiled code say all of it.

References
----------
NumPy, "Structured arrays".
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Field", "RecordLayout", "is_record_name", "layout_of_name", "record_name"]

#: What may be the type of a field.
_FIELD_TYPES = frozenset(
    {
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"),
        *("float32", "float64", "complex64", "complex128"),
    }
)
_PREFIX = "Record("
_NAME = re.compile(r"Record\((?P<fields>.+); (?P<nbytes>\d+)(?P<aligned> aligned)?\)")
_FIELD = re.compile(r"(?P<name>\w+): (?P<dtype>\w+)(\[(?P<shape>[\d, ]+)\])? @ (?P<offset>\d+)")


class Field(NamedTuple):
    """One field of a record: its name, element type, shape (``()`` for a scalar), and place."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


class RecordLayout(NamedTuple):
    """The fields of a record, its size in bytes, and whether it is aligned as C aligns it."""

    fields: tuple[Field, ...]
    nbytes: int
    is_aligned: bool

    @property
    def name(self) -> str:
        """Name of the element type."""
        fields = ", ".join(
            f"{each.name}: {each.dtype}"
            + (f"[{', '.join(map(str, each.shape))}]" if each.shape else "")
            + f" @ {each.offset}"
            for each in self.fields
        )
        return f"{_PREFIX}{fields}; {self.nbytes}{' aligned' * self.is_aligned})"

    def numpy_dtype(self) -> np.dtype[Any]:
        """Return NumPy's dtype."""
        import numpy as np

        return np.dtype(
            {
                "names": [each.name for each in self.fields],
                "formats": [(each.dtype, each.shape) for each in self.fields],
                "offsets": [each.offset for each in self.fields],
                "itemsize": self.nbytes,
            },
            align=self.is_aligned,
        )


def is_record_name(name: object) -> bool:
    """Return whether an element type's name is a record's."""
    return isinstance(name, str) and name.startswith(_PREFIX)


@cache
def layout_of_name(name: str) -> RecordLayout:
    """Return the layout that a name says.

    Examples
    --------
    >>> layout = layout_of_name("Record(x: float32 @ 0, m: int32[2] @ 4; 12 aligned)")
    >>> layout.fields[1]
    Field(name='m', dtype='int32', shape=(2,), offset=4)
    >>> layout.numpy_dtype()
    dtype([('x', '<f4'), ('m', '<i4', (2,))], align=True)
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise KeyError(name)
    fields = tuple(
        Field(
            each["name"],
            each["dtype"],
            tuple(map(int, each["shape"].split(","))) if each["shape"] else (),
            int(each["offset"]),
        )
        for each in _FIELD.finditer(found["fields"])
    )
    return RecordLayout(fields, int(found["nbytes"]), found["aligned"] is not None)


def record_name(dtype: np.dtype[Any]) -> str | None:
    """Return the name of the element type of a structured dtype; ``None`` where there is none.

    There is none of records in records, of fields that overlap, and of fields of other types.

    Examples
    --------
    >>> import numpy as np
    >>> record_name(np.dtype([("x", np.float32), ("n", np.int8)]))
    'Record(x: float32 @ 0, n: int8 @ 4; 5)'
    >>> record_name(np.dtype([("when", "M8[s]")])) is None
    True
    """
    if not dtype.names or dtype.fields is None:
        return None
    fields = []
    for name in dtype.names:
        kind, offset = dtype.fields[name][:2]
        fields.append(Field(name, kind.base.name, kind.shape, offset))
        is_known = kind.base.name in _FIELD_TYPES and kind.base.isnative and 0 not in kind.shape
        if not is_known or not re.fullmatch(r"\w+", name) or dtype.fields[name][2:]:
            return None
    end = 0
    for field in sorted(fields, key=lambda each: each.offset):
        if field.offset < end:
            return None
        end = field.offset + dtype.fields[field.name][0].itemsize
    return RecordLayout(tuple(fields), dtype.itemsize, dtype.isalignedstruct).name
