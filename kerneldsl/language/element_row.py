"""A row of the table of element types: the fields that say what is known of one."""

from __future__ import annotations

import enum

from kerneldsl.language.records import Field
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["REAL_KINDS", "Atomics", "ElementKind", "ElementType"]


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
    #: Which NumPy has none of.
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
    """One element type.

    Parameters
    ----------
    name : str
        NumPy's name, which is also Numba's, CuPy's and torch's (``torch.float32``).
    kind : ElementKind
        What kind of number it is.
    nbytes : int
        Size of an element in bytes.
    alignment : int
        What an element's address is a multiple of, in bytes.
    typestr : str
        Name in ``__array_interface__`` and ``__cuda_array_interface__``.
    struct_code : str
        Format character of :mod:`struct` for a parameter of it; empty for a complex number, which
        is passed as its two components.
    dlpack_code : int
        ``DLDataTypeCode``; the bits are those of `nbytes`.
    llvm : str
        LLVM type of an element in memory.
    arithmetic : str
        Element type in which numbers of it are added and multiplied, by Numba's typing; of a
        complex number each component.
    atomics : Atomics
        Atomic operations on an element.
    package : str
        The package that has NumPy's dtype of it.
    fields : tuple of Field
        Of a record or vector, what it is made of.
    is_aligned : bool
        Whether each part of an element is at a multiple of that part's alignment.
    """

    name: str
    kind: ElementKind
    nbytes: int
    alignment: int
    typestr: str
    struct_code: str
    dlpack_code: int
    llvm: str
    arithmetic: str
    atomics: Atomics = Atomics.NONE
    package: str = "numpy"
    fields: tuple[Field, ...] = ()
    is_aligned: bool = True

    @property
    def is_integer(self) -> bool:
        """True if it is a signed or unsigned integer; a bool is none."""
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
