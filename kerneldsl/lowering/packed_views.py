"""Views of packed numbers for Numba: numbers are read from arrays of words.

Importing this module registers them with Numba, for every target.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from llvmlite import ir
from numba import errors, types
from numba.core import cgutils
from numba.extending import lower_builtin, models, register_model

from kerneldsl.language.intrinsics.intrinsic import Intrinsic
from kerneldsl.language.packed_numbers import PACKED_NUMBERS, WORD_DTYPES
from kerneldsl.lowering.numba_internals.operators import (
    AbstractTemplate,
    AttributeTemplate,
    builtin_registry,
)
from kerneldsl.lowering.types import PackedView
from kerneldsl.utilities.formatting import format_count

__all__ = ["check_index", "packed_extents", "packed_rule"]

_I8, _I64 = ir.IntType(8), ir.IntType(64)


def packed_rule(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    """Type a call of ``kd.packed``."""
    (words,) = args
    if not isinstance(words, types.Array) or str(words.dtype) not in WORD_DTYPES or not words.ndim:
        raise errors.TypingError(
            f"{intrinsic!r}: words must be an array of one axis or more, of "
            f"{', '.join(WORD_DTYPES)}, and is {words}"
        )
    return PackedView(words, PACKED_NUMBERS[static["numbers"]])(words)


@register_model(PackedView)
class _PackedModel(models.StructModel):
    """The array of words."""

    def __init__(self, manager: Any, kind: PackedView) -> None:
        super().__init__(manager, kind, [("words", kind.words)])


# --------------------------------------------------------------------------- typing


@builtin_registry.register_global(operator.getitem)
class _Read(AbstractTemplate):
    key = operator.getitem

    def generic(self, args: Any, kws: Any) -> Any:
        """Return the signature of reading one number."""
        if not isinstance(args[0], PackedView):
            return None
        view, index = args
        return view.dtype(view, check_index("kerneldsl.packed", view, index))


@builtin_registry.register_global(operator.setitem)
class _Write(AbstractTemplate):
    key = operator.setitem

    def generic(self, args: Any, kws: Any) -> Any:
        """Refuse to write one number."""
        if isinstance(args[0], PackedView):
            raise errors.TypingError(
                "kerneldsl.packed: its numbers are only read, since threads that wrote numbers of "
                "one word would undo each other's. Let one thread compute a word, and store that"
            )
        return None


@builtin_registry.register_attr
class _Attributes(AttributeTemplate):
    key = PackedView

    def resolve_shape(self, view: PackedView) -> Any:
        """Return the type of the extents, with which debug mode compares an index."""
        return types.UniTuple(types.intp, view.ndim)


# --------------------------------------------------------------------------- lowering


def _words(context: Any, builder: ir.IRBuilder, kind: PackedView, value: ir.Value) -> ir.Value:
    return builder.extract_value(value, 0)


def packed_extents(
    context: Any, builder: ir.IRBuilder, kind: PackedView, value: ir.Value
) -> list[ir.Value]:
    """Return the extents of a view: numbers along the last axis."""
    words = context.make_array(kind.words)(context, builder, _words(context, builder, kind, value))
    *rest, last = cgutils.unpack_tuple(builder, words.shape, count=kind.ndim)
    return [*rest, builder.mul(last, last.type(kind.per_word), flags=["nsw"])]


@lower_builtin(operator.getitem, PackedView, types.Integer)
@lower_builtin(operator.getitem, PackedView, types.BaseTuple)
def _getitem(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
    """Read the word of a number, and of that the number.

    An index from the end, -1 say, is in the word from the end that its quotient names, and the
    remainder is its place there.
    """
    kind, index_kind = sig.args
    numbers, parts = kind.numbers, [args[1]]
    kinds = [index_kind]
    if isinstance(index_kind, types.BaseTuple):
        kinds, parts = list(index_kind.types), cgutils.unpack_tuple(builder, args[1])
    per_word = kind.per_word
    wide = types.int64 if kinds[-1].signed else types.uint64
    last = context.cast(builder, parts[-1], kinds[-1], wide)
    shift = builder.ashr if wide.signed else builder.lshr
    parts[-1], kinds[-1] = shift(last, _I64(per_word.bit_length() - 1)), wide
    place = builder.and_(last, _I64(per_word - 1))
    index: ir.Value = parts[0]
    where: Any = kinds[0]
    if kind.ndim > 1 or isinstance(index_kind, types.BaseTuple):
        where = types.Tuple(kinds)
        index = context.make_tuple(builder, where, parts)
    read = kind.words.dtype(kind.words, where)
    context.typing_context.resolve_function_type(operator.getitem, read.args, {})
    words = _words(context, builder, kind, args[0])
    word = context.get_function(operator.getitem, read)(builder, (words, index))
    bit = builder.mul(place, _I64(numbers.bits))
    bit = bit if word.type.width == bit.type.width else builder.trunc(bit, word.type)
    code = builder.lshr(word, bit)
    code = code if word.type.width == 8 else builder.trunc(code, _I8)
    spare = _I8(8 - numbers.bits)
    if numbers.is_twos_complement:
        upper = builder.shl(code, spare)
        return (builder.ashr if numbers.smallest < 0 else builder.lshr)(upper, spare)
    code = builder.and_(code, _I8((1 << numbers.bits) - 1))
    return builder.add(code, _I8(numbers.smallest))


# Typing of indices.


def check_index(what: str, array: Any, index: Any) -> Any:
    """Return the type of an index that fits an array, or raise ``TypingError``."""
    parts = tuple(index.types) if isinstance(index, types.BaseTuple) else (index,)
    plain = tuple(types.unliteral(part) for part in parts)
    if not all(isinstance(part, types.Integer) for part in plain):
        raise errors.TypingError(
            f"{what}: the index must be an integer or a tuple of integers, and is {index}"
        )
    if len(plain) != array.ndim:
        raise errors.TypingError(
            f"{what}: the array has {format_count(array.ndim, 'dimension')}, and the index "
            f"{len(plain)}"
        )
    return types.Tuple(plain) if isinstance(index, types.BaseTuple) else plain[0]
