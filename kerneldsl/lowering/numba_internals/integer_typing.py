"""Typing of integers in kernels, where Numba's rules turn them into floats.

Numba unifies uint64 with a signed type to float64: of a variable, a comparison, ``min`` and
``max``, ``divmod`` and NumPy's functions. Bits are lost from 2**53 on, without a word. A kernel's
typing context keeps integers integers. Comparisons and extremes are exact. All else is computed
modulo 2**64 as int64, as by Numba's operators. The decision is ``docs/adr/0031``.
"""

from __future__ import annotations

import operator
from functools import reduce
from types import BuiltinFunctionType
from typing import Any

import numpy as np
from numba import types
from numba.core import typing
from numba.core.imputils import lower_builtin
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate
from numba.cpython.numbers import int_signed_unsigned_cmp, int_unsigned_signed_cmp
from numba.extending import intrinsic

from kerneldsl.frontend.operators import COMPARISONS, IN_PLACE, SYMBOLS, also_in_place

__all__ = ["IntegerTyping", "key_of", "larger_integer", "mixes_signs", "smaller_integer"]

_WIDE, _SIGNED = types.uint64, types.int64
_COMPARISONS = {each: SYMBOLS[each] for each in COMPARISONS.values()}
#: Python's functions that Numba computes in floats for some integers.
_OF_NUMBERS = (divmod, pow, operator.pow, operator.ipow)
#: Operators with a result of the type of the first operand.
_SHIFTS = frozenset(also_in_place((operator.lshift, operator.rshift)))
#: Operators in which a bool is a number.
_OPERATORS = frozenset((*also_in_place(IN_PLACE), divmod, pow)) - _SHIFTS
_OPERANDS_OF_WHERE = 3
#: Functions of NumPy that have no loop for uint64 and a signed type.
_OF_NUMPY = frozenset({np.gcd, np.lcm, np.left_shift, np.right_shift})
#: Extremes with an exact result for integers of both signs: whether it is the larger one.
_EXTREMES: dict[Any, bool] = {
    min: False,
    np.minimum: False,
    np.fmin: False,
    max: True,
    np.maximum: True,
    np.fmax: True,
}
_UFUNCS = {f"kerneldsl.{each.__name__}": each for each in _EXTREMES if isinstance(each, np.ufunc)}


#: Key of its lowering.
_ROUND = "kerneldsl.round"


def key_of(function: Any) -> Any:
    """Return the object of a function type. Extremes have NumPy's ufuncs."""
    key = getattr(function, "typing_key", function)
    return _UFUNCS.get(key, key) if isinstance(key, str) else key


def _is_whole(kind: Any) -> bool:
    return isinstance(kind, types.Integer | types.Boolean)


def mixes_signs(kinds: tuple[Any, ...]) -> bool:
    """Return whether types are integers, uint64 and a signed one among them."""
    kinds = tuple(map(types.unliteral, kinds))
    return (
        any(kind == _WIDE for kind in kinds)
        and all(map(_is_whole, kinds))
        and any(isinstance(kind, types.Integer) and kind.signed for kind in kinds)
    )


def _unsigned_beside_uint64(kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return types of operands in which a bool beside a uint64 is one; Numba has an int64."""
    is_wide = any(types.unliteral(kind) == _WIDE for kind in kinds)
    if not (is_wide and all(map(_is_whole, kinds))):
        return kinds
    return tuple(_WIDE if isinstance(kind, types.Boolean) else kind for kind in kinds)


class IntegerTyping(typing.BaseContext):
    """A typing context in which integers stay integers."""

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Type a call; see the module."""
        key = getattr(func, "typing_key", func)
        is_number = args and args[0] == _WIDE if key in _SHIFTS else key in _OPERATORS
        if not kws and (isinstance(key, np.ufunc) or is_number):
            args = _unsigned_beside_uint64(args)
        if key in _OF_NUMPY and not kws and mixes_signs(args):
            return self._resolve_of_numpy(func, key, args)
        found = super().resolve_function_type(func, args, kws)
        if kws or not all(map(_is_whole, args)) or func in _functions.values():
            return found
        if key is np.where and len(args) == _OPERANDS_OF_WHERE and mixes_signs(args[1:]):
            return super().resolve_function_type(func, (args[0], _SIGNED, _SIGNED), kws)
        is_of_numbers = isinstance(key, np.ufunc) or key in _OF_NUMBERS
        if is_of_numbers and (found is None or _has_float((found.return_type, *found.args))):
            whole = super().resolve_function_type(func, (_SIGNED,) * len(args), kws)
            if whole is not None and not _has_float((whole.return_type,)):
                found = whole
        return found

    def _resolve_of_numpy(self, func: Any, key: Any, args: Any) -> Any:
        """Type a function of NumPy that has no loop for uint64 and a signed type."""
        is_shift = key in (np.left_shift, np.right_shift)
        wide = _SIGNED if not is_shift or types.unliteral(args[0]).signed else _WIDE
        return super().resolve_function_type(func, (wide, wide), {})

    def resolve_value_type(self, val: Any) -> Any:
        """Type an outside object; comparisons, extremes and ``round`` are typed here."""
        if isinstance(val, np.ufunc | BuiltinFunctionType) and val in _functions:
            return _functions[val]
        return super().resolve_value_type(val)

    def numba_value_type(self, val: Any) -> Any:
        """Return the type that Numba itself gives to a function."""
        return super().resolve_value_type(val)

    def unify_pairs(self, first: Any, second: Any) -> Any:
        """Return the type that holds values of both."""
        if mixes_signs((first, second)):
            return _SIGNED
        first, second = _unsigned_beside_uint64((first, second))
        return super().unify_pairs(first, second)


def _has_float(kinds: tuple[Any, ...]) -> bool:
    return any(
        _has_float(tuple(kind.types))
        if isinstance(kind, types.BaseTuple)
        else isinstance(kind, types.Float)
        for kind in kinds
    )


# ------------------------------------------------------------ functions whose typing is ours


class _OfIntegers(AbstractTemplate):
    """A function that is typed here for some integers, and by Numba for all else."""

    #: The function under which Numba registers its own typing.
    function: Any
    _theirs: Any = None

    def generic(self, args: Any, kws: Any) -> Any:
        """Return a signature."""
        own = None if kws else self.own(tuple(map(types.unliteral, args)))
        if own is not None:
            return own
        self._theirs = self.context.numba_value_type(self.function)
        if not kws:
            args = _unsigned_beside_uint64(args)
        return self.context.resolve_function_type(self._theirs, args, kws)

    def get_impl_key(self, sig: Any) -> Any:
        """Return the key of the lowering."""
        return self.key if self._theirs is None else self._theirs.get_impl_key(sig)

    def own(self, kinds: tuple[Any, ...]) -> Any:
        """Return a signature for types that are typed here, ``None`` for others."""
        raise NotImplementedError


class _Comparison(_OfIntegers):
    """A comparison, which is exact for uint64 and a signed integer."""

    def own(self, kinds: tuple[Any, ...]) -> Any:
        """Return a signature that leaves both operands as they are."""
        return signature(types.boolean, *_both_signs(kinds)) if mixes_signs(kinds) else None


class _Extreme(_OfIntegers):
    """The smaller or larger number, of uint64 and signed integers one that is exact."""

    is_larger: bool

    def own(self, kinds: tuple[Any, ...]) -> Any:
        """Return a signature with a result that holds every extreme of the operands."""
        numbers = _operands(kinds)
        if not mixes_signs(numbers):
            return None
        result = reduce(lambda one, two: _extreme_type(self.is_larger, one, two), numbers)
        return signature(result, *kinds)


class _Contains(_OfIntegers):
    """``x in (…)`` of integers of different types, which is exact as comparisons are."""

    def own(self, kinds: tuple[Any, ...]) -> Any:
        """Return a signature that leaves the numbers as they are."""
        row, number = kinds
        numbers = (*_parts(row), number)
        is_own = len(numbers) > 1 and len(set(numbers)) > 1 and all(map(_is_whole, numbers))
        return signature(types.boolean, *kinds) if is_own else None


class _Sum(_OfIntegers):
    """``sum`` of a tuple with a uint64, which Numba begins with an int64."""

    def own(self, kinds: tuple[Any, ...]) -> Any:
        """Return a signature with uint64, where no number is signed."""
        numbers = _parts(kinds[0]) if len(kinds) == 1 else ()
        is_own = _WIDE in numbers and all(map(_is_whole, numbers)) and not mixes_signs(numbers)
        return signature(_WIDE, *kinds) if is_own else None


class _Round(_OfIntegers):
    """``round`` of an integer, which Numba computes in float64."""

    def own(self, kinds: tuple[Any, ...]) -> Any:
        """Return a signature with int64, or uint64 of a uint64."""
        if len(kinds) != 1 or not isinstance(kinds[0], types.Integer):
            return None
        return signature(_WIDE if kinds[0] == _WIDE else _SIGNED, *kinds)


def _parts(kind: Any) -> tuple[Any, ...]:
    """Return the types of what a tuple holds."""
    return tuple(map(types.unliteral, kind.types)) if isinstance(kind, types.BaseTuple) else ()


def _operands(kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the types of numbers that are arguments, or that the only argument holds."""
    is_tuple = len(kinds) == 1 and isinstance(kinds[0], types.BaseTuple)
    return _parts(kinds[0]) if is_tuple else kinds


def _both_signs(kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_WIDE if kind == _WIDE else _SIGNED for kind in kinds)


def _extreme_type(is_larger: bool, one: Any, two: Any) -> Any:
    if mixes_signs((one, two)):
        return _WIDE if is_larger else _SIGNED
    return one if one == two else getattr(types, str(np.promote_types(str(one), str(two))))


def _made(base: type[_OfIntegers], function: Any, key: Any, **fields: Any) -> Any:
    name = f"{function.__name__}_of_integers"
    return types.Function(type(name, (base,), {"key": key, "function": function, **fields}))


_CONTAINS, _SUM = "kerneldsl.contains", "kerneldsl.sum"
#: Outside object to the function type that kernels know it as.
_functions: dict[Any, Any] = {
    round: _made(_Round, round, _ROUND),
    operator.contains: _made(_Contains, operator.contains, _CONTAINS),
    sum: _made(_Sum, sum, _SUM),
    **{each: _made(_Comparison, each, f"kerneldsl.{each.__name__}") for each in _COMPARISONS},
    **{
        each: _made(_Extreme, each, f"kerneldsl.{each.__name__}", is_larger=is_larger)
        for each, is_larger in _EXTREMES.items()
    },
}


# ---------------------------------------------------------------------------------- lowerings


def _lowering_of_extreme(is_larger: bool) -> Any:
    symbol = ">" if is_larger else "<"

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def choose(one: Any, two: Any) -> Any:
            (kind, value), (other, candidate) = one, two
            result = _extreme_type(is_larger, kind, other)
            chosen = builder.select(
                _compared(symbol, context, builder, (other, kind), (candidate, value)),
                context.cast(builder, candidate, other, result),
                context.cast(builder, value, kind, result),
            )
            return result, chosen

        kinds = _operands(sig.args)
        if kinds is not sig.args:
            args = [builder.extract_value(args[0], place) for place in range(len(kinds))]
        kind, value = reduce(choose, zip(kinds, args, strict=True))
        return context.cast(builder, value, kind, sig.return_type)

    return lower


def _extreme_intrinsic(is_larger: bool) -> Any:
    """Return a function of two integers, for code that Numba types by its own rules."""

    def extreme(typingctx: Any, one: Any, two: Any) -> Any:
        kinds = (types.unliteral(one), types.unliteral(two))
        result = _extreme_type(is_larger, *kinds)
        return signature(result, *kinds), _lowering_of_extreme(is_larger)

    return intrinsic(extreme)


smaller_integer, larger_integer = map(_extreme_intrinsic, (False, True))


def _compared(symbol: str, context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    """Compare two integers of any types, exactly."""
    is_mixed = mixes_signs(kinds)
    wide = _both_signs(kinds) if is_mixed else (_extreme_type(True, *kinds),) * 2
    operands = [
        context.cast(builder, value, kind, to)
        for value, kind, to in zip(values, kinds, wide, strict=True)
    ]
    if is_mixed:
        compare = _COMPARE[wide == (_SIGNED, _WIDE)](symbol)
        return compare(context, builder, signature(types.boolean, *wide), operands)
    is_signed = isinstance(wide[0], types.Integer) and wide[0].signed
    compare = builder.icmp_signed if is_signed else builder.icmp_unsigned
    return compare(symbol, *operands)


_COMPARE = {True: int_signed_unsigned_cmp, False: int_unsigned_signed_cmp}

for _each, _is_larger in _EXTREMES.items():
    lower_builtin(f"kerneldsl.{_each.__name__}", types.VarArg(types.Any))(
        _lowering_of_extreme(_is_larger)
    )
for _each, _symbol in _COMPARISONS.items():
    lower_builtin(f"kerneldsl.{_each.__name__}", _SIGNED, _WIDE)(int_signed_unsigned_cmp(_symbol))
    lower_builtin(f"kerneldsl.{_each.__name__}", _WIDE, _SIGNED)(int_unsigned_signed_cmp(_symbol))


@lower_builtin(_CONTAINS, types.BaseTuple, types.Any)
def _contained(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    row, number = sig.args
    found = context.get_constant(types.boolean, 0)
    for place, kind in enumerate(_parts(row)):
        part = builder.extract_value(args[0], place)
        is_equal = _compared("==", context, builder, (kind, number), (part, args[1]))
        found = builder.or_(found, is_equal)
    return found


@lower_builtin(_SUM, types.BaseTuple)
def _summed(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    total = context.get_constant(_WIDE, 0)
    for place, kind in enumerate(_parts(sig.args[0])):
        part = builder.extract_value(args[0], place)
        total = builder.add(total, context.cast(builder, part, kind, _WIDE))
    return total


@lower_builtin(_ROUND, types.Integer)
def _rounded(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return context.cast(builder, args[0], sig.args[0], sig.return_type)
