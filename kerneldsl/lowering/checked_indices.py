"""Debug mode: which indices of which values a check compares, with which bounds.

What is indexed is known by its type: an array, a view or a vector has a shape; a tuple's bound is
its length, and an index of it that is constant stays one, since Numba wants it so. Importing this
module registers with Numba, for every target, how a tuple is indexed by such a constant.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

from llvmlite import ir
from numba import errors, types
from numba.core import cgutils
from numba.extending import lower_builtin

from kerneldsl.lowering.numba_internals.operators import AbstractTemplate, builtin_registry

__all__ = ["IndexPart", "checked_index", "index_parts"]

_I64 = ir.IntType(64)


class IndexPart(NamedTuple):
    """One integer of an index, and what it must stay within."""

    #: Of 64 bits, signed or not.
    value: ir.Value
    #: Extent of its axis, of 64 bits.
    bound: ir.Value
    #: Position of the axis.
    axis: int
    is_signed: bool


def checked_index(index: types.Type, indexed: types.Type, axis: types.Type) -> types.Type | None:
    """Return the type that an index has once it is checked: as it was, if it picks from a tuple.

    The types are as Numba gives them, literal ones where the value is known. It tries those of no
    literals, too, which get ``None``: `axis` always is one.

    Raises ``TypingError`` for a constant that is beyond a tuple, in Numba's words.
    """
    if not isinstance(axis, types.Literal):
        return None
    if not isinstance(indexed, types.BaseTuple):
        return types.unliteral(index)
    if isinstance(index, types.IntegerLiteral):
        place = index.literal_value
        if not -len(indexed) <= place < len(indexed):
            raise errors.NumbaIndexError("tuple index out of range")
    return index


def index_parts(
    context: Any,
    builder: ir.IRBuilder,
    kinds: tuple[types.Type, types.Type],
    values: tuple[ir.Value, ir.Value],
    axis: int,
) -> Iterator[IndexPart]:
    """Yield what is to be compared of an index, whose first part is of a given axis.

    `kinds` and `values` are of the index and of what it indexes. Slices and constant indices of a
    tuple are left to Numba, and so is what cannot be indexed, which Numba refuses by its name.
    """
    kind, indexed = kinds
    bounds = _bounds(context, builder, indexed, values[1])
    if isinstance(indexed, types.BaseTuple) and isinstance(kind, types.Literal):
        return
    if isinstance(kind, types.BaseTuple):
        parts = list(zip(kind.types, cgutils.unpack_tuple(builder, values[0]), strict=True))
    else:
        parts = [(kind, values[0])]
    for part, value in parts:
        if axis >= len(bounds) or isinstance(part, types.EllipsisType):
            return
        if isinstance(part, types.NoneType):
            continue
        if isinstance(part, types.Integer):
            wide = context.cast(builder, value, part, types.int64 if part.signed else types.uint64)
            yield IndexPart(wide, bounds[axis], axis, part.signed)
        axis += 1


def _bounds(
    context: Any, builder: ir.IRBuilder, indexed: types.Type, value: ir.Value
) -> list[ir.Value]:
    if isinstance(indexed, types.BaseTuple):
        return [_I64(len(indexed))]
    if not isinstance(context.typing_context.resolve_getattr(indexed, "shape"), types.BaseTuple):
        return []
    shape = context.get_getattr(indexed, "shape")(context, builder, indexed, value, "shape")
    return list(cgutils.unpack_tuple(builder, shape))


# Numba's own overload for this calls a function, which may not return an array it takes apart.
@builtin_registry.register_global(operator.getitem)
class _Element(AbstractTemplate):
    key = operator.getitem

    def generic(self, args: Any, kws: Any) -> Any:
        """Return the signature of taking an element whose place is a constant."""
        indexed, index = args
        if not isinstance(indexed, types.BaseTuple) or not isinstance(index, types.IntegerLiteral):
            return None
        place = index.literal_value
        if not -len(indexed) <= place < len(indexed):
            return None
        return indexed.types[place](indexed, index)


@lower_builtin(operator.getitem, types.BaseTuple, types.IntegerLiteral)
def _element(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
    indexed, index = signature.args
    return builder.extract_value(args[0], index.literal_value % len(indexed))
