"""Types of what operations on tiles give, from the types of their arguments, without Numba.

Numba's rules of the same operations are in :mod:`kerneldsl.lowering.tile_types`; a test holds these
against them.
"""

from __future__ import annotations

from kerneldsl.analysis.known_values import Elements, Value
from kerneldsl.analysis.tile_shapes import result_shape
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.language.element_types import ELEMENT_TYPES, ElementKind

__all__ = ["value_of_tile_operation"]


def value_of_tile_operation(use: IntrinsicUse, arguments: tuple[Value, ...]) -> Value:
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
    match use.intrinsic.name.partition(".")[2]:
        case "store":
            return None
        case "index":
            return "int64"
        case "cast":
            return str(use.static["dtype"])
        case "element" | "own":
            return dtype if isinstance(dtype, str) else None
        case "argsort":
            dtype = "int64"
        case "load":
            dtype = str(use.static["dtype"]) if "dtype" in use.static else dtype
        case "any" | "all":
            dtype = "bool"
        case "sum" | "cumsum" if isinstance(dtype, str):
            dtype = _sum_type(dtype)
        case "mean" if isinstance(dtype, str):
            dtype = "float64" if _is_whole(dtype) else _sum_type(dtype)
    if not isinstance(dtype, str):
        return None
    shape = result_shape(use)
    return dtype if shape is None else Elements(dtype, len(shape))


def _is_whole(dtype: str) -> bool:
    return ELEMENT_TYPES[dtype].is_integer or ELEMENT_TYPES[dtype].kind is ElementKind.BOOL


def _sum_type(dtype: str) -> str:
    row = ELEMENT_TYPES[dtype]
    if _is_whole(dtype):
        return "uint64" if row.is_unsigned else "int64"
    return "float32" if row.is_float and row.nbytes < 4 else dtype
