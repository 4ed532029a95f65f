"""Values of many threads at once: an array with one element for each lane, or a number for all.

What depends on data that is not there is `UNKNOWN`; a condition with only a known bound is a
:class:`Maybe`.
"""

from __future__ import annotations

import ast
import enum
import operator
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kerneldsl.language.kinds import ScalarKind
from kerneldsl.language.types import Type
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.operators import COMPARISONS

__all__ = [
    "UNKNOWN",
    "Maybe",
    "Memory",
    "Part",
    "Space",
    "Unknown",
    "Value",
    "View",
    "as_dtype",
    "binary",
    "choose",
    "compare",
    "function",
    "numpy_dtype",
    "possible",
    "unary",
]

#: A value of some lanes: what is known of it, a view, a tuple of values, or a module or function.
Value: TypeAlias = Any


class Unknown(enum.Enum):
    """Type of what depends on data."""

    UNKNOWN = "data"


UNKNOWN: Final = Unknown.UNKNOWN


@dataclass(frozen=True, slots=True)
class Maybe:
    """A condition that may hold for some lanes, depending on data, and holds for no others."""

    possible: Any


class Space(enum.Enum):
    """Kind of memory."""

    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"
    CONSTANT = "constant"


@dataclass(eq=False, slots=True)
class Memory:
    """An array that a kernel touches.

    Parameters
    ----------
    name : str
        As the kernel calls it.
    space : Space
        Where it is.
    dtype : str
        Of its elements, a name of `ELEMENT_TYPES`.
    shape : tuple of int
        Its extents.
    strides : tuple of int
        Bytes from an element to the next along each axis.
    itemsize : int
        Bytes of an element.
    base : int
        Address of its first element; those of different arrays are far apart.
    contents : ndarray or None
        Its elements, if they are known and the kernel does not write them.
    node : ast.AST or None
        The call that makes it, of an array that the kernel makes.
    is_assumed : bool
        Whether its extents were not given.
    """

    name: str
    space: Space
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    base: int = 0
    contents: NDArray[Any] | None = None
    node: ast.AST | None = None
    is_assumed: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of its elements together."""
        return self.itemsize * int(np.prod(self.shape, dtype=np.int64))


class Part(NamedTuple):
    """A field of the records of an array, or all of them.

    Parameters
    ----------
    record_bytes : int
        Bytes of a record of the array.
    offset : int
        Bytes from the record's first to the field's.
    is_aligned : bool
        Whether it is accessed at once: not where the dtype is packed, nor a whole record.
    """

    record_bytes: int
    offset: int
    is_aligned: bool


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """Elements of an array that a name stands for.

    `offset` are bytes from the array's first element, a number or one for each lane. `chosen` holds
    the indices by which it was made, one for each axis that is gone, or ``None`` where the axes
    are no longer those of the array. `part` is there of a field of records.
    """

    memory: Memory
    offset: Any
    shape: tuple[Any, ...]
    strides: tuple[int, ...]
    itemsize: int
    chosen: tuple[Any, ...] | None = ()
    is_unknown: bool = False
    part: Part | None = None


#: NumPy's functions, for a division by zero in one lane is no error here.
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: np.power,
    ast.LShift: np.left_shift,
    ast.RShift: np.right_shift,
    ast.BitAnd: np.bitwise_and,
    ast.BitOr: np.bitwise_or,
    ast.BitXor: np.bitwise_xor,
}
_FUNCTIONS: dict[str, str] = {
    "abs": "abs",
    "absolute": "abs",
    "fabs": "abs",
    "min": "minimum",
    "max": "maximum",
    "minimum": "minimum",
    "maximum": "maximum",
    "pow": "power",
    **{
        name: name
        for name in (
            *("sqrt", "exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "tanh", "floor"),
            *("ceil", "trunc", "hypot", "sinh", "cosh", "isnan", "isinf", "isfinite", "sign"),
        )
    },
}


def numpy_dtype(kind: Type | None) -> np.dtype[Any] | None:
    """Return NumPy's dtype of a scalar type; ``None`` if it has none."""
    if not isinstance(kind, ScalarKind):
        return None
    try:
        return np.dtype(kind.dtype)
    except (TypeError, ValueError):  # a record, or a float that NumPy has not
        return None


def as_dtype(value: Value, kind: Type | None) -> Value:
    """Convert a value as compiled code does; what is no number stays as it is."""
    dtype = numpy_dtype(kind)
    if isinstance(value, Maybe):
        return UNKNOWN
    if dtype is None or not isinstance(
        value, bool | int | float | complex | np.generic | np.ndarray
    ):
        return value
    if isinstance(value, int) and dtype.kind in "iu" and not isinstance(value, bool):
        bits = 8 * dtype.itemsize
        value &= (1 << bits) - 1
        if dtype.kind == "i" and value >> (bits - 1):
            value -= 1 << bits
        return dtype.type(value)
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)[()]


def _numbers(*values: Value) -> bool:
    kinds = (bool, int, float, complex, np.generic, np.ndarray)
    return all(isinstance(value, kinds) for value in values)


def binary(op: ast.operator, left: Value, right: Value) -> Value:
    """Return the result of an operator."""
    if not _numbers(left, right):
        if isinstance(left, tuple) and isinstance(right, tuple) and isinstance(op, ast.Add):
            return left + right
        return UNKNOWN
    return _computed(_BINARY.get(type(op)), left, right)


def compare(op: ast.cmpop, left: Value, right: Value) -> Value:
    """Return the result of a comparison."""
    if isinstance(op, ast.Is | ast.IsNot):
        return (left is right) == isinstance(op, ast.Is)
    return _computed(COMPARISONS.get(type(op)), left, right) if _numbers(left, right) else UNKNOWN


def unary(op: ast.unaryop, operand: Value) -> Value:
    """Return the result of an operator with one operand."""
    if not _numbers(operand):
        return UNKNOWN
    match op:
        case ast.USub():
            return _computed(np.negative, operand)
        case ast.Not():
            return _computed(np.logical_not, operand)
        case ast.Invert():
            return _computed(np.invert, operand)
    return operand


def function(name: str, arguments: list[Value]) -> Value:
    """Return the result of a mathematical function, by the last part of its name."""
    found = _FUNCTIONS.get(name)
    if found is None or not arguments or not _numbers(*arguments):
        return UNKNOWN
    called = getattr(np, found)
    result = arguments[0]
    if found in ("minimum", "maximum"):
        for each in arguments[1:]:
            result = _computed(called, result, each)
        return result
    return _computed(called, *arguments)


def _computed(called: Callable[..., Any] | None, *arguments: Value) -> Value:
    if called is None:
        return UNKNOWN
    with np.errstate(all="ignore"):
        try:
            return called(*arguments)
        except (ArithmeticError, TypeError, ValueError):
            return UNKNOWN


def possible(condition: Value) -> tuple[Any, bool]:
    """Return for which lanes a condition may hold, and whether it depends on data."""
    if isinstance(condition, Maybe):
        return condition.possible, True
    if not _numbers(condition):
        return True, True
    return np.asarray(condition).astype(bool)[()], False


def choose(mask: Any, new: Value, old: Value) -> Value:
    """Return the new value for the lanes of a mask, the old one for others."""
    if new is old or mask is True:
        return new
    if isinstance(new, tuple) and isinstance(old, tuple) and len(new) == len(old):
        return tuple(choose(mask, a, b) for a, b in zip(new, old, strict=True))
    if isinstance(new, View):
        return new
    return np.where(mask, new, old) if _numbers(new, old) else UNKNOWN
