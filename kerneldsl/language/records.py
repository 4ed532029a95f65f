"""Element types of records: NumPy's structured dtypes, identified by names with their layout.

A record has fields of the element types, of further records, and of arrays of these, at any offsets
that do not overlap. Fields are packed, NumPy's default, or aligned as in C. The name of the element
type has all fields with their offsets, such as ``Record(x: float32 @ 0, m: int32[2] @ 4; 12
aligned)``. So argument kinds and the keys of compiled code contain all of it. Fields of a packed
record may be at any address, so a record in it is packed, too.

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

__all__ = ["Field", "RecordLayout", "layout_of_name", "record_name"]

#: Types that a field may have.
_FIELD_TYPES = frozenset(
    {
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float16", "bfloat16"),
        *("float32", "float64", "complex64", "complex128"),
    }
)
_PREFIX = "Record("
_FIELD_NAME, _FIELD_TYPE = re.compile(r"(\w+): "), re.compile(r"\w+")
_PLACE = re.compile(r"(\[(?P<shape>[\d, ]+)\])? @ (?P<offset>\d+)(?P<more>, )?")
_END = re.compile(r"; (?P<nbytes>\d+)(?P<aligned> aligned)?\)")


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

    def packed(self) -> RecordLayout:
        """Return the layout of the same bytes where nothing of them is known to be aligned."""
        fields = tuple(each._replace(dtype=_packed_name(each.dtype)) for each in self.fields)
        return RecordLayout(fields, self.nbytes, is_aligned=False)

    def numpy_dtype(self) -> np.dtype[Any]:
        """Return NumPy's dtype."""
        import numpy as np

        def of_field(name: str) -> np.dtype[Any]:
            inner = name.startswith(_PREFIX)
            return layout_of_name(name).numpy_dtype() if inner else np.dtype(name)

        return np.dtype(
            {
                "names": [each.name for each in self.fields],
                "formats": [(of_field(each.dtype), each.shape) for each in self.fields],
                "offsets": [each.offset for each in self.fields],
                "itemsize": self.nbytes,
            },
            align=self.is_aligned,
        )


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
    layout, end = _read(name, 0)
    if end != len(name):
        raise KeyError(name)
    return layout


def _read(text: str, at: int) -> tuple[RecordLayout, int]:
    """Return the layout with the name at a place of a text, and the place after it."""

    def match(pattern: re.Pattern[str]) -> re.Match[str]:
        nonlocal at
        found = pattern.match(text, at)
        if found is None:
            raise KeyError(text)
        at = found.end()
        return found

    at += len(_PREFIX)
    fields, has_more = [], True
    while has_more:
        name = match(_FIELD_NAME)[1]
        if text.startswith(_PREFIX, at):
            inner, at = _read(text, at)
            dtype = inner.name
        else:
            dtype = match(_FIELD_TYPE)[0]
        place = match(_PLACE)
        shape = tuple(map(int, place["shape"].split(","))) if place["shape"] else ()
        fields.append(Field(name, dtype, shape, int(place["offset"])))
        has_more = place["more"] is not None
    end = match(_END)
    return RecordLayout(tuple(fields), int(end["nbytes"]), end["aligned"] is not None), at


def _packed_name(name: str) -> str:
    """Return the name of a field's type in a packed record."""
    return layout_of_name(name).packed().name if name.startswith(_PREFIX) else name


def record_name(dtype: np.dtype[Any]) -> str | None:
    """Return the name of the element type of a structured dtype; ``None`` if there is none.

    There is none of fields that overlap, and of fields of other types.

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
        found = _field_type(kind.base)
        if found is None or 0 in kind.shape or dtype.fields[name][2:]:
            return None
        if not re.fullmatch(r"\w+", name):
            return None
        fields.append(Field(name, found, kind.shape, offset))
    end = 0
    for field in sorted(fields, key=lambda each: each.offset):
        if field.offset < end:
            return None
        end = field.offset + dtype.fields[field.name][0].itemsize
    layout = RecordLayout(tuple(fields), dtype.itemsize, dtype.isalignedstruct)
    return (layout if layout.is_aligned else layout.packed()).name


def _field_type(dtype: np.dtype[Any]) -> str | None:
    if dtype.names is not None:
        return record_name(dtype)
    return dtype.name if dtype.name in _FIELD_TYPES and dtype.isnative else None
