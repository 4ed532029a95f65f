"""Typing and lowering of what makes vectors, and views of arrays as vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llvmlite import ir
from numba import errors, types
from numba.core import cgutils

from kerneldsl.language.element_types import ELEMENT_TYPES, vector_names
from kerneldsl.language.intrinsics.intrinsic import Intrinsic
from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.numba_internals.arrays import array_value, make_array
from kerneldsl.lowering.types import element_type
from kerneldsl.lowering.vectors import is_real

__all__ = ["EMITTERS", "vector_rule", "view_rule"]

_I64 = ir.IntType(64)


def vector_rule(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    """Type a call such as ``kd.float32x4(x, y, z, w)``."""
    kind = element_type(intrinsic.name)
    for name, arg in zip(intrinsic.parameters, args, strict=True):
        if not is_real(arg):
            raise errors.TypingError(f"{intrinsic!r}: {name} must be a real number, and is {arg}")
    return kind(*[kind.item for _ in args])


def view_rule(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    """Type a call of ``kd.view``."""
    (array,), row = args, ELEMENT_TYPES[static["dtype"]]
    if not row.is_vector:
        raise errors.TypingError(
            f"{intrinsic!r}: dtype must be a vector's, as kd.float32x4, and is {row.name}. View an "
            "array with another dtype outside the kernel, array.view(dtype)"
        )
    item = row.fields[0].dtype
    if not isinstance(array, types.Array) or not array.ndim or str(array.dtype) != item:
        raise errors.TypingError(
            f"{intrinsic!r}: a view as {row.name} needs an array of {item} with one axis or more, "
            f"and array is {array}"
        )
    if array.layout != "C":
        raise errors.TypingError(
            f"{intrinsic!r}: a view as {row.name} needs numbers side by side along the last axis, "
            f"an array of layout C, and array is {array}. Pass np.ascontiguousarray(array), or "
            "take its elements one by one"
        )
    # The rows of more than one axis may have numbers at their ends that are in no vector.
    layout = "C" if array.ndim == 1 else "A"
    kind = element_type(row.name)
    return types.Array(kind, array.ndim, layout, readonly=not array.mutable)(array)


def _make(call: Call) -> ir.Value:
    return cgutils.pack_struct(call.builder, call.args)


def _view(call: Call) -> ir.Value:
    builder, context = call.builder, call.context
    source, result = call.signature.args[0], call.signature.return_type
    array = make_array(source)(context, builder, call.args[0])
    *rows, last = cgutils.unpack_tuple(builder, array.shape, count=source.ndim)
    shape = [*rows, builder.lshr(last, last.type(len(result.dtype.fields).bit_length() - 1))]
    strides = None
    if source.ndim > 1:
        *outer, _ = cgutils.unpack_tuple(builder, array.strides, count=source.ndim)
        strides = [*outer, _I64(result.dtype.bitwidth // 8)]
    return array_value(context, builder, result, array.data, shape, strides=strides)


#: Of the language's operations on vectors.
EMITTERS: dict[str, Emitter] = {"view": _view, **dict.fromkeys(vector_names(), _make)}
