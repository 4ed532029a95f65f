"""Element types, as data: what is known of each dtype of an array's elements and of a scalar.

A row of :data:`ELEMENT_TYPES` has the size of an element, the kind of its number, and its name in
each protocol and library that exchanges arrays. All readers use the row.
A test holds the rows against NumPy, ctypes, :mod:`struct`, DLPack's header and Numba. How a target
performs arithmetic on an element is the target's own.

NumPy is imported by :func:`numpy_dtype` alone.

References
----------
NumPy, "The array interface protocol" (``typestr``); DLPack, ``dlpack.h``, ``DLDataTypeCode``;
Python, :mod:`struct`, "Format Characters"; LLVM Language Reference, "Type System".
"""

from __future__ import annotations

import enum
import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kerneldsl.errors import ToolMissingError
from kerneldsl.utilities.dataclasses import dataclass

if TYPE_CHECKING:
    import numpy as np

    from kerneldsl.language.records import Field

__all__ = [
    "DTYPE_NAMES",
    "ELEMENT_TYPES",
    "NUMPY_NAMES",
    "REAL_KINDS",
    "Atomics",
    "ElementKind",
    "ElementType",
    "element_name",
    "names_of",
    "numpy_dtype",
    "result_of_sum",
    "vector_names",
]


class ElementKind(enum.Enum):
    """Kind of number of an element; the values are ``numpy.dtype.kind``'s letters."""

    BOOL = "b"
    SIGNED = "i"
    UNSIGNED = "u"
    FLOAT = "f"
    COMPLEX = "c"
    RECORD = "V"
    DATETIME = "M"
    TIMEDELTA = "m"
    #: A vector, which NumPy lacks.
    VECTOR = "vector"


#: Kinds of numbers that a call such as ``np.int8(x)`` converts to.
REAL_KINDS = (ElementKind.SIGNED, ElementKind.UNSIGNED, ElementKind.FLOAT)


class Atomics(enum.Flag):
    """The groups of atomic operations that the language has for an element type."""

    NONE = 0
    ARITHMETIC = enum.auto()
    """Addition, subtraction, minimum, maximum, exchange, compare-and-swap."""
    BITWISE = enum.auto()
    """And, or, exclusive or."""
    WRAPPING = enum.auto()
    """Increment and decrement that wrap at a limit."""


@dataclass(frozen=True, slots=True)
class ElementType:
    """One element type."""

    #: NumPy's name, which is also Numba's, CuPy's and torch's (``torch.float32``).
    name: str
    #: Kind of number.
    kind: ElementKind
    #: Size of an element in bytes.
    nbytes: int
    #: Alignment of an element's address, in bytes.
    alignment: int
    #: Name in ``__array_interface__`` and ``__cuda_array_interface__``; empty if another type has
    #: it, too.
    typestr: str
    #: Format character of :mod:`struct` for a parameter of it; empty for a complex number, which is
    #: passed as its two components.
    struct_code: str
    #: ``DLDataTypeCode``; the bits are those of `nbytes`.
    dlpack_code: int
    #: LLVM type of an element in memory.
    llvm: str
    #: Element type in which numbers of it are added and multiplied, by Numba's typing; of a complex
    #: number each component.
    arithmetic: str
    #: Atomic operations on an element.
    atomics: Atomics = Atomics.NONE
    #: The package that has NumPy's dtype of it.
    package: str = "numpy"
    #: Fields of a record or vector.
    fields: tuple[Field, ...] = ()
    #: Whether each part of an element is aligned to that part's alignment.
    is_aligned: bool = True

    @property
    def is_integer(self) -> bool:
        """True if it is a signed or unsigned integer; a bool is not."""
        return self.kind in (ElementKind.SIGNED, ElementKind.UNSIGNED)

    @property
    def is_signed(self) -> bool:
        """True if it is a signed integer."""
        return self.kind is ElementKind.SIGNED

    @property
    def is_unsigned(self) -> bool:
        """True if it is an unsigned integer."""
        return self.kind is ElementKind.UNSIGNED

    @property
    def is_float(self) -> bool:
        """True if it is a real floating-point number."""
        return self.kind is ElementKind.FLOAT

    @property
    def is_complex(self) -> bool:
        """True if it is a complex number."""
        return self.kind is ElementKind.COMPLEX

    @property
    def is_record(self) -> bool:
        """True if it is a record of fields."""
        return self.kind is ElementKind.RECORD

    @property
    def is_vector(self) -> bool:
        """True if it is a vector of two or four numbers, its fields."""
        return self.kind is ElementKind.VECTOR

    @property
    def is_duration(self) -> bool:
        """True if it is a duration, a timedelta64."""
        return self.kind is ElementKind.TIMEDELTA

    @property
    def is_time(self) -> bool:
        """True if it is a date or a duration."""
        return self.kind in (ElementKind.DATETIME, ElementKind.TIMEDELTA)

    @property
    def is_number(self) -> bool:
        """True if it is one number, or a bool."""
        return not self.fields and not self.is_time

    @property
    def is_double(self) -> bool:
        """True if arithmetic on it is in float64, which most GPUs have few units for."""
        return self.arithmetic == "float64"

    @property
    def is_narrow(self) -> bool:
        """True if it is a real floating-point number that is computed in a wider type."""
        return self.is_float and self.arithmetic != self.name

    @property
    def is_passed_as_bits(self) -> bool:
        """True if a parameter of it is the bits of its value, as :mod:`struct` lacks its format."""
        return self.package != "numpy"

    @property
    def integer_range(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        bits = 8 * self.nbytes
        return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if self.is_signed else (0, 2**bits - 1)


def _rows() -> tuple[ElementType, ...]:
    row = ElementType
    is_bool, signed, unsigned = ElementKind.BOOL, ElementKind.SIGNED, ElementKind.UNSIGNED
    real, compound = ElementKind.FLOAT, ElementKind.COMPLEX
    numeric = Atomics.ARITHMETIC
    bitwise = Atomics.ARITHMETIC | Atomics.BITWISE
    counter = bitwise | Atomics.WRAPPING
    return (
        # name, kind, nbytes, alignment, typestr, struct code, DLPack code, LLVM type, arithmetic
        row("bool", is_bool, 1, 1, "|b1", "B", 6, "i8", "int64"),
        row("int8", signed, 1, 1, "|i1", "b", 0, "i8", "int64", bitwise),
        row("int16", signed, 2, 2, "<i2", "h", 0, "i16", "int64", bitwise),
        row("int32", signed, 4, 4, "<i4", "i", 0, "i32", "int64", bitwise),
        row("int64", signed, 8, 8, "<i8", "q", 0, "i64", "int64", bitwise),
        row("uint8", unsigned, 1, 1, "|u1", "B", 1, "i8", "uint64", bitwise),
        row("uint16", unsigned, 2, 2, "<u2", "H", 1, "i16", "uint64", bitwise),
        row("uint32", unsigned, 4, 4, "<u4", "I", 1, "i32", "uint64", counter),
        row("uint64", unsigned, 8, 8, "<u8", "Q", 1, "i64", "uint64", counter),
        row("float8_e4m3fn", real, 1, 1, "<V1", "B", 10, "i8", "float32", package="ml_dtypes"),
        row("float8_e5m2", real, 1, 1, "<f1", "B", 12, "i8", "float32", package="ml_dtypes"),
        row("float8_e8m0fnu", real, 1, 1, "", "B", 14, "i8", "float32", package="ml_dtypes"),
        row("float16", real, 2, 2, "<f2", "e", 2, "half", "float32", numeric),
        row("bfloat16", real, 2, 2, "<V2", "H", 4, "i16", "float32", numeric, "ml_dtypes"),
        row("float32", real, 4, 4, "<f4", "f", 2, "float", "float32", numeric),
        row("float64", real, 8, 8, "<f8", "d", 2, "double", "float64", numeric),
        row("complex64", compound, 8, 4, "<c8", "", 5, "{float, float}", "float32"),
        row("complex128", compound, 16, 8, "<c16", "", 5, "{double, double}", "float64"),
    )


class _Table(dict[str, ElementType]):
    """The rows, and those of records, vectors and times, made when requested and not listed."""

    def __contains__(self, name: object) -> bool:
        if super().__contains__(name):
            return True
        try:
            return isinstance(name, str) and bool(self[name])
        except KeyError:
            return False

    def __missing__(self, name: str) -> ElementType:
        if _is_time_name(name):
            return _time_row(name)
        if isinstance(name, str) and name.startswith("struct("):
            return _structure_row(name)
        return _record_row(name) if _is_record_name(name) else _vector_row(name)


# Few programs have records, vectors or times. What knows these is imported for their names alone.


def _is_time_name(name: object) -> bool:
    if not isinstance(name, str) or not name.startswith(("datetime64", "timedelta64")):
        return False
    from kerneldsl.language.times import is_time_name

    return is_time_name(name)


def _is_record_name(name: object) -> bool:
    return isinstance(name, str) and name.startswith("Record(")


@cache
def _record_row(name: str) -> ElementType:
    from kerneldsl.language.records import layout_of_name

    layout = layout_of_name(name)
    alignment = max(ELEMENT_TYPES[each.dtype].alignment for each in layout.fields)
    nbytes = layout.nbytes
    return ElementType(
        name,
        ElementKind.RECORD,
        nbytes,
        alignment if layout.is_aligned else 1,
        typestr=f"|V{nbytes}",
        struct_code="",
        dlpack_code=-1,
        llvm=f"[{nbytes} x i8]",
        arithmetic=name,
        fields=layout.fields,
        is_aligned=layout.is_aligned,
    )


@cache
def _time_row(name: str) -> ElementType:
    from kerneldsl.language.times import unit_of

    kind = ElementKind.DATETIME if name.startswith("d") else ElementKind.TIMEDELTA
    typestr = f"<{kind.value}8[{unit_of(name)}]"
    return ElementType(name, kind, 8, 8, typestr, "q", -1, "i64", arithmetic=name)


#: Element types of vectors, and the most bytes of one, which one instruction loads or stores.
_VECTOR_ITEMS = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64"),
)
_MAX_VECTOR_BYTES = 16


@cache
def _vector_row(name: str) -> ElementType:
    item, _, count = name.partition("x")
    if item not in _VECTOR_ITEMS or count not in ("2", "4"):
        raise KeyError(name)
    row = ELEMENT_TYPES[item]
    nbytes = row.nbytes * int(count)
    if nbytes > _MAX_VECTOR_BYTES:
        raise KeyError(name)
    return _row_of_members(name, [(each, item) for each in "xyzw"[: int(count)]], nbytes)


@cache
def _structure_row(name: str) -> ElementType:
    members = re.findall(r"(\w+) (\w+)[,)]", name[: name.index(")") + 1])
    return _row_of_members(name, members, 1)


def _row_of_members(name: str, members: list[tuple[str, str]], alignment: int) -> ElementType:
    """Return the row of a type that is aligned as its members at least."""
    from kerneldsl.language.records import Field

    end, fields = 0, []
    for member, dtype in members:
        inner = ELEMENT_TYPES[dtype]
        start = -(-end // inner.alignment) * inner.alignment
        fields.append(Field(member, dtype, (), start))
        end, alignment = start + inner.nbytes, max(alignment, inner.alignment)
    return ElementType(
        name,
        ElementKind.VECTOR,
        -(-end // alignment) * alignment,
        alignment,
        typestr="",
        struct_code="",
        dlpack_code=-1,
        llvm=f"{{{', '.join(ELEMENT_TYPES[each.dtype].llvm for each in fields)}}}",
        arithmetic=name,
        fields=tuple(fields),
    )


def vector_names() -> tuple[str, ...]:
    """Return the names of all vector types, such as ``"float32x4"``."""
    names = (f"{item}x{count}" for item in _VECTOR_ITEMS for count in (2, 4))
    return tuple(name for name in names if name in ELEMENT_TYPES)


#: Every element type by its name; those of records are found too, but are not among the keys.
ELEMENT_TYPES: dict[str, ElementType] = _Table({row.name: row for row in _rows()})
#: Names of all element types, in the table's order.
DTYPE_NAMES: tuple[str, ...] = tuple(ELEMENT_TYPES)
#: Names of those with a dtype of NumPy's own.
NUMPY_NAMES = tuple(row.name for row in ELEMENT_TYPES.values() if row.package == "numpy")


def names_of(*kinds: ElementKind) -> frozenset[str]:
    """Return the names of all element types of some kinds.

    Examples
    --------
    >>> sorted(names_of(ElementKind.COMPLEX))
    ['complex128', 'complex64']
    """
    return frozenset(row.name for row in ELEMENT_TYPES.values() if row.kind in kinds)


def element_name(dtype: np.dtype[Any]) -> str | None:
    """Return the name of a dtype's element type; ``None`` where kernels do not take it.

    Examples
    --------
    >>> import numpy as np
    >>> element_name(np.dtype("f4")), element_name(np.dtype("M8[s]")), element_name(np.dtype("O"))
    ('float32', 'datetime64[s]', None)
    """
    if dtype.names is not None:
        from kerneldsl.language.records import record_name

        return record_name(dtype)
    is_known = dtype.name in DTYPE_NAMES or _is_time_name(dtype.name)
    return dtype.name if is_known and dtype.isnative else None


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return NumPy's dtype of an element type.

    - raises `ToolMissingError` if the package that has it is not installed.

    Examples
    --------
    >>> numpy_dtype("complex64")
    dtype('complex64')
    """
    import numpy as np

    if _is_record_name(name):
        from kerneldsl.language.records import layout_of_name

        return layout_of_name(name).numpy_dtype()
    package = ELEMENT_TYPES[name].package
    try:
        import_module(package)  # makes the name known to NumPy
    except ImportError as error:
        raise ToolMissingError(
            f"{name} needs the package {package}, which is not installed",
            remedy=f"pip install {package}",
        ) from error
    return np.dtype(name)


def result_of_sum(name: str) -> str:
    """Return the type in which the elements of a tile or row are added up, as NumPy chooses it.

    Floats of fewer than 32 bits are added up in float32.

    Examples
    --------
    >>> result_of_sum("int8"), result_of_sum("uint32"), result_of_sum("float16")
    ('int64', 'uint64', 'float32')
    """
    row = ELEMENT_TYPES[name]
    if row.kind in (ElementKind.BOOL, ElementKind.SIGNED, ElementKind.UNSIGNED):
        return "uint64" if row.is_unsigned else "int64"
    return row.arithmetic if row.is_narrow else name
