"""Items of a range by their number."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["range_item"]


@intrinsic
def range_item(typingctx: Any, number: Any, *bounds: Any) -> Any:
    """Return the item of ``range(*bounds)`` with a number, in the type that the range has."""
    plain = tuple(types.unliteral(bound) for bound in bounds)
    found = typingctx.resolve_function_type(range, plain, {})
    if found is None:
        return None
    kind = found.return_type.dtype

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        members = cgutils.unpack_tuple(builder, args[1], len(plain))
        parts = [
            context.cast(builder, member, bound, kind)
            for member, bound in zip(members, plain, strict=True)
        ]
        item = context.cast(builder, args[0], types.int64, kind)
        if len(parts) == 3:
            item = builder.mul(item, parts[2])
        return builder.add(item, parts[0]) if len(parts) > 1 else item

    return kind(types.int64, types.StarArgTuple(plain)), generate
