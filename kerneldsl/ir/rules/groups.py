"""Type calls of what threads of a warp or a block compute together, and of chains of blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numba import errors, types

from kerneldsl.ir.rules.values import check_integer
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Typing

__all__ = ["GROUP_RULES"]


def _sum(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    (value,) = args
    result = _added_as(intrinsic, value)
    return result(result)


def _added_as(intrinsic: Intrinsic, value: Any) -> Any:
    """Return the type of a sum of such values."""
    _check_dtype(intrinsic, value)
    if isinstance(value, types.Boolean):
        return types.int32
    if isinstance(value, types.Integer) and value.bitwidth < 32:
        return types.int32 if value.signed else types.uint32
    return value


def _reduce(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    value, operation = args
    _check_dtype(intrinsic, value)
    _check_operation(intrinsic, operation, value)
    return value(value, operation)


def _scan(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    value, operation, *rest = args
    if operation == types.none:
        result = _added_as(intrinsic, value)
    else:
        result = value
        _check_dtype(intrinsic, value)
        _check_operation(intrinsic, operation, value)
    names = intrinsic.parameters[len(intrinsic.parameters) - len(rest) :]
    for name, given in zip(names, rest, strict=True):
        if given == types.none and operation != types.none:
            raise errors.TypingError(
                f"{intrinsic!r}: give {name}, which the first thread gets; of an operation it is "
                "not known what leaves every value as it is"
            )
        if given != types.none and not isinstance(given, types.Number | types.Boolean):
            raise errors.TypingError(f"{intrinsic!r}: {name} must be a number, and is {given}")
    started = [given if given == types.none else result for given in rest]
    return result(result, operation, *started)


def _check_operation(intrinsic: Intrinsic, operation: Any, value: Any) -> None:
    """Raise ``TypingError`` where an operation does not make one value of two."""
    if not isinstance(operation, types.Dispatcher):
        return  # where types are only read, it is no function of Numba's
    template, _, args, _ = operation.dispatcher.get_call_template((value, value), {})
    found = next(case.return_type for case in template.cases if case.args == tuple(args))
    is_number = isinstance(found, types.Number | types.Boolean)
    if not is_number or (isinstance(found, types.Complex) and not isinstance(value, types.Complex)):
        raise errors.TypingError(
            f"{intrinsic!r}: {operation.dispatcher.py_func.__name__}({value}, {value}) must give a "
            f"number that can be converted to {value}, and gives {found}"
        )


def _exchange(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    value, source = args
    _check_dtype(intrinsic, value)
    check_integer(intrinsic, "source", source)
    return value(value, types.int32)


def _sort(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    keys, values = args
    _check_dtype(intrinsic, keys)
    if values == types.none:
        return keys(keys, values)
    if not isinstance(values, types.Number | types.Boolean):
        raise errors.TypingError(f"{intrinsic!r}: values must be a number, and is {values}")
    return types.Tuple((keys, values))(keys, values)


def _extreme(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    (value,) = args
    _check_dtype(intrinsic, value)
    return value(value)


def _chain_next(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    (state,) = args
    _check_state(intrinsic, state)
    return types.int64(state)


def _chain(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    state, part, *scanned = args
    _check_state(intrinsic, state)
    check_integer(intrinsic, "part", part)
    typed = _scan(intrinsic, tuple(scanned), static)
    return typed.return_type(state, types.int64, *typed.args)


def _chain_publish(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    state, part, value, operation = args
    _check_state(intrinsic, state)
    check_integer(intrinsic, "part", part)
    typed = _scan(intrinsic, (value, operation), static)
    return types.none(state, types.int64, *typed.args)


def _check_state(intrinsic: Intrinsic, state: Any) -> None:
    is_words = (
        isinstance(state, types.Array)
        and (state.ndim, state.layout) == (1, "C")
        and state.dtype in (types.int64, types.uint64)
        and state.mutable
    )
    if not is_words:
        raise errors.TypingError(
            f"{intrinsic!r}: state must be a contiguous array of int64 or uint64 with one axis, "
            f"and is {state}"
        )


def _check_dtype(intrinsic: Intrinsic, value: Any) -> None:
    if str(value) not in intrinsic.dtypes:
        name = "value" if "value" in intrinsic.parameters else intrinsic.parameters[0]
        raise errors.TypingError(
            f"{intrinsic!r}: {name} must be one of {', '.join(intrinsic.dtypes)}, and is {value}"
        )


GROUP_RULES = {
    Typing.SUM: _sum,
    Typing.REDUCE: _reduce,
    Typing.SCAN: _scan,
    Typing.EXCHANGE: _exchange,
    Typing.SORT: _sort,
    Typing.EXTREME: _extreme,
    Typing.CHAIN_NEXT: _chain_next,
    Typing.CHAIN: _chain,
    Typing.CHAIN_PUBLISH: _chain_publish,
}
