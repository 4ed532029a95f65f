"""Typing of operations on tiles, one rule for each.

Elements are typed as numbers are, so tiles compute by the rules of numbers. Numba compiles no tile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numba import errors, types

from kerneldsl.ir.refusals import Refusal
from kerneldsl.ir.tiles.shapes import Shape, result_shape
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.intrinsics.intrinsic import Intrinsic
from kerneldsl.language.intrinsics.matrix import ACCUMULATORS
from kerneldsl.lowering.times import TimeType
from kerneldsl.lowering.types import NumbaTile, PackedView, element_type
from kerneldsl.utilities.formatting import format_count

__all__ = ["tile_rule"]


_Static = Mapping[str, Any]
#: Pairs of dtypes of one product.
_MIXED = ({"int8", "uint8"}, {"float8_e4m3fn", "float8_e5m2"})
#: Rows and columns of the smallest product of a tensor core, and the bytes of its rows along k.
_ROWS, _DEPTH_BYTES = 8, 16
_OF_TF32 = "It is a precision of float32"


def tile_rule(intrinsic: Intrinsic, args: tuple[Any, ...], static: _Static) -> Any:
    """Type one call; raise ``TypingError`` where its arguments do not fit."""
    rule = _RULES.get(intrinsic.name.rpartition(".")[2], _of_elements)
    return rule(intrinsic, args, static)


def _load(intrinsic: Intrinsic, args: tuple[Any, ...], static: _Static) -> Any:
    array, other, *places = args
    _check_array(intrinsic, array, places, static["shape"], packed=True)
    _check_number(intrinsic, "other", other)
    dtype = element_type(static["dtype"]) if "dtype" in static else array.dtype
    return NumbaTile(static["shape"], dtype)(*args)


def _store(intrinsic: Intrinsic, args: tuple[Any, ...], static: _Static) -> Any:
    array, *places, value = args
    _check_array(intrinsic, array, places, static["shape"])
    _check_number(intrinsic, "the element", value)
    if not array.mutable:
        raise errors.TypingError(f"{intrinsic!r}: the array is read-only")
    if isinstance(value, types.Complex) and not isinstance(array.dtype, types.Complex):
        raise errors.TypingError(
            f"{intrinsic!r}: {value} cannot be converted to the array's dtype, {array.dtype}"
        )
    return types.none(*args)


def _check_array(
    intrinsic: Intrinsic, array: Any, places: list[Any], shape: Shape, *, packed: bool = False
) -> None:
    if not isinstance(array, types.Array) and not (packed and isinstance(array, PackedView)):
        raise errors.TypingError(
            f"{intrinsic!r}: the first argument must be an array, and is {array}"
        )
    _check_elements(array.dtype)
    if array.ndim != len(shape):
        raise errors.TypingError(
            f"{intrinsic!r}: the array has {format_count(array.ndim, 'dimension')}, and the tile "
            f"{len(shape)}; of "
            "an array of more dimensions take a part, as in array[i]"
        )
    for place in places:
        if not isinstance(place, types.Integer):
            raise errors.TypingError(
                f"{intrinsic!r}: at must be an integer for each dimension, and is {place}"
            )


def _check_elements(dtype: Any) -> None:
    if isinstance(dtype, types.Record):
        field = next(iter(dtype.fields), "")
        remedy = f"Load and store a field of the array, as in array[{field!r}]"
    elif isinstance(dtype, TimeType):
        remedy = "Pass the array as integers, array.view(np.int64)"
    else:
        return
    limit = "They are numbers or truth values"
    raise Refusal(f"elements of a tile cannot be {dtype}", remedy, limit=limit)


def _check_number(intrinsic: Intrinsic, what: str, value: Any) -> None:
    if not isinstance(value, types.Number | types.Boolean):
        raise errors.TypingError(f"{intrinsic!r}: {what} must be a number, and is {value}")


def _own(intrinsic: Intrinsic, args: tuple[Any, ...], static: _Static) -> Any:
    (found,) = args
    return found.dtype(found)


def _of_elements(intrinsic: Intrinsic, args: tuple[Any, ...], static: _Static) -> Any:
    """Type an operation on one tile; its row has the dtype of the result."""
    (value,), form = args, intrinsic.tile
    _check_number(intrinsic, "the element", value)
    if form.refused and ELEMENT_TYPES[str(value)].kind in form.refused:
        raise errors.TypingError(f"{intrinsic!r}: elements cannot be {value}")
    dtype = value if form.dtype is None else element_type(str(form.dtype_for(str(value))))
    shape = result_shape(intrinsic, static)
    return dtype(value) if shape is None else NumbaTile(shape, dtype)(value)


def _cast(intrinsic: Intrinsic, args: tuple[Any, ...], static: _Static) -> Any:
    value, *array = args
    _check_number(intrinsic, "the element", value)
    if array and not isinstance(array[0], types.Array | PackedView | NumbaTile | types.DType):
        raise errors.TypingError(f"{intrinsic!r}: {array[0]} has no dtype")
    dtype = array[0].dtype if array else element_type(static["dtype"])
    _check_elements(dtype)
    if isinstance(value, types.Complex) and not isinstance(dtype, types.Complex):
        raise errors.TypingError(f"{intrinsic!r}: {value} cannot be converted to {dtype}")
    return dtype(value)


def _of(intrinsic: Intrinsic, args: tuple[Any, ...], static: _Static) -> Any:
    (value,) = args
    _check_number(intrinsic, "value", value)
    return NumbaTile(static["shape"], value)(value)


def _take(intrinsic: Intrinsic, args: tuple[Any, ...], static: _Static) -> Any:
    found, place = args
    if not isinstance(place, types.Integer):
        raise errors.TypingError(f"{intrinsic!r}: places must be integers, and are {place}")
    return NumbaTile(static["shape"], found.dtype)(found, place)


def _mma(intrinsic: Intrinsic, args: tuple[Any, ...], static: _Static) -> Any:
    (one, two, *added), (rows, columns) = args, static["shape"]
    found = intrinsic.tile.dtype_for(str(one.dtype))
    is_mixed = one.dtype != two.dtype
    if found is None or (is_mixed and {str(one.dtype), str(two.dtype)} not in _MIXED):
        raise Refusal(
            f"kd.mma multiplies tiles of {one.dtype} and {two.dtype}",
            "Convert them to one dtype: t.astype(kd.float16)",
            limit=f"Both must have one of the dtypes {', '.join(ACCUMULATORS)}",
        )
    if static["precision"] == "tf32" and str(one.dtype) != "float32":
        raise Refusal(
            f"kd.mma of {one.dtype} has precision 'tf32'", "Leave precision out", limit=_OF_TF32
        )
    depth = max(1, _DEPTH_BYTES // ELEMENT_TYPES[str(one.dtype)].nbytes)
    extents = (("m", rows, _ROWS), ("n", columns, _ROWS), ("k", static["depth"], depth))
    for axis, extent, step in extents:
        if extent % step:
            raise Refusal(
                f"kd.mma: the extent along {axis} is {extent}",
                f"Use {-(-extent // step) * step}; elements beyond an array are loaded as zeros",
                limit=f"Along {axis} extents are multiples of {step} for {one.dtype}",
            )
    dtype = element_type(found)
    if added and added[0].dtype != dtype:
        raise Refusal(
            f"kd.mma: acc is a tile of {added[0].dtype}",
            f"Make it as kd.tile.zeros({static['shape']}, kd.{found})",
            limit=f"Products of {one.dtype} are added as {found}",
        )
    return NumbaTile(static["shape"], dtype)(*args)


_RULES = {
    "mma": _mma,
    "load": _load,
    "store": _store,
    "own": _own,
    "cast": _cast,
    "of": _of,
    "take": _take,
}
