"""Lowerings of operations on numbers where Numba's are slower, raise, or give not NumPy's result.

Numba divides floats by ``floor(x / y)``, which rounds twice, and gives infinity for infinity // 3,
where NumPy, and Numba's own operator, have NaN. Its remainder loses the sign of a zero. Its maximum
compares and selects several times, where a GPU has one instruction. A complex division by zero, and
a power by the least integer, end the thread. It divides integers by constants, too, with tests for
0 and -1, in seven basic blocks. The least integer by -1 is 0 there, where NumPy's functions wrap
around. Its reciprocal of the integer 0 has no value. Its cube root is a power, and ``fmod`` of
integers takes them as unsigned. ``math.floor`` of an integer goes through a float, and ``round`` of
a float32 to some digits rounds twice.
"""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import signature
from numba.cpython.numbers import int_floordiv_impl, int_rem_impl
from numba.np import ufunc_db
from numba.np.npyfuncs import np_int_sdiv_impl, np_int_sdivrem_impl, np_real_spacing_impl

from kerneldsl.lowering import complex_functions
from kerneldsl.lowering.scalar_operations import (
    LARGEST_EXPONENT,
    complex_power,
    complex_quotient,
    complex_reciprocal,
    complex_sign,
    least_common_multiple,
    rounded,
    whole_power,
)

__all__ = ["lowered_by", "operator_lowering", "ufunc_loops"]

#: ``(context, builder, signature, arguments)`` to the result.
_Lowering: TypeAlias = Callable[..., Any]

_FLOATS = ("f", "d")
_COMPLEX = ("F", "D")
_SIGNED = ("b", "h", "i", "l", "q")
_UNSIGNED = ("B", "H", "I", "L", "Q")


def ufunc_loops(ufunc: Any) -> dict[str, _Lowering]:
    """Return the lowerings of a ufunc by the types of their arguments and results."""
    loops: dict[str, _Lowering] = ufunc_db.get_ufunc_info(ufunc)
    for first, ours in _LOOPS.get(ufunc, ()):
        loops = {key: ours if key.startswith(first) else loop for key, loop in loops.items()}
    return loops


def operator_lowering(function: Any, sig: Any) -> _Lowering | None:
    """Return the lowering of a call that is not Numba's to lower.

    `function` is Python's, or Numba's type of one.
    """
    keys = [function]
    if isinstance(function, types.Function):
        # The second one of a function that is typed here is Python's.
        keys = [function.typing_key, function.get_impl_key(sig.as_function())]
    for key in keys:
        for kinds, lower in _OPERATORS.get(key, ()):
            if len(kinds) == len(sig.args) and all(map(_is_of, sig.args, kinds)):
                return lower
    return None


def lowered_by(lowering: _Lowering, context: Any, sig: Any) -> Callable[..., Any]:
    """Return a lowering as a context gives it: a function of the builder and the arguments."""

    def lower(builder: Any, args: Any, loc: Any = None) -> Any:
        return lowering(context, builder, sig, args)

    return lower


def _is_of(given: Any, kind: type) -> bool:
    # Powers by a constant are products, which Numba writes out.
    return isinstance(given, kind) and not isinstance(given, types.Literal)


def _quotient(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _operate(operator.floordiv, sig.return_type, context, builder, sig, args)


def _remainder(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _operate(operator.mod, sig.return_type, context, builder, sig, args)


def _both(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    pair = _operate(divmod, types.UniTuple(sig.args[0], 2), context, builder, sig, args)
    parts = cgutils.unpack_tuple(builder, pair, 2)
    return context.make_tuple(builder, sig.return_type, parts)


def _operate(function: Any, kind: Any, context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Call Python's operator of the same operands."""
    return context.get_function(function, signature(kind, *sig.args))(builder, args)


def _extreme(name: str, context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Call LLVM's maximum or minimum, by which a NaN stays one; of 0 and -0 it is either."""
    kind = args[0].type
    intrinsic = f"llvm.{name}.{'f32' if kind == ir.FloatType() else 'f64'}"
    function_type = ir.FunctionType(kind, [kind, kind])
    function = cgutils.get_or_insert_function(builder.module, function_type, intrinsic)
    return builder.call(function, args, fastmath=("nsz",))


def _compiled(function: Any, context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Call a function of Python's that is compiled for these types."""
    return context.compile_internal(builder, function, sig, args)


def _in_float64(function: Any, context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Do so with float64 parts, and round the result."""

    def widened(kind: Any) -> Any:
        wide = types.complex128 if isinstance(kind, types.Complex) else types.float64
        return kind if isinstance(kind, types.Integer) else wide

    wide = signature(widened(sig.return_type), *map(widened, sig.args))
    args = [
        context.cast(builder, arg, given, kind)
        for arg, given, kind in zip(args, sig.args, wide.args, strict=True)
    ]
    result = context.compile_internal(builder, function, wide, args)
    return context.cast(builder, result, wide.return_type, sig.return_type)


def _whole_power(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Raise to a power. That by a literal has the products of ``whole_power`` and no loop."""
    kind, (base, exponent) = sig.return_type, args
    whole: Any = exponent.constant if isinstance(exponent, ir.Constant) else None
    is_float = kind in (types.float32, types.float64)
    least = -LARGEST_EXPONENT if is_float else 0
    is_number = is_float or isinstance(kind, types.Integer)
    if not (isinstance(whole, int) and is_number and least <= whole <= LARGEST_EXPONENT):
        return context.compile_internal(builder, whole_power(kind), sig, args)
    multiply = builder.fmul if is_float else builder.mul
    base = context.cast(builder, base, sig.args[0], kind)
    product = None
    for bit in reversed(f"{abs(whole):b}"):
        if bit == "1":
            product = base if product is None else multiply(product, base)
        base = multiply(base, base)
    one = context.get_constant(kind, 1)
    product = one if product is None else product
    return builder.fdiv(one, product) if whole < 0 else product


def _unchanged(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return args[0]


def _sign(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Return -1, 0 or 1, of -0 also 0, and NaN of NaN."""
    (x,) = args
    zero, one, minus_one = (ir.Constant(x.type, each) for each in (0.0, 1.0, -1.0))
    result = builder.select(builder.fcmp_ordered("==", x, zero), zero, x)
    result = builder.select(builder.fcmp_ordered(">", x, zero), one, result)
    return builder.select(builder.fcmp_ordered("<", x, zero), minus_one, result)


def _sign_of_unsigned(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Return 0 or 1: Numba's takes the upper half for negative numbers."""
    (x,) = args
    return builder.zext(builder.icmp_unsigned("!=", x, x.type(0)), x.type)


def _cube_root(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Call C's function."""
    kind = args[0].type
    name = "cbrtf" if kind == ir.FloatType() else "cbrt"
    function = ir.FunctionType(kind, [kind])
    return builder.call(cgutils.insert_pure_function(builder.module, function, name), args)


def _spacing(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Return the distance to the next number; of -0 it is that of 0, as in NumPy."""
    (x,) = args
    zero = x.type(0.0)
    x = builder.select(builder.fcmp_ordered("==", x, zero), zero, x)
    return np_real_spacing_impl(context, builder, sig, [x])


def _remainder_of_integers(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Return the remainder with the sign of the first, and 0 by 0; by -1 LLVM's has no value."""
    a, b = args
    one = b.type(1)
    is_harmful = builder.icmp_unsigned("<", builder.add(b, one), b.type(2))
    return builder.srem(a, builder.select(is_harmful, one, b))


def _quotient_of_integers(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _wrapped(builder, np_int_sdiv_impl(context, builder, sig, args), args)


def _both_of_integers(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    pair = np_int_sdivrem_impl(context, builder, sig, args)
    quotient, rest = cgutils.unpack_tuple(builder, pair, 2)
    parts = [_wrapped(builder, quotient, args), rest]
    return context.make_tuple(builder, sig.return_type, parts)


def _wrapped(builder: Any, quotient: Any, args: Any) -> Any:
    """Return a quotient of signed integers; that of the least one by -1 is the least one."""
    a, b = args
    least, minus_one = a.type(-(2 ** (a.type.width - 1))), b.type(-1)
    is_least = builder.icmp_signed("==", a, least)
    is_wrapped = builder.and_(is_least, builder.icmp_signed("==", b, minus_one))
    return builder.select(is_wrapped, least, quotient)


def _reciprocal_of_integer(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Return 1 of 1 and -1 of -1, and else 0."""
    (x,), (kind,) = args, sig.args
    above, count = (builder.add(x, x.type(1)), 3) if kind.signed else (x, 2)
    is_same = builder.icmp_unsigned("<", above, x.type(count))
    return builder.select(is_same, x, x.type(0))


def _divided_down(
    make: Callable[..., Any], general: _Lowering, context: Any, builder: Any, sig: Any, args: Any
) -> Any:
    """Divide by a constant as `make` does, and by all else as Numba does in general."""
    kind = sig.return_type
    a, b = (
        context.cast(builder, arg, given, kind) for arg, given in zip(args, sig.args, strict=True)
    )
    if not isinstance(b, ir.Constant) or not isinstance(b.constant, int):
        return general(context, builder, sig, args)
    divisor = b.constant % 2**kind.bitwidth
    if kind.signed and divisor > kind.maxval:
        divisor -= 2**kind.bitwidth
    if divisor in (0, -1):
        return general(context, builder, sig, args)
    return make(builder, a, b, divisor, kind.signed)


def _remainder_down(builder: Any, a: Any, b: Any, divisor: int, signed: bool) -> Any:
    """Return the remainder with the sign of the divisor."""
    if not signed:
        return builder.urem(a, b)
    rest = builder.srem(a, b)
    is_other = builder.icmp_signed("<" if divisor > 0 else ">", rest, rest.type(0))
    return builder.select(is_other, builder.add(rest, b), rest)


def _quotient_down(builder: Any, a: Any, b: Any, divisor: int, signed: bool) -> Any:
    """Return the quotient, rounded towards minus infinity."""
    if not signed:
        return builder.udiv(a, b)
    quotient, rest = builder.sdiv(a, b), builder.srem(a, b)
    is_other = builder.icmp_signed("<" if divisor > 0 else ">", rest, rest.type(0))
    return builder.select(is_other, builder.sub(quotient, quotient.type(1)), quotient)


def _least_common_multiple(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    function = least_common_multiple(sig.return_type)
    return context.compile_internal(builder, function, sig, args)


def _of_parts(make: Any, context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Call a function of a complex number that is made for the type of its parts."""
    function = make(sig.return_type.underlying_float)
    return context.compile_internal(builder, function, sig, args)


_QUOTIENT = partial(_compiled, complex_quotient)
_POWER = partial(_in_float64, complex_power)
#: Complex functions by the names of `cmath` and of NumPy.
_COMPLEX_FUNCTIONS = {
    (name, spelled): partial(_of_parts, getattr(complex_functions, f"complex_{name or spelled}"))
    for name, spelled in (
        *((each, each) for each in ("exp", "sin", "cos", "tan", "sinh", "cosh", "tanh")),
        *(("acosh", "arccosh"), ("", "exp2"), ("", "expm1")),
    )
}

#: Beginnings of the types of a ufunc's loops, and the lowering of those loops.
_LOOPS: dict[Any, tuple[tuple[tuple[str, ...], _Lowering], ...]] = {
    np.floor_divide: ((_FLOATS, _quotient), (_SIGNED, _quotient_of_integers)),
    np.remainder: ((_FLOATS, _remainder),),
    np.divmod: ((_FLOATS, _both), (_SIGNED, _both_of_integers)),
    np.maximum: ((_FLOATS, partial(_extreme, "maximum")),),
    np.minimum: ((_FLOATS, partial(_extreme, "minimum")),),
    np.fmod: ((_SIGNED, _remainder_of_integers),),
    np.true_divide: ((_COMPLEX, _QUOTIENT),),
    np.reciprocal: (
        (_COMPLEX, partial(_in_float64, complex_reciprocal)),
        (_SIGNED + _UNSIGNED, _reciprocal_of_integer),
    ),
    np.power: ((_COMPLEX, _POWER), (_SIGNED + _UNSIGNED, _whole_power)),
    np.lcm: ((_SIGNED + _UNSIGNED, _least_common_multiple),),
    np.float_power: ((_COMPLEX, _POWER),),
    np.sign: (
        (_FLOATS, _sign),
        (_COMPLEX, partial(_in_float64, complex_sign)),
        (_UNSIGNED, _sign_of_unsigned),
    ),
    np.cbrt: ((_FLOATS, _cube_root),),
    np.spacing: ((_FLOATS, _spacing),),
    **{
        getattr(np, spelled): ((_COMPLEX, lower),)
        for (_, spelled), lower in _COMPLEX_FUNCTIONS.items()
    },
}
_POWERS = (
    ((types.Complex, types.Complex), _POWER),
    ((types.Integer, types.Integer), _whole_power),
    ((types.Float, types.Integer), _whole_power),
)
_WHOLE = (((types.Integer,), _unchanged),)


# Comparisons of tuples, element by element without a conversion.
#
# Numba converts both elements to a common type before it compares them. Of a uint64 and a signed
# integer that is an int64, in which 2**64 - 1 equals -1.


def _element_comparison(compare: Any, context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    """Compare two elements as an operator of the kernel does."""
    function = context.typing_context.resolve_value_type(compare)
    sig = context.typing_context.resolve_function_type(function, kinds, {})
    operands = [
        context.cast(builder, value, kind, to)
        for value, kind, to in zip(values, kinds, sig.args, strict=True)
    ]
    return context.get_function(function, sig)(builder, operands)


def _pairs(builder: Any, sig: Any, args: Any) -> list[tuple[Any, Any]]:
    """Return the types and values of the elements that both tuples have."""
    both = zip(*(kind.types for kind in sig.args), strict=False)
    return [
        (kinds, [builder.extract_value(arg, place) for arg in args])
        for place, kinds in enumerate(both)
    ]


def _is_equal(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    one, two = sig.args
    found = context.get_constant(types.boolean, len(one.types) == len(two.types))
    if len(one.types) == len(two.types):
        for kinds, values in _pairs(builder, sig, args):
            same = _element_comparison(operator.eq, context, builder, kinds, values)
            found = builder.and_(found, same)
    return found


def _is_unequal(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.not_(_is_equal(context, builder, sig, args))


def _is_before(compare: Any, context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Compare the first elements that differ; without such, the lengths."""
    one, two = sig.args
    found = context.get_constant(types.boolean, compare(len(one.types), len(two.types)))
    for kinds, values in reversed(_pairs(builder, sig, args)):
        differs = _element_comparison(operator.ne, context, builder, kinds, values)
        result = _element_comparison(compare, context, builder, kinds, values)
        found = builder.select(differs, result, found)
    return found


#: Lowerings of Python's operators for two tuples.
_COMPARISONS_OF_TUPLES: dict[Any, Callable[..., Any]] = {
    operator.eq: _is_equal,
    operator.ne: _is_unequal,
    **{
        compare: partial(_is_before, compare)
        for compare in (operator.lt, operator.le, operator.gt, operator.ge)
    },
}


#: Types of the arguments of Python's functions, and the lowering of those calls.
_OPERATORS: dict[Any, tuple[tuple[tuple[type, ...], _Lowering], ...]] = {
    **dict.fromkeys(
        (operator.truediv, operator.itruediv), (((types.Complex, types.Complex), _QUOTIENT),)
    ),
    **dict.fromkeys((operator.pow, operator.ipow, pow), _POWERS),
    **dict.fromkeys((math.floor, math.ceil, math.trunc), _WHOLE),
    **dict.fromkeys(
        (operator.mod, operator.imod),
        (
            (
                (types.Integer, types.Integer),
                partial(_divided_down, _remainder_down, int_rem_impl),
            ),
        ),
    ),
    **dict.fromkeys(
        (operator.floordiv, operator.ifloordiv),
        (
            (
                (types.Integer, types.Integer),
                partial(_divided_down, _quotient_down, int_floordiv_impl),
            ),
        ),
    ),
    **{
        getattr(cmath, name): (((types.Complex,), lower),)
        for (name, _), lower in _COMPLEX_FUNCTIONS.items()
        if name
    },
    round: (((types.Float, types.Integer), partial(_in_float64, rounded)),),
    **{
        compare: (((types.BaseTuple, types.BaseTuple), lower),)
        for compare, lower in _COMPARISONS_OF_TUPLES.items()
    },
}
