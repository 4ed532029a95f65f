"""Every libdevice function with its meaning on a CPU.

Functions without one round in a direction. LLVM's code for processors has no instruction for that:
the register that holds the direction is the whole thread's.

References
----------
NVIDIA, "libdevice User's Guide", section "Function Reference".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import register_jitable

from kerneldsl.language.element_types import ELEMENT_TYPES, numpy_dtype
from kerneldsl.lowering import scalars
from kerneldsl.lowering.calls import Emitter
from targets.cpu.math.libdevice import functions
from targets.cpu.math.libdevice.emitters import (
    bits_of_half,
    compiled,
    half_of_bits,
    intrinsic,
    of_one,
    of_two,
    operation,
    widened,
)

__all__ = ["MEANINGS"]


# What is too large for an integer becomes the nearest one. A NaN becomes 0, or of or to 64 bits the
# number with the highest bit alone.
#
# References: PTX ISA, section "cvt", "Integer Notes" and "Floating Point Notes".


_ROUNDINGS: dict[str, Callable[[Any], Any]] = {
    "rn": np.rint,
    "rz": np.trunc,
    "rd": np.floor,
    "ru": np.ceil,
    "away": functions.round_away,
}


def to_integer(direction: str, source: str, target: str) -> Callable[[Any], Any]:
    """Return the conversion of a float to an integer."""
    kind = numpy_dtype(target).type
    limits = np.iinfo(kind)
    low, high, above = int(limits.min), int(limits.max), float(limits.max) + 1.0
    if float(limits.max) != limits.max:
        above = float(limits.max)  # it is the next power of two itself
    is_long = "float64" in (source, target) or limits.bits == 64
    nan_bits = 1 << (limits.bits - 1)
    of_nan = 0 if not is_long else (nan_bits if low == 0 else low)
    rounded, least = _ROUNDINGS[direction], float(low)

    def convert(x: Any) -> Any:
        if math.isnan(x):
            return kind(of_nan)
        whole = rounded(x)
        if whole >= above:
            return kind(high)
        if whole <= least:
            return kind(low)
        return kind(whole)

    return convert


def _is_above(source: Any) -> Callable[[Any, Any], Any]:
    """Return whether a float is above the integer, or the wider float, that it was made of."""
    row = ELEMENT_TYPES[np.dtype(source).name]
    if row.is_float:

        def wider(made: Any, x: Any) -> Any:
            return (made > x) - (made < x)

        return wider
    power = float(np.iinfo(source).max) + (row.nbytes < 8)

    def whole(made: Any, x: Any) -> Any:
        if made >= power:
            return 1
        back = source(made)
        return (back > x) - (back < x)

    return whole


def to_float(direction: str, source_name: str, target_name: str) -> Callable[[Any], Any]:
    """Return the conversion of an integer, or of a wider float, to a float."""
    source, target = (numpy_dtype(each).type for each in (source_name, target_name))
    compare = register_jitable(_is_above(source))
    below, above = target(-math.inf), target(math.inf)
    zero = target(0)

    def nearest(x: Any) -> Any:
        return target(x)

    def down(x: Any) -> Any:
        made = target(x)
        return np.nextafter(made, below) if compare(made, x) > 0 else made

    def up(x: Any) -> Any:
        made = target(x)
        return np.nextafter(made, above) if compare(made, x) < 0 else made

    def toward_zero(x: Any) -> Any:
        made = target(x)
        order = compare(made, x)
        if (made > zero and order > 0) or (made < zero and order < 0):
            return np.nextafter(made, zero)
        return made

    return {"rn": nearest, "rd": down, "ru": up, "rz": toward_zero}[direction]


def bits_as(dtype: str) -> Callable[[Any], Any]:
    """Return the conversion that keeps the bits."""
    cast = operation("bitcast", scalars.EMITTERS["bitcast"], {"dtype": dtype})

    def convert(x: Any) -> Any:
        return cast(x)

    return convert


_to_long = operation("bitcast", scalars.EMITTERS["bitcast"], {"dtype": "int64"})
_to_double = operation("bitcast", scalars.EMITTERS["bitcast"], {"dtype": "float64"})


def low_word(x: Any) -> Any:
    return np.int32(_to_long(x))


def high_word(x: Any) -> Any:
    return np.int32(_to_long(x) >> 32)


def halves(high: Any, low: Any) -> Any:
    """Return the float64 with the bits of two halves."""
    return _to_double((np.int64(high) << 32) | (np.int64(low) & 0xFFFFFFFF))


# -- operations on integers -----------------------------------------------------------------------


def magnitude(x: Any) -> Any:
    """Return the absolute value; of the least number itself."""
    return -x if x < 0 else x


def smaller(x: Any, y: Any) -> Any:
    return x if x < y else y


def larger(x: Any, y: Any) -> Any:
    return x if x > y else y


def product_of_24_bits(x: Any, y: Any) -> Any:
    """Return the lower 32 bits of the product of two signed numbers of 24 bits."""
    return np.int32(((np.int64(x) << 40) >> 40) * ((np.int64(y) << 40) >> 40))


def product_of_24_unsigned_bits(x: Any, y: Any) -> Any:
    """Return the lower 32 bits of the product of two numbers of 24 bits."""
    return np.uint32((np.int64(x) & 0xFFFFFF) * (np.int64(y) & 0xFFFFFF))


def average(x: Any, y: Any) -> Any:
    """Return the mean, rounded down."""
    return (np.int64(x) + np.int64(y)) >> 1


def average_rounded_up(x: Any, y: Any) -> Any:
    """Return the mean, rounded up."""
    return (np.int64(x) + np.int64(y) + 1) >> 1


def sum_of_difference(x: Any, y: Any, z: Any) -> Any:
    """Return |x - y| + z, which wraps around."""
    return np.uint32(abs(np.int64(x) - np.int64(y)) + np.int64(z))


_OF_MATH = (
    "acos acosh asin asinh atan atanh cbrt cos cosh erf erfc exp exp2 expm1 fabs lgamma log log10 "
    "log1p log2 sin sinh sqrt tan tanh"
)
#: Functions of one number that Numba has for both precisions.
_COMMON: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in _OF_MATH.split()},
    "ceil": np.ceil,
    "floor": np.floor,
    "trunc": np.trunc,
    "nearbyint": np.rint,
    "rint": np.rint,
    "tgamma": math.gamma,
}
#: The same of two numbers.
_COMMON_OF_TWO: dict[str, Callable[..., Any]] = {
    "atan2": math.atan2,
    "copysign": math.copysign,
    "fmod": math.fmod,
    "hypot": math.hypot,
    "nextafter": np.nextafter,
    "pow": math.pow,
}
#: Functions of float64, which serve float32 too.
_DOUBLE: dict[str, Callable[..., Any]] = {
    "cospi": lambda x: functions.sincospi(x)[1],
    "cyl_bessel_i0": functions.i0,
    "cyl_bessel_i1": functions.i1,
    "erfcinv": functions.erfcinv,
    "erfcx": functions.erfcx,
    "erfinv": functions.erfinv,
    "exp10": lambda x: math.pow(10.0, x),
    "j0": of_one(functions.j0),
    "j1": of_one(functions.j1),
    "y0": of_one(functions.y0),
    "y1": of_one(functions.y1),
    "jn": functions.jn,
    "yn": functions.yn,
    "logb": functions.logb,
    "normcdf": functions.normcdf,
    "normcdfinv": functions.normcdfinv,
    "rcbrt": lambda x: 1.0 / math.cbrt(x),
    "round": of_one(functions.round_away),
    "rsqrt": lambda x: 1.0 / math.sqrt(x),
    "sinpi": lambda x: functions.sincospi(x)[0],
    "sincos": lambda x: (math.sin(x), math.cos(x)),
    "sincospi": functions.sincospi,
    "fdim": functions.fdim,
    "fmax": functions.larger,
    "fmin": functions.smaller,
    "remainder": of_two(functions.remainder),
    "remquo": functions.remquo,
    "rhypot": lambda a, b: functions.inverse_hypotenuse(a, b, 0.0, 0.0),
    "norm3d": lambda a, b, c: functions.hypotenuse(a, b, c, 0.0),
    "rnorm3d": lambda a, b, c: functions.inverse_hypotenuse(a, b, c, 0.0),
    "norm4d": functions.hypotenuse,
    "rnorm4d": functions.inverse_hypotenuse,
    "ldexp": of_two(math.ldexp),
    "scalbn": of_two(math.ldexp),
    "powi": functions.power_of_integer,
    "frexp": functions.fraction_and_exponent,
    "modf": of_one(math.modf),
}


def _of_both() -> dict[str, Emitter]:
    found: dict[str, Emitter] = {}
    for names, make in ((_COMMON, of_one), (_COMMON_OF_TWO, of_two)):
        for name, function in names.items():
            found[name] = found[f"{name}f"] = compiled(make(function))
    for name, function in _DOUBLE.items():
        found[name] = compiled(function)
        found[f"{name}f"] = widened(function)
    found["fma"] = found["fmaf"] = intrinsic("fma")
    return found


_SINGLE: dict[str, Emitter] = {
    "saturatef": widened(functions.saturate),
    "frsqrt_rn": widened(_DOUBLE["rsqrt"]),
    "fast_sinf": compiled(of_one(math.sin)),
    "fast_cosf": compiled(of_one(math.cos)),
    "fast_tanf": compiled(of_one(math.tan)),
    "fast_tanhf": compiled(of_one(math.tanh)),
    "fast_expf": compiled(of_one(math.exp)),
    "fast_exp10f": widened(_DOUBLE["exp10"]),
    "fast_logf": compiled(of_one(math.log)),
    "fast_log2f": compiled(of_one(math.log2)),
    "fast_log10f": compiled(of_one(math.log10)),
    "fast_powf": compiled(of_two(math.pow)),
    "fast_fdividef": compiled(lambda x, y: x / y),
    "fast_sincosf": compiled(_DOUBLE["sincos"]),
    "sincosf": compiled(_DOUBLE["sincos"]),
}
_INTEGERS: dict[str, Emitter] = {
    **{name: intrinsic(name) for name in ("brev", "clz", "ffs", "popc", "mulhi", "byte_perm")},
    **{f"{name}ll": intrinsic(name) for name in ("brev", "clz", "ffs", "popc")},
    **{name: intrinsic("mulhi") for name in ("umulhi", "mul64hi", "umul64hi")},
    **{name: compiled(magnitude) for name in ("abs", "llabs")},
    **{name: compiled(smaller) for name in ("min", "umin", "llmin", "ullmin")},
    **{name: compiled(larger) for name in ("max", "umax", "llmax", "ullmax")},
    **{name: compiled(average) for name in ("hadd", "uhadd")},
    **{name: compiled(average_rounded_up) for name in ("rhadd", "urhadd")},
    **{name: compiled(sum_of_difference) for name in ("sad", "usad")},
    "mul24": compiled(product_of_24_bits),
    "umul24": compiled(product_of_24_unsigned_bits),
}
_PARTS: dict[str, Emitter] = {
    **{name: compiled(lambda x: abs(x) < math.inf) for name in ("finitef", "isfinited")},
    **{name: compiled(lambda x: abs(x) == math.inf) for name in ("isinff", "isinfd")},
    **{name: compiled(lambda x: x != x) for name in ("isnanf", "isnand")},  # noqa: PLR0124
    **{name: compiled(lambda x: math.copysign(1.0, x) < 0) for name in ("signbitf", "signbitd")},
    **{f"ilogb{end}": widened(functions.exponent) for end in ("", "f")},
    "float_as_int": compiled(bits_as("int32")),
    "float_as_uint": compiled(bits_as("uint32")),
    "int_as_float": compiled(bits_as("float32")),
    "uint_as_float": compiled(bits_as("float32")),
    "longlong_as_double": compiled(bits_as("float64")),
    "double_as_longlong": compiled(bits_as("int64")),
    "double2loint": compiled(low_word),
    "double2hiint": compiled(high_word),
    "hiloint2double": compiled(halves),
    "float2half_rn": bits_of_half,
    "half2float": half_of_bits,
}


def _conversions() -> dict[str, Emitter]:
    integer = {"int": "int32", "uint": "uint32", "ll": "int64", "ull": "uint64"}
    float_of = {"float": "float32", "double": "float64"}
    found: dict[str, Emitter] = {}
    for direction in ("rn", "rz", "rd", "ru"):
        found[f"double2float_{direction}"] = compiled(to_float(direction, "float64", "float32"))
        for short, whole in integer.items():
            for name, kind in float_of.items():
                to, back = f"{name}2{short}_{direction}", f"{short}2{name}_{direction}"
                found[to] = compiled(to_integer(direction, kind, whole))
                if (short, name) not in (("int", "double"), ("uint", "double")):
                    found[back] = compiled(to_float(direction, whole, kind))
    for short in ("int", "uint"):  # always exact
        exact = to_float("rn", integer[short], "float64")
        found[f"{short}2double_rn"] = compiled(exact)
    nearest = to_integer("rn", "float64", "int64")
    found["llrint"], found["llrintf"] = compiled(nearest), widened(nearest)
    away = to_integer("away", "float64", "int64")
    found["llround"], found["llroundf"] = compiled(away), widened(away)
    return found


def _nearest() -> dict[str, Emitter]:
    """Return the operations that round as all do."""
    of_precision = {
        "add": compiled(lambda x, y: x + y),
        "sub": compiled(lambda x, y: x - y),
        "mul": compiled(lambda x, y: x * y),
        "div": compiled(lambda x, y: x / y),
        "sqrt": compiled(of_one(math.sqrt)),
    }
    return {
        **{f"{p}{name}_rn": emit for name, emit in of_precision.items() for p in "fd"},
        "frcp_rn": compiled(lambda x: np.float32(1) / x),
        "drcp_rn": compiled(lambda x: 1.0 / x),
        "fmaf_rn": intrinsic("fma"),
        "fma_rn": intrinsic("fma"),
    }


#: Name of each function that has a meaning, as ``libdevice.sinpi``, to what writes it.
MEANINGS: dict[str, Emitter] = {
    f"libdevice.{name}": emitter
    for name, emitter in {
        **_of_both(),
        **_SINGLE,
        **_INTEGERS,
        **_PARTS,
        **_conversions(),
        **_nearest(),
    }.items()
}
