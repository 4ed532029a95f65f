"""Typing of the intrinsics that compute from one thread's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numba import errors, types

from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Typing
from kerneldsl.language.packed_numbers import PACKED_NUMBERS
from kerneldsl.lowering.types import element_type
from kerneldsl.lowering.vectors import VectorType, item_of

__all__ = ["VALUE_RULES", "check_integer", "check_mask", "element_rule"]


def check_integer(intrinsic: Intrinsic, name: str, arg: Any) -> None:
    """Raise ``TypingError`` for an argument that is no integer or boolean."""
    if not isinstance(arg, types.Integer | types.Boolean):
        raise errors.TypingError(f"{intrinsic!r}: {name} must be an integer, and is {arg}")


def check_mask(intrinsic: Intrinsic, mask: Any) -> None:
    """Raise ``TypingError`` for lanes that are no integer: a boolean names one lane or none."""
    if not isinstance(mask, types.Integer):
        raise errors.TypingError(f"{intrinsic!r}: mask must be an integer, and is {mask}")


def _bits(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    (value,) = args
    if not isinstance(value, types.Integer):
        raise errors.TypingError(f"{intrinsic!r}: value must be an integer, and is {value}")
    if intrinsic.typing is Typing.BIT_POSITION:
        return types.uint32(value)
    if intrinsic.typing is Typing.BIT_STRING:
        value = types.uint64 if value.bitwidth == 64 else types.uint32
    return value(value)


def _words(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    for name, arg in zip(intrinsic.parameters, args, strict=True):
        check_integer(intrinsic, name, arg)
    return types.uint32(*[types.uint32 for _ in args])


def _wide_integers(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    first, second, *rest = args
    if not isinstance(first, types.Integer) or first.bitwidth < 32 or first != second:
        a, b, *_ = intrinsic.parameters
        raise errors.TypingError(
            f"{intrinsic!r}: {a} and {b} must both be int32, uint32, int64 or uint64, and are "
            f"{first} and {second}; a Python integer is an int64, and kd.uint32(…) converts it"
        )
    for name, arg in zip(intrinsic.parameters[2:], rest, strict=True):
        check_integer(intrinsic, name, arg)
    return first(*[first for _ in args])


def _dot(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    words = (types.int32, types.uint32)
    *factors, added = args
    items = [item_of(factor) for factor in factors]
    for name, arg, item in zip(intrinsic.parameters, factors, items, strict=False):
        if item not in words:
            raise errors.TypingError(
                f"{intrinsic!r}: {name} must be int32 or uint32, four bytes with a sign or "
                f"without, or a vector of them, and is {arg}"
            )
    result = types.uint32 if items == [types.uint32, types.uint32] else types.int32
    vectors = [arg for arg in args if isinstance(arg, VectorType)]
    if not vectors:
        check_integer(intrinsic, "c", added)
        return result(*factors, result)
    whole = element_type(f"{result}x{len(vectors[0].fields)}")
    if any(len(arg.fields) != len(whole.fields) for arg in vectors):
        kinds = ", ".join(map(str, vectors))
        raise errors.TypingError(f"{intrinsic!r}: vectors must have as many parts, and are {kinds}")
    if not isinstance(added, VectorType):
        check_integer(intrinsic, "c", added)
        return whole(*factors, result)
    if added != whole:
        raise errors.TypingError(f"{intrinsic!r}: c must be {whole}, and is {added}")
    return whole(*factors, whole)


def _floats(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    for name, arg in zip(intrinsic.parameters, args, strict=True):
        if not isinstance(arg, types.Float | types.Integer | types.Boolean):
            raise errors.TypingError(f"{intrinsic!r}: {name} must be a real number, and is {arg}")
    is_single = all(isinstance(arg, types.Float) and arg.bitwidth <= 32 for arg in args)
    kind = types.float32 if is_single else types.float64
    return kind(*[kind for _ in args])


def _choice(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    condition, one, other = args
    check_integer(intrinsic, "condition", condition)
    if not isinstance(one, types.Number | types.Boolean) or one != other:
        raise errors.TypingError(
            f"{intrinsic!r}: a and b must be numbers of one type, and are {one} and {other}"
        )
    return one(condition, one, other)


def _cast(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    (value,), result = args, element_type(static["dtype"])
    for what, kind in (("value", value), ("dtype", result)):
        if not isinstance(kind, types.Integer | types.Float):
            raise errors.TypingError(
                f"{intrinsic!r}: {what} must be an integer or a float, and is {kind}"
            )
    if value.bitwidth != result.bitwidth:
        raise errors.TypingError(
            f"{intrinsic!r}: value has {value.bitwidth} bits ({value}), and dtype "
            f"{result.bitwidth} ({result}); they must have as many"
        )
    return result(value)


def _unpack(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    (word,), numbers = args, PACKED_NUMBERS[static["numbers"]]
    if word not in (types.int32, types.uint32):
        raise errors.TypingError(
            f"{intrinsic!r}: word must be int32 or uint32, and is {word}; take words of 32 bits by "
            "array.view(np.uint32) outside the kernel"
        )
    part = types.uint32 if numbers.dtype == "uint8" else types.int32
    return types.UniTuple(part, 8 // numbers.bits)(word)


def _declared(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    wanted = [element_type(dtype) for dtype in intrinsic.argument_dtypes]
    names = (name for name in intrinsic.parameters if name not in intrinsic.static)
    for name, arg, kind in zip(names, args, wanted, strict=True):
        if isinstance(kind, types.Integer):
            check_integer(intrinsic, name, arg)
        elif not isinstance(arg, types.Float | types.Integer | types.Boolean):
            raise errors.TypingError(f"{intrinsic!r}: {name} must be a real number, and is {arg}")
    results = [element_type(dtype) for dtype in intrinsic.result_dtypes]
    return (results[0] if len(results) == 1 else types.Tuple(results))(*wanted)


def _value(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    return args[0](args[0])


def element_rule(intrinsic: Intrinsic, args: tuple[Any, ...]) -> Any:
    """Type a hint around an access of an element, or raise ``TypingError``."""
    (kind,) = args
    if isinstance(kind, types.Buffer):
        raise errors.TypingError(
            f"{intrinsic!r}: array[index] must be a number or a vector, and is {kind}. Give an "
            "index for each axis"
        )
    if isinstance(kind, types.Record):
        raise errors.TypingError(
            f"{intrinsic!r}: array[index] must be a number or a vector, and is {kind}. Give the "
            "array of a field, array.field, or omit the hint"
        )
    return kind(kind)


#: Rules by which :mod:`kerneldsl.ir.rules.calls` types them.
VALUE_RULES: dict[Typing, Callable[[Intrinsic, tuple[Any, ...], Mapping[str, Any]], Any]] = {
    Typing.BITS: _bits,
    Typing.BIT_STRING: _bits,
    Typing.BIT_POSITION: _bits,
    Typing.WORDS: _words,
    Typing.WIDE_INTEGERS: _wide_integers,
    Typing.DOT: _dot,
    Typing.FLOATS: _floats,
    Typing.DECLARED: _declared,
    Typing.CHOICE: _choice,
    Typing.CAST: _cast,
    Typing.UNPACK: _unpack,
    Typing.VALUE: _value,
}
