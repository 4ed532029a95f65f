"""What libdevice functions give: of real numbers with 40 digits, of integers by whole numbers.

References
----------
CUDA Math API; PTX ISA, section "cvt", for numbers that an integer type does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from tests.support.scalars import fused

__all__ = ["EXACT", "NARROWED", "REAL", "real", "rounded"]


def _larger(x: Any, y: Any) -> Any:
    """Return the larger number, of which 0 is larger than -0."""
    return np.where((x == 0) & (y == 0), x + y, np.fmax(x, y))


def _bits_of_half(x: Any) -> Any:
    return np.where(np.isnan(x), np.int16(0x7FFF), np.float16(x).view(np.int16))


def _logarithm(base: int) -> Callable[[Any], Any]:
    return lambda x: mpmath.log(x) / mpmath.log(base)


def _root(*values: Any) -> Any:
    return mpmath.sqrt(sum(value * value for value in values))


_OF_MPMATH = (
    "acos acosh asin asinh atan atanh cos cosh erf erfc erfinv exp expm1 log log1p sin sinh tan "
    "tanh cospi sinpi sqrt atan2 hypot"
)
#: Name of each function of real numbers, without the ``f`` of single precision, to its definition.
REAL: dict[str, Callable[..., Any]] = {
    **{name: getattr(mpmath, name) for name in _OF_MPMATH.split()},
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "exp10": lambda x: mpmath.power(10, x),
    "exp2": lambda x: mpmath.power(2, x),
    "log2": _logarithm(2),
    "log10": _logarithm(10),
    "lgamma": mpmath.loggamma,
    "tgamma": mpmath.gamma,
    "pow": mpmath.power,
    "erfcinv": lambda x: mpmath.erfinv(1 - x),
    "erfcx": lambda x: mpmath.exp(x * x) * mpmath.erfc(x),
    "normcdf": mpmath.ncdf,
    "normcdfinv": lambda x: mpmath.sqrt(2) * mpmath.erfinv(2 * x - 1),
    "rcbrt": lambda x: 1 / mpmath.cbrt(x),
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "rhypot": lambda *v: 1 / _root(*v),
    "norm3d": _root,
    "norm4d": _root,
    "rnorm3d": lambda *v: 1 / _root(*v),
    "rnorm4d": lambda *v: 1 / _root(*v),
    "cyl_bessel_i0": lambda x: mpmath.besseli(0, x),
    "cyl_bessel_i1": lambda x: mpmath.besseli(1, x),
    **{f"j{n}": lambda x, n=n: mpmath.besselj(n, x) for n in (0, 1)},
    **{f"y{n}": lambda x, n=n: mpmath.bessely(n, x) for n in (0, 1)},
    "jn": mpmath.besselj,
    "yn": mpmath.bessely,
    "sincos": lambda x: (mpmath.sin(x), mpmath.cos(x)),
    "sincospi": lambda x: (mpmath.sinpi(x), mpmath.cospi(x)),
    "powi": mpmath.power,
    "fdividef": lambda x, y: x / y,
    "frsqrt_rn": lambda x: 1 / mpmath.sqrt(x),
}


def real(name: str) -> Callable[..., Any]:
    """Return a function of arrays that gives long doubles."""
    base = name.removeprefix("fast_")
    base = base if base in REAL else base.removesuffix("f")
    definition = REAL[base]

    def reference(*arrays: np.ndarray) -> Any:
        with mpmath.workdps(40):
            found = [
                definition(
                    *(int(v) if isinstance(v, np.integer) else mpmath.mpf(float(v)) for v in values)
                )
                for values in zip(*(a.ravel() for a in arrays), strict=True)
            ]
            rows = found if isinstance(found[0], tuple) else [(each,) for each in found]
            texts = [
                [mpmath.nstr(mpmath.re(v), 30) for v in column]
                for column in zip(*rows, strict=False)
            ]
        shape = arrays[0].shape
        made = [np.array([np.longdouble(t) for t in column]).reshape(shape) for column in texts]
        return tuple(made) if len(made) > 1 else made[0]

    return reference


_INTEGER = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}
_FLOAT = {"float": np.float32, "double": np.float64}


def rounded(exact: Fraction, kind: Any, direction: str) -> Any:
    """Return the float next to a number in a direction, or the nearest one."""
    near = kind(float(exact))
    around = [near, np.nextafter(near, kind(-np.inf)), np.nextafter(near, kind(np.inf))]
    finite = [value for value in around if np.isfinite(value)]
    below = max(value for value in finite if Fraction(float(value)) <= exact)
    above = min(value for value in finite if Fraction(float(value)) >= exact)
    if direction == "rz":
        direction = "rd" if exact >= 0 else "ru"
    if direction != "rn":
        return below if direction == "rd" else above
    distances = [abs(Fraction(float(value)) - exact) for value in (below, above)]
    if distances[0] == distances[1]:
        return below if not below.view(f"i{below.itemsize}") & 1 else above
    return below if distances[0] < distances[1] else above


def _to_integer(x: Any, kind: Any, direction: str) -> Any:
    limits = np.iinfo(kind)
    if np.isnan(x):
        is_long = x.dtype == np.float64 or limits.bits == 64
        return kind(0 if not is_long else limits.min or 1 << (limits.bits - 1))
    if np.isinf(x):
        return kind(limits.max if x > 0 else limits.min)
    value = float(x)
    ways = {"rn": round, "rz": math.trunc, "rd": math.floor, "ru": math.ceil, "away": _away}
    return kind(min(max(ways[direction](value), limits.min), limits.max))


def _away(value: float) -> int:
    return int(math.copysign(math.floor(abs(Fraction(value)) + Fraction(1, 2)), value))


def _bits(value: Any, width: int = 32) -> int:
    return int(value) & ((1 << width) - 1)


def _short(value: Any) -> int:
    """Return the lowest 24 bits as a signed number."""
    return ((int(value) & 0xFFFFFF) ^ 0x800000) - 0x800000


def _logb(x: Any) -> Any:
    if x == 0:
        return type(x)(-np.inf)
    return abs(x) if np.isinf(x) or np.isnan(x) else type(x)(np.frexp(x)[1] - 1)


def _ilogb(x: Any) -> Any:
    if x == 0 or np.isnan(x):
        return -(1 << 31)
    return (1 << 31) - 1 if np.isinf(x) else int(np.frexp(x)[1]) - 1


def _modf(x: Any) -> tuple[Any, Any]:
    whole = np.trunc(x)
    return np.copysign(type(x)(0) if np.isinf(x) else x - whole, x), whole


def _frexp(x: Any) -> tuple[Any, Any]:
    if x == 0 or not np.isfinite(x):
        return x, 0
    return np.frexp(x)


def _remquo(x: Any, y: Any) -> tuple[Any, Any]:
    count = round(Fraction(float(x)) / Fraction(float(y)))
    return type(x)(math.remainder(x, y)), int(math.copysign(abs(count) & 7, count))


def _remainder(x: Any, y: Any) -> Any:
    return type(x)(math.remainder(x, y))


#: Functions whose every bit is defined, of NumPy's numbers.
EXACT: dict[str, Callable[..., Any]] = {
    "abs": lambda x: abs(int(x)),
    "clz": lambda x: 32 - _bits(x).bit_length(),
    "clzll": lambda x: 64 - _bits(x, 64).bit_length(),
    "popc": lambda x: _bits(x).bit_count(),
    "popcll": lambda x: _bits(x, 64).bit_count(),
    "ffs": lambda x: (_bits(x) & -_bits(x)).bit_length(),
    "ffsll": lambda x: (_bits(x, 64) & -_bits(x, 64)).bit_length(),
    "brev": lambda x: int(f"{_bits(x):032b}"[::-1], 2),
    "brevll": lambda x: int(f"{_bits(x, 64):064b}"[::-1], 2),
    "llabs": lambda x: abs(int(x)),
    **dict.fromkeys(("min", "umin", "llmin", "ullmin"), min),
    **dict.fromkeys(("max", "umax", "llmax", "ullmax"), max),
    **{name: lambda x, y: int(x) * int(y) >> 32 for name in ("mulhi", "umulhi")},
    **{name: lambda x, y: int(x) * int(y) >> 64 for name in ("mul64hi", "umul64hi")},
    "mul24": lambda x, y: _short(x) * _short(y),
    "umul24": lambda x, y: (int(x) & 0xFFFFFF) * (int(y) & 0xFFFFFF),
    **{name: lambda x, y: (int(x) + int(y)) >> 1 for name in ("hadd", "uhadd")},
    **{name: lambda x, y: (int(x) + int(y) + 1) >> 1 for name in ("rhadd", "urhadd")},
    **{name: lambda x, y, z: abs(int(x) - int(y)) + int(z) for name in ("sad", "usad")},
    "byte_perm": lambda x, y, z: int.from_bytes(
        bytes((_bits(x) | _bits(y) << 32) >> 8 * (int(z) >> 4 * k & 7) & 0xFF for k in range(4)),
        "little",
    ),
    "saturatef": lambda x: 0 if not x > 0 else min(x, 1),
    **dict.fromkeys(("finitef", "isfinited"), np.isfinite),
    **dict.fromkeys(("isinff", "isinfd"), np.isinf),
    **dict.fromkeys(("isnanf", "isnand"), np.isnan),
    **dict.fromkeys(("signbitf", "signbitd"), np.signbit),
    **{name: lambda x: x.view(np.int32) for name in ("float_as_int",)},
    "float_as_uint": lambda x: x.view(np.uint32),
    "int_as_float": lambda x: x.view(np.float32),
    "uint_as_float": lambda x: x.view(np.float32),
    "double_as_longlong": lambda x: x.view(np.int64),
    "longlong_as_double": lambda x: x.view(np.float64),
    "double2loint": lambda x: _bits(x.view(np.int64)),
    "double2hiint": lambda x: x.view(np.int64) >> 32,
    "hiloint2double": lambda x, y: np.uint64(_bits(x) << 32 | _bits(y)).view(np.float64),
    "float2half_rn": _bits_of_half,
    "half2float": lambda x: np.float32(x.view(np.float16)),
    **{f"llrint{f}": lambda x: _to_integer(x, np.int64, "rn") for f in ("", "f")},
    **{f"llround{f}": lambda x: _to_integer(x, np.int64, "away") for f in ("", "f")},
    **{f"ilogb{f}": _ilogb for f in ("", "f")},
    **{f"logb{f}": _logb for f in ("", "f")},
    **{f"ceil{f}": np.ceil for f in ("", "f")},
    **{f"floor{f}": np.floor for f in ("", "f")},
    **{f"trunc{f}": np.trunc for f in ("", "f")},
    **{f"fabs{f}": np.fabs for f in ("", "f")},
    **{f"{name}{f}": np.rint for name in ("rint", "nearbyint") for f in ("", "f")},
    **{
        f"round{f}": lambda x: np.copysign(np.floor(np.longdouble(abs(x)) + 0.5), x)
        for f in ("", "f")
    },
    **{f"modf{f}": _modf for f in ("", "f")},
    **{f"frexp{f}": _frexp for f in ("", "f")},
    **{f"copysign{f}": np.copysign for f in ("", "f")},
    **{f"fdim{f}": lambda x, y: x - y if not x <= y else 0 for f in ("", "f")},
    **{f"fmax{f}": _larger for f in ("", "f")},
    **{f"fmin{f}": lambda x, y: -_larger(-x, -y) for f in ("", "f")},
    **{f"fmod{f}": np.fmod for f in ("", "f")},
    **{f"nextafter{f}": np.nextafter for f in ("", "f")},
    **{f"remainder{f}": _remainder for f in ("", "f")},
    **{f"remquo{f}": _remquo for f in ("", "f")},
    **{
        f"{name}{f}": lambda x, n: np.ldexp(x, n) for name in ("ldexp", "scalbn") for f in ("", "f")
    },
    **{f"{p}add_rn": lambda x, y: x + y for p in "fd"},
    **{f"{p}sub_rn": lambda x, y: x - y for p in "fd"},
    **{f"{p}mul_rn": lambda x, y: x * y for p in "fd"},
    **{f"{p}div_rn": lambda x, y: x / y for p in "fd"},
    **{f"{p}rcp_rn": lambda x: 1 / x for p in "fd"},
    **{f"{p}sqrt_rn": np.sqrt for p in "fd"},
    **{name: lambda *v: fused(*v, type(v[0])) for name in ("fma", "fmaf", "fma_rn", "fmaf_rn")},
    **{
        f"{short}2{whole}_{way}": lambda x, k=kind, w=way: _to_integer(x, k, w)
        for short in _FLOAT
        for whole, kind in _INTEGER.items()
        for way in ("rn", "rz", "rd", "ru")
    },
    **{
        f"{whole}2{short}_{way}": lambda x, k=kind, w=way: rounded(Fraction(int(x)), k, w)
        for short, kind in _FLOAT.items()
        for whole in _INTEGER
        for way in ("rn", "rz", "rd", "ru")
    },
}

#: Conversions to float32 by each direction of rounding.
NARROWED: dict[str, Callable[..., Any]] = {
    f"double2float_{way}": lambda x, w=way: rounded(Fraction(float(x)), np.float32, w)
    for way in ("rn", "rz", "rd", "ru")
}
