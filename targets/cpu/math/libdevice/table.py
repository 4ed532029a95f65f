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
from functools import partial
from typing import Any

import numpy as np
from numba.extending import register_jitable

from kerneldsl.language.element_types import ELEMENT_TYPES, numpy_dtype
from kerneldsl.lowering.calls import Emitter
from targets.cpu.math.libdevice import functions
from targets.cpu.math.libdevice.emitters import (
    bits_of_half,
    compiled,
    double_of_words,
    half_of_bits,
    intrinsic,
    same_bits,
    widened,
    word_of_double,
)

__all__ = ["MEANINGS"]


# A number that is too large for an integer saturates. A NaN becomes 0, or in conversions of or to
# 64 bits the number with the highest bit alone.


_ROUNDINGS: dict[str, Callable[[Any], Any]] = {
    "rn": np.rint,
    "rz": np.trunc,
    "rd": np.floor,
    "ru": np.ceil,
    "away": functions.round_away,
}


def to_integer(direction: str, source: str, target: str) -> Callable[[Any], Any]:
    """Return the conversion of a float to an integer."""
    kind, rounded = numpy_dtype(target).type, _ROUNDINGS[direction]
    bits = np.iinfo(kind).bits
    is_long = source == "float64" or bits == 64
    of_nan = kind(1) << kind(bits - 1) if is_long else kind(0)

    def convert(x: Any) -> Any:
        return of_nan if math.isnan(x) else kind(rounded(x))

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


#: Limits towards which numbers are rounded.
_LIMITS = {"rd": -math.inf, "ru": math.inf, "rz": 0.0}


def to_float(direction: str, source_name: str, target_name: str) -> Callable[[Any], Any]:
    """Return the conversion of an integer, or of a wider float, to a float."""
    source, target = (numpy_dtype(each).type for each in (source_name, target_name))
    if direction == "rn":
        return target
    compare, limit = register_jitable(_is_above(source)), target(_LIMITS[direction])

    def convert(x: Any) -> Any:
        made = target(x)
        order = compare(made, x)
        if (order > 0 and made > limit) or (order < 0 and made < limit):
            return np.nextafter(made, limit)
        return made

    return convert


_OF_MATH = (
    "acos acosh asin asinh atan atan2 atanh cbrt copysign cos cosh erf erfc exp exp2 expm1 fabs "
    "fmod hypot lgamma log log10 log1p log2 pow sin sinh sqrt tan tanh"
)
#: Functions that Numba has for both precisions.
_COMMON: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in _OF_MATH.split()},
    "ceil": np.ceil,
    "floor": np.floor,
    "trunc": np.trunc,
    "nearbyint": np.rint,
    "nextafter": np.nextafter,
    "rint": np.rint,
    "tgamma": math.gamma,
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
    "j0": functions.j0,
    "j1": functions.j1,
    "y0": functions.y0,
    "y1": functions.y1,
    "jn": functions.jn,
    "yn": functions.yn,
    "logb": functions.logb,
    "normcdf": functions.normcdf,
    "normcdfinv": functions.normcdfinv,
    "rcbrt": lambda x: 1.0 / math.cbrt(x),
    "round": functions.round_away,
    "rsqrt": lambda x: 1.0 / math.sqrt(x),
    "sinpi": lambda x: functions.sincospi(x)[0],
    "sincos": lambda x: (math.sin(x), math.cos(x)),
    "sincospi": functions.sincospi,
    "fdim": functions.fdim,
    "fmax": functions.larger,
    "fmin": functions.smaller,
    "remainder": functions.remainder,
    "remquo": functions.remquo,
    "rhypot": lambda a, b: functions.inverse_hypotenuse(a, b, 0.0, 0.0),
    "norm3d": lambda a, b, c: functions.hypotenuse(a, b, c, 0.0),
    "rnorm3d": lambda a, b, c: functions.inverse_hypotenuse(a, b, c, 0.0),
    "norm4d": functions.hypotenuse,
    "rnorm4d": functions.inverse_hypotenuse,
    "ldexp": math.ldexp,
    "scalbn": math.ldexp,
    "powi": functions.power_of_integer,
    "frexp": functions.fraction_and_exponent,
    "modf": math.modf,
}


def _of_both() -> dict[str, Emitter]:
    found: dict[str, Emitter] = {}
    for name, function in _COMMON.items():
        found[name] = found[f"{name}f"] = compiled(function)
    for name, function in _DOUBLE.items():
        found[name] = compiled(function)
        found[f"{name}f"] = widened(function)
    found["fma"] = found["fmaf"] = intrinsic("fma")
    return found


_SINGLE: dict[str, Emitter] = {
    "saturatef": widened(functions.saturate),
    "frsqrt_rn": widened(_DOUBLE["rsqrt"]),
    **{
        f"fast_{name}f": compiled(getattr(math, name))
        for name in ("sin", "cos", "tan", "tanh", "exp", "log", "log2", "log10", "pow")
    },
    "fast_exp10f": widened(_DOUBLE["exp10"]),
    "fast_fdividef": compiled(lambda x, y: x / y),
    "fast_sincosf": compiled(_DOUBLE["sincos"]),
    "sincosf": compiled(_DOUBLE["sincos"]),
}
_INTEGERS: dict[str, Emitter] = {
    **{name: intrinsic(name) for name in ("brev", "clz", "ffs", "popc", "mulhi", "byte_perm")},
    **{f"{name}ll": intrinsic(name) for name in ("brev", "clz", "ffs", "popc")},
    **{name: intrinsic("mulhi") for name in ("umulhi", "mul64hi", "umul64hi")},
    **{name: compiled(lambda x: -x if x < 0 else x) for name in ("abs", "llabs")},
    **{f"{kind}min": compiled(lambda x, y: x if x < y else y) for kind in ("", "u", "ll", "ull")},
    **{f"{kind}max": compiled(lambda x, y: x if x > y else y) for kind in ("", "u", "ll", "ull")},
    # Means, rounded down and up, and |x - y| + z, which wraps around.
    **{name: compiled(lambda x, y: (np.int64(x) + np.int64(y)) >> 1) for name in ("hadd", "uhadd")},
    **{
        name: compiled(lambda x, y: (np.int64(x) + np.int64(y) + 1) >> 1)
        for name in ("rhadd", "urhadd")
    },
    **{
        name: compiled(lambda x, y, z: np.uint32(abs(np.int64(x) - np.int64(y)) + np.int64(z)))
        for name in ("sad", "usad")
    },
    # The lower 32 bits of a product of two numbers of 24 bits.
    "mul24": compiled(
        lambda x, y: np.int32(((np.int64(x) << 40) >> 40) * ((np.int64(y) << 40) >> 40))
    ),
    "umul24": compiled(lambda x, y: np.uint32((np.int64(x) & 0xFFFFFF) * (np.int64(y) & 0xFFFFFF))),
}
_PARTS: dict[str, Emitter] = {
    **{name: compiled(lambda x: abs(x) < math.inf) for name in ("finitef", "isfinited")},
    **{name: compiled(lambda x: abs(x) == math.inf) for name in ("isinff", "isinfd")},
    **{name: compiled(lambda x: x != x) for name in ("isnanf", "isnand")},  # noqa: PLR0124
    **{name: compiled(lambda x: math.copysign(1.0, x) < 0) for name in ("signbitf", "signbitd")},
    **{f"ilogb{end}": widened(functions.exponent) for end in ("", "f")},
    **dict.fromkeys(("float_as_int", "float_as_uint", "int_as_float", "uint_as_float"), same_bits),
    **dict.fromkeys(("longlong_as_double", "double_as_longlong"), same_bits),
    "double2loint": partial(word_of_double, 0),
    "double2hiint": partial(word_of_double, 32),
    "hiloint2double": double_of_words,
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
        "sqrt": compiled(math.sqrt),
    }
    return {
        **{f"{p}{name}_rn": emit for name, emit in of_precision.items() for p in "fd"},
        "frcp_rn": compiled(lambda x: np.float32(1) / x),
        "drcp_rn": compiled(lambda x: 1.0 / x),
        "fmaf_rn": intrinsic("fma"),
        "fma_rn": intrinsic("fma"),
    }


#: Emitters of functions with a meaning, by name, such as ``libdevice.sinpi``.
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
