"""Types of vectors, and of views of arrays as vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numba import errors, types

from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.intrinsics.intrinsic import Intrinsic
from kerneldsl.lowering.types import element_type
from kerneldsl.lowering.vectors import is_real

__all__ = ["vector_rule", "view_rule"]


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
