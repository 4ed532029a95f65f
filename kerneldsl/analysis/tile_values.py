"""Types of what operations on tiles give, from the types of their arguments, without Numba.

Numba's rules of the same operations are in :mod:`kerneldsl.lowering.tile_types`; a test holds these
against them.
"""

from __future__ import annotations

from kerneldsl.analysis.known_values import Elements, Value
from kerneldsl.analysis.tile_shapes import result_shape
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.promotion import result_of_sum

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
            dtype = result_of_sum(dtype)
        case "mean" if isinstance(dtype, str):
            total = result_of_sum(dtype)
            dtype = "float64" if ELEMENT_TYPES[total].is_integer else total
    if not isinstance(dtype, str):
        return None
    shape = result_shape(use)
    return dtype if shape is None else Elements(dtype, len(shape))
