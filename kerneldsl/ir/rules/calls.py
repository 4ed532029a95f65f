"""Typing of calls of intrinsics: one function for each of the language's typing rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numba import errors, types

from kerneldsl.ir.rules.linked import linked_array_rule, linked_rule
from kerneldsl.ir.rules.tiles import tile_rule
from kerneldsl.ir.rules.values import VALUE_RULES, check_integer, check_mask, element_rule
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Typing
from kerneldsl.lowering.packed_views import check_index, packed_rule
from kerneldsl.lowering.types import element_type
from kerneldsl.lowering.vectors import VectorType, is_real
from kerneldsl.utilities.formatting import format_count

__all__ = ["typing_rule"]


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


def typing_rule(intrinsic: Intrinsic) -> Any:
    """Return the function that types calls of an intrinsic."""

    def rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
        plain = tuple(types.unliteral(arg) for arg in args)
        if intrinsic.typing is Typing.TILE:
            return tile_rule(intrinsic, plain, static)
        if intrinsic.typing is Typing.INLINE:
            return _inline(intrinsic, plain, static)
        if intrinsic.typing is Typing.LINKED:
            return linked_rule(intrinsic, plain, static)
        if intrinsic.typing is Typing.ELEMENT:
            return element_rule(intrinsic, plain)
        expected = [p for p in intrinsic.parameters if p not in intrinsic.static]
        if len(plain) != len(expected):
            raise errors.TypingError(
                f"{intrinsic!r} takes {format_count(len(expected), 'argument')} "
                f"({', '.join(expected)}), "
                f"and got {len(plain)}"
            )
        return _RULES[intrinsic.typing](intrinsic, plain, static)

    return rule


def _inline(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    """Type a call: the results are what the user says, and the values keep their types."""
    for number, arg in enumerate(args, len(static["out"])):
        if not isinstance(arg, types.Integer | types.Float | types.Boolean) or _width(arg) > 64:
            raise errors.TypingError(
                f"{intrinsic!r}: ${number} must be a real number of 8 to 64 bits, and is {arg}; of "
                "an array give an element"
            )
    results = [element_type(dtype) for dtype in static["out"]]
    for number, kind in enumerate(results):
        if not isinstance(kind, types.Integer | types.Float):
            raise errors.TypingError(
                f"{intrinsic!r}: ${number} must be an integer or a float, and is {kind}"
            )
    if not results:
        return types.void(*args)
    return (results[0] if len(results) == 1 else types.Tuple(results))(*args)


def _width(kind: Any) -> int:
    return 1 if isinstance(kind, types.Boolean) else int(kind.bitwidth)


def _index(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    return types.int64()


def _index_tuple(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    ndim = static["ndim"]
    return types.int64() if ndim == 1 else types.UniTuple(types.int64, ndim)()


def _nothing(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    for name, arg in zip(intrinsic.parameters, args, strict=True):
        check_integer(intrinsic, name, arg)
    return types.void(*[types.int32 for _ in args])


#: Numbers that registers of 32 bits hold.
_SHUFFLED = (types.int32, types.int64, types.uint32, types.uint64, types.float32, types.float64)


def _shuffled(intrinsic: Intrinsic, value: Any) -> Any:
    """Return the type in which lanes exchange a value."""
    is_narrow = isinstance(value, types.Integer) and value.bitwidth < 32
    if is_narrow or isinstance(value, types.Boolean):
        return types.int32
    if value not in _SHUFFLED:
        raise errors.TypingError(
            f"{intrinsic!r}: value must be one of {', '.join(map(str, _SHUFFLED))} or a smaller "
            f"integer, and is {value}"
        )
    return value


def _shuffle(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    mask, value, lane = args
    check_mask(intrinsic, mask)
    check_integer(intrinsic, intrinsic.parameters[2], lane)
    value = _shuffled(intrinsic, value)
    return value(types.int32, value, types.int32)


def _of_values(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    mask, value = args
    check_mask(intrinsic, mask)
    if intrinsic.typing is Typing.INTEGER_REDUCTION:
        check_integer(intrinsic, "value", value)
    value = _shuffled(intrinsic, value)
    result = {
        Typing.MATCH_ANY: types.int32,
        Typing.MATCH_ALL: types.Tuple((types.int32, types.boolean)),
    }.get(intrinsic.typing, value)
    return result(types.int32, value)


def _lane_mask(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    return types.uint32()


def _vote(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    (predicate,) = args
    _check_predicate(intrinsic, predicate)
    return types.int32(predicate)


def _truth(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    (predicate,) = args
    _check_predicate(intrinsic, predicate)
    return types.boolean(predicate)


def _check_predicate(intrinsic: Intrinsic, predicate: Any) -> None:
    if not isinstance(predicate, types.Integer | types.Boolean):
        raise errors.TypingError(
            f"{intrinsic!r}: predicate must be a boolean or an integer, and is {predicate}"
        )


def _ballot(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    mask, predicate = args
    check_mask(intrinsic, mask)
    _check_predicate(intrinsic, predicate)
    result = types.int32 if intrinsic.typing is Typing.BALLOT else types.boolean
    return result(types.int32, predicate)


def _array(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    return types.Array(element_type(static["dtype"]), len(static["shape"]), "C")()


def _atomic(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    array, index, *values = args
    if not isinstance(array, types.Array):
        raise errors.TypingError(
            f"{intrinsic!r}: the first argument must be an array, and is {array}"
        )
    if str(array.dtype) not in intrinsic.dtypes:
        raise errors.TypingError(
            f"{intrinsic!r}: the dtype must be one of {', '.join(intrinsic.dtypes)}, and is "
            f"{array.dtype}"
        )
    if not array.mutable:
        raise errors.TypingError(f"{intrinsic!r}: the array is read-only")
    for value in values:
        if isinstance(array.dtype, VectorType):
            if value != array.dtype:
                raise errors.TypingError(
                    f"{intrinsic!r}: the value must be a {array.dtype}, and is {value}"
                )
        elif not isinstance(value, types.Number | types.Boolean) or (
            isinstance(value, types.Complex)
        ):
            raise errors.TypingError(
                f"{intrinsic!r}: the value must be a real number, and is {value}"
            )
    index = check_index(repr(intrinsic), array, index)
    if intrinsic.typing is Typing.ATOMIC_STORE:
        return types.void(array, index, array.dtype)
    return array.dtype(array, index, *[array.dtype for _ in values])


# Collective operations of a warp or a block, and chains of blocks.


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


_RULES = {
    Typing.INDEX: _index,
    Typing.INDEX_TUPLE: _index_tuple,
    Typing.NOTHING: _nothing,
    Typing.VOTE: _vote,
    Typing.SHUFFLE: _shuffle,
    Typing.BALLOT: _ballot,
    Typing.WARP_VOTE: _ballot,
    Typing.LANE_MASK: _lane_mask,
    Typing.MATCH_ANY: _of_values,
    Typing.MATCH_ALL: _of_values,
    Typing.REDUCTION: _of_values,
    Typing.INTEGER_REDUCTION: _of_values,
    Typing.ARRAY: _array,
    Typing.ATOMIC: _atomic,
    Typing.ATOMIC_CAS: _atomic,
    Typing.ATOMIC_LOAD: _atomic,
    Typing.ATOMIC_STORE: _atomic,
    Typing.TRUTH: _truth,
    Typing.LINKED_ARRAY: linked_array_rule,
    Typing.PACKED: packed_rule,
    Typing.VECTOR: vector_rule,
    Typing.VIEW: view_rule,
    Typing.SUM: _sum,
    Typing.REDUCE: _reduce,
    Typing.SCAN: _scan,
    Typing.EXCHANGE: _exchange,
    Typing.SORT: _sort,
    Typing.EXTREME: _extreme,
    Typing.CHAIN_NEXT: _chain_next,
    Typing.CHAIN: _chain,
    Typing.CHAIN_PUBLISH: _chain_publish,
    **VALUE_RULES,
}
