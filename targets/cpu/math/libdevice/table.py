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

from kerneldsl.lowering.calls import Emitter
from targets.cpu.math.libdevice import conversions, elementary, special
from targets.cpu.math.libdevice.emitters import (
    bits_of_half,
    compiled,
    half_of_bits,
    intrinsic,
    of_one,
    of_two,
    widened,
)

__all__ = ["MEANINGS"]


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
    "cospi": lambda x: elementary.sincospi(x)[1],
    "cyl_bessel_i0": special.i0,
    "cyl_bessel_i1": special.i1,
    "erfcinv": special.erfcinv,
    "erfcx": special.erfcx,
    "erfinv": special.erfinv,
    "exp10": lambda x: math.pow(10.0, x),
    "j0": of_one(special.j0),
    "j1": of_one(special.j1),
    "y0": of_one(special.y0),
    "y1": of_one(special.y1),
    "jn": special.jn,
    "yn": special.yn,
    "logb": elementary.logb,
    "normcdf": special.normcdf,
    "normcdfinv": special.normcdfinv,
    "rcbrt": lambda x: 1.0 / math.cbrt(x),
    "round": of_one(elementary.round_away),
    "rsqrt": lambda x: 1.0 / math.sqrt(x),
    "sinpi": lambda x: elementary.sincospi(x)[0],
    "sincos": lambda x: (math.sin(x), math.cos(x)),
    "sincospi": elementary.sincospi,
    "fdim": elementary.fdim,
    "fmax": elementary.larger,
    "fmin": elementary.smaller,
    "remainder": of_two(elementary.remainder),
    "remquo": elementary.remquo,
    "rhypot": lambda a, b: elementary.inverse_hypotenuse(a, b, 0.0, 0.0),
    "norm3d": lambda a, b, c: elementary.hypotenuse(a, b, c, 0.0),
    "rnorm3d": lambda a, b, c: elementary.inverse_hypotenuse(a, b, c, 0.0),
    "norm4d": elementary.hypotenuse,
    "rnorm4d": elementary.inverse_hypotenuse,
    "ldexp": of_two(math.ldexp),
    "scalbn": of_two(math.ldexp),
    "powi": elementary.power_of_integer,
    "frexp": elementary.fraction_and_exponent,
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
    "saturatef": widened(elementary.saturate),
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
    **{name: compiled(conversions.magnitude) for name in ("abs", "llabs")},
    **{name: compiled(conversions.smaller) for name in ("min", "umin", "llmin", "ullmin")},
    **{name: compiled(conversions.larger) for name in ("max", "umax", "llmax", "ullmax")},
    **{name: compiled(conversions.average) for name in ("hadd", "uhadd")},
    **{name: compiled(conversions.average_rounded_up) for name in ("rhadd", "urhadd")},
    **{name: compiled(conversions.sum_of_difference) for name in ("sad", "usad")},
    "mul24": compiled(conversions.product_of_24_bits),
    "umul24": compiled(conversions.product_of_24_unsigned_bits),
}
_PARTS: dict[str, Emitter] = {
    **{name: compiled(lambda x: abs(x) < math.inf) for name in ("finitef", "isfinited")},
    **{name: compiled(lambda x: abs(x) == math.inf) for name in ("isinff", "isinfd")},
    **{name: compiled(lambda x: x != x) for name in ("isnanf", "isnand")},  # noqa: PLR0124
    **{name: compiled(lambda x: math.copysign(1.0, x) < 0) for name in ("signbitf", "signbitd")},
    **{f"ilogb{end}": widened(elementary.exponent) for end in ("", "f")},
    "float_as_int": compiled(conversions.bits_as("int32")),
    "float_as_uint": compiled(conversions.bits_as("uint32")),
    "int_as_float": compiled(conversions.bits_as("float32")),
    "uint_as_float": compiled(conversions.bits_as("float32")),
    "longlong_as_double": compiled(conversions.bits_as("float64")),
    "double_as_longlong": compiled(conversions.bits_as("int64")),
    "double2loint": compiled(conversions.low_word),
    "double2hiint": compiled(conversions.high_word),
    "hiloint2double": compiled(conversions.halves),
    "float2half_rn": bits_of_half,
    "half2float": half_of_bits,
}


def _conversions() -> dict[str, Emitter]:
    integer = {"int": "int32", "uint": "uint32", "ll": "int64", "ull": "uint64"}
    float_of = {"float": "float32", "double": "float64"}
    found: dict[str, Emitter] = {}
    for direction in ("rn", "rz", "rd", "ru"):
        found[f"double2float_{direction}"] = compiled(conversions.to_single(direction))
        for short, whole in integer.items():
            for name, kind in float_of.items():
                to, back = f"{name}2{short}_{direction}", f"{short}2{name}_{direction}"
                found[to] = compiled(conversions.to_integer(direction, kind, whole))
                if (short, name) not in (("int", "double"), ("uint", "double")):
                    found[back] = compiled(conversions.from_integer(direction, whole, kind))
    for short in ("int", "uint"):  # always exact
        exact = conversions.from_integer("rn", integer[short], "float64")
        found[f"{short}2double_rn"] = compiled(exact)
    nearest = conversions.to_integer("rn", "float64", "int64")
    found["llrint"], found["llrintf"] = compiled(nearest), widened(nearest)
    away = conversions.to_integer("away", "float64", "int64")
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
