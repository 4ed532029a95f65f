"""Types of what intrinsics give, from the types of their arguments, without Numba."""

from __future__ import annotations

from kerneldsl.frontend.arguments.known_values import Elements, Value
from kerneldsl.frontend.tiles.shapes import result_shape
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.intrinsics.intrinsic import Typing
from kerneldsl.language.packed_numbers import PACKED_NUMBERS

__all__ = ["value_of_intrinsic"]


def _float_of(arguments: tuple[Value, ...]) -> Value:
    """Return the type in which a function of floats computes, if all are known."""
    rows = [ELEMENT_TYPES[value] for value in arguments if isinstance(value, str)]
    if len(rows) < len(arguments):
        return None
    return "float32" if all(row.is_float and row.nbytes <= 4 for row in rows) else "float64"


def _dot_of(arguments: tuple[Value, ...]) -> Value:
    """Return the type of the sums of products of bytes: a vector where an argument is one."""
    rows = [ELEMENT_TYPES[value] for value in arguments[:2] if isinstance(value, str)]
    if len(rows) < 2:
        return None
    items = {row.fields[0].dtype if row.is_vector else row.name for row in rows}
    item = "uint32" if items == {"uint32"} else "int32"
    values = [ELEMENT_TYPES[value] for value in arguments if isinstance(value, str)]
    parts = max((len(row.fields) for row in values if row.is_vector), default=1)
    return item if parts == 1 else f"{item}x{parts}"


def _sum_of(value: Value) -> Value:
    """Return the type in which values of the threads of a group are added."""
    if not isinstance(value, str):
        return None
    row = ELEMENT_TYPES[value]
    if row.nbytes >= 4 or row.is_float:
        return value
    return "uint32" if row.is_unsigned else "int32"


def value_of_intrinsic(use: IntrinsicUse, arguments: tuple[Value, ...]) -> Value:
    """Return what is known of an intrinsic's result."""
    first = arguments[0] if arguments else None
    match use.intrinsic.typing:
        case Typing.INDEX | Typing.CHAIN_NEXT:
            return "int64"
        case Typing.TILE:
            return _value_of_tile_operation(use, arguments)
        case Typing.LOOP:
            if use.intrinsic.name == "pipelined":
                return first
            count = len(use.static["shape"])
            return ("int64" if count == 1 else ("int64",) * count,)
        case Typing.INDEX_TUPLE:
            count = use.static["ndim"]
            return "int64" if count == 1 else ("int64",) * count
        case Typing.VOTE | Typing.BALLOT | Typing.MATCH_ANY:
            return "int32"
        case Typing.MATCH_ALL:
            return ("int32", "bool")
        case Typing.WARP_VOTE | Typing.TRUTH:
            return "bool"
        case Typing.ARRAY:
            return Elements(use.static["dtype"], len(use.static["shape"]))
        case Typing.ATOMIC | Typing.ATOMIC_CAS | Typing.ATOMIC_LOAD:
            return first.dtype if isinstance(first, Elements) else None
        case Typing.BITS | Typing.WIDE_INTEGERS | Typing.EXTREME | Typing.VALUE | Typing.ELEMENT:
            return first
        case Typing.CHOICE:
            return arguments[1]
        case Typing.PACKED if isinstance(first, Elements):
            return Elements(PACKED_NUMBERS[use.static["numbers"]].dtype, first.ndim)
        case Typing.UNPACK:
            numbers = PACKED_NUMBERS[use.static["numbers"]]
            return ("uint32" if numbers.dtype == "uint8" else "int32",) * (8 // numbers.bits)
        case Typing.VECTOR:
            return use.intrinsic.name
        case Typing.VIEW if isinstance(first, Elements):
            return Elements(use.static["dtype"], first.ndim)
        case Typing.CAST | Typing.LINKED:
            return str(use.static["dtype"])
        case Typing.BIT_POSITION | Typing.WORDS | Typing.LANE_MASK:
            return "uint32"
        case Typing.BIT_STRING if isinstance(first, str):
            return "uint64" if ELEMENT_TYPES[first].nbytes == 8 else "uint32"
        case Typing.DOT if None not in arguments[:2]:
            return _dot_of(arguments)
        case Typing.INLINE:
            given: tuple[str, ...] = use.static["out"]
            return given[0] if len(given) == 1 else given
        case Typing.DECLARED:
            results = use.intrinsic.result_dtypes
            return results[0] if len(results) == 1 else results
        case Typing.FLOATS:
            return _float_of(arguments)
        case Typing.REDUCE | Typing.EXCHANGE:
            return first
        case Typing.SORT:
            if len(arguments) == 1:
                return first
            return None if None in arguments else arguments  # values may be None
        case Typing.SUM:
            return _sum_of(first)
        case Typing.SCAN | Typing.CHAIN:
            value = arguments[2] if use.intrinsic.typing is Typing.CHAIN else first
            if _sum_of(value) == value:
                return value
            return None  # of an operation they stay as they are, and are widened without one
        case Typing.SHUFFLE | Typing.REDUCTION | Typing.INTEGER_REDUCTION:
            value = arguments[1]
            if not isinstance(value, str):
                return None
            row = ELEMENT_TYPES[value]
            return "int32" if row.nbytes < 4 and not row.is_float else value
    return None


def _value_of_tile_operation(use: IntrinsicUse, arguments: tuple[Value, ...]) -> Value:
    """Return what is known of an operation's result; a tile is known by its elements.

    Parameters
    ----------
    use : IntrinsicUse
        The operation, in the form that tiles are separated into.
    arguments : tuple of Value
        What is known of its arguments.
    """
    first = arguments[0] if arguments else None
    dtype = first.dtype if isinstance(first, Elements) else first
    match use.intrinsic.name.rpartition(".")[2]:
        case "store":
            return None
        case "cast" | "load" if "dtype" in use.static:
            dtype = str(use.static["dtype"])
        case "cast":
            array = arguments[1]
            dtype = array.dtype if isinstance(array, Elements) else None
        case _:
            dtype = use.intrinsic.tile.dtype_for(dtype if isinstance(dtype, str) else None)
    if not isinstance(dtype, str):
        return None
    shape = result_shape(use)
    return dtype if shape is None else Elements(dtype, len(shape))
