"""Declare the functions of NVIDIA's libdevice by their own names, ``kd.libdevice.rhypotf``.

The names are numba.cuda's: NVIDIA's without ``__nv_``. Values that a function writes through
pointers are returned after its result, as in ``frexp``. ``nan``, ``norm`` and ``rnorm``, which read
through a pointer, are left out.

References
----------
NVIDIA, "libdevice User's Guide", section "Function Reference"; CUDA Math API.
"""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Intrinsic, IntrinsicGroup, Typing

__all__ = ["FUNCTIONS", "libdevice"]

_HALF, _SINGLE, _DOUBLE = "int16", "float32", "float64"
_INT, _UINT, _LONG, _ULONG = "int32", "uint32", "int64", "uint64"
_DIRECTIONS = ("rn", "rz", "rd", "ru")
#: Parameters by how many there are.
_PARAMETERS = ("x", "y", "z", "w")

#: Names in both precisions (single precision adds ``f``), by the number of arguments.
_OF_BOTH = {
    1: (
        "acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 "
        "erf erfc erfcinv erfcx erfinv exp exp10 exp2 expm1 fabs floor j0 j1 lgamma log log10 "
        "log1p log2 logb nearbyint normcdf normcdfinv rcbrt rint round rsqrt sin sinh sinpi sqrt "
        "tan tanh tgamma trunc y0 y1"
    ),
    2: "atan2 copysign fdim fmax fmin fmod hypot nextafter pow remainder rhypot",
    3: "fma norm3d rnorm3d",
    4: "norm4d rnorm4d",
}

#: Result and argument types of other names.
_OTHERS: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...] = (
    ((_INT,), (_INT,), "abs brev clz ffs popc"),
    ((_LONG,), (_LONG,), "llabs brevll"),
    ((_INT,), (_LONG,), "clzll ffsll popcll"),
    ((_INT,), (_INT, _INT), "min max mulhi mul24 hadd rhadd"),
    ((_UINT,), (_UINT, _UINT), "umin umax umulhi umul24 uhadd urhadd"),
    ((_LONG,), (_LONG, _LONG), "llmin llmax mul64hi"),
    ((_ULONG,), (_ULONG, _ULONG), "ullmin ullmax umul64hi"),
    ((_UINT,), (_INT, _INT, _UINT), "sad"),
    ((_UINT,), (_UINT, _UINT, _UINT), "usad byte_perm"),
    (
        (_SINGLE,),
        (_SINGLE,),
        "saturatef fast_sinf fast_cosf fast_tanf fast_tanhf fast_expf fast_exp10f fast_logf "
        "fast_log2f fast_log10f frsqrt_rn",
    ),
    ((_SINGLE,), (_SINGLE, _SINGLE), "fast_fdividef fast_powf"),
    ((_SINGLE, _SINGLE), (_SINGLE,), "sincosf sincospif fast_sincosf modff"),
    ((_DOUBLE, _DOUBLE), (_DOUBLE,), "sincos sincospi modf"),
    ((_SINGLE, _INT), (_SINGLE,), "frexpf"),
    ((_DOUBLE, _INT), (_DOUBLE,), "frexp"),
    ((_SINGLE, _INT), (_SINGLE, _SINGLE), "remquof"),
    ((_DOUBLE, _INT), (_DOUBLE, _DOUBLE), "remquo"),
    ((_SINGLE,), (_SINGLE, _INT), "ldexpf scalbnf powif"),
    ((_DOUBLE,), (_DOUBLE, _INT), "ldexp scalbn powi"),
    ((_SINGLE,), (_INT, _SINGLE), "jnf ynf"),
    ((_DOUBLE,), (_INT, _DOUBLE), "jn yn"),
    ((_INT,), (_SINGLE,), "finitef isinff isnanf signbitf ilogbf float_as_int"),
    ((_INT,), (_DOUBLE,), "isfinited isinfd isnand signbitd ilogb double2loint double2hiint"),
    ((_LONG,), (_SINGLE,), "llrintf llroundf"),
    ((_LONG,), (_DOUBLE,), "llrint llround double_as_longlong"),
    ((_UINT,), (_SINGLE,), "float_as_uint"),
    ((_SINGLE,), (_INT,), "int_as_float"),
    ((_SINGLE,), (_UINT,), "uint_as_float"),
    ((_DOUBLE,), (_LONG,), "longlong_as_double"),
    ((_DOUBLE,), (_INT, _INT), "hiloint2double"),
    ((_DOUBLE,), (_INT,), "int2double_rn"),
    ((_DOUBLE,), (_UINT,), "uint2double_rn"),
    ((_HALF,), (_SINGLE,), "float2half_rn"),
    ((_SINGLE,), (_HALF,), "half2float"),
)

#: Names with a suffix for each direction of rounding: types, and the number of operands.
_ROUNDED = {
    **{f"f{name}": ((_SINGLE,), 2) for name in ("add", "sub", "mul", "div")},
    **{f"d{name}": ((_DOUBLE,), 2) for name in ("add", "sub", "mul", "div")},
    **{f"f{name}": ((_SINGLE,), 1) for name in ("rcp", "sqrt")},
    **{f"d{name}": ((_DOUBLE,), 1) for name in ("rcp", "sqrt")},
    "fmaf": ((_SINGLE,), 3),
    "fma": ((_DOUBLE,), 3),
}
#: Replacements on targets that only round to nearest.
_INSTEAD = {
    "add": "x + y",
    "sub": "x - y",
    "mul": "x * y",
    "div": "x / y",
    "rcp": "1 / x",
    "sqrt": "math.sqrt(x)",
    "fma": "kd.fma(x, y, z)",
    "fmaf": "kd.fma(x, y, z)",
}
_INTEGERS = {"int": _INT, "uint": _UINT, "ll": _LONG, "ull": _ULONG}


def _row(
    name: str, results: tuple[str, ...], arguments: tuple[str, ...], instead: str = ""
) -> Intrinsic:
    shown = results[0] if len(results) == 1 else f"({', '.join(results)})"
    return Intrinsic(
        f"libdevice.{name}",
        f"Call NVIDIA's `__nv_{name}`: ({', '.join(arguments)}) -> {shown}.",
        Typing.DECLARED,
        _PARAMETERS[: len(arguments)],
        argument_dtypes=arguments,
        result_dtypes=results,
        instead=instead,
    )


def _rows() -> list[Intrinsic]:
    rows = [
        _row(name + end, (kind,), (kind,) * count)
        for count, names in _OF_BOTH.items()
        for name in names.split()
        for end, kind in (("", _DOUBLE), ("f", _SINGLE))
    ]
    for results, arguments, names in _OTHERS:
        rows += [_row(name, results, arguments) for name in names.split()]
    for name, (operands, count) in _ROUNDED.items():
        operation = name if name in _INSTEAD else name[1:]
        for direction in _DIRECTIONS:
            instead = "" if direction == "rn" else _INSTEAD[operation]
            rows.append(_row(f"{name}_{direction}", operands, operands * count, instead))
    for direction in _DIRECTIONS:
        for name, kind in _INTEGERS.items():
            rows += [
                _row(f"float2{name}_{direction}", (kind,), (_SINGLE,)),
                _row(f"double2{name}_{direction}", (kind,), (_DOUBLE,)),
                _row(f"{name}2float_{direction}", (_SINGLE,), (kind,)),
            ]
        rows += [
            _row(f"ll2double_{direction}", (_DOUBLE,), (_LONG,)),
            _row(f"ull2double_{direction}", (_DOUBLE,), (_ULONG,)),
            _row(f"double2float_{direction}", (_SINGLE,), (_DOUBLE,)),
        ]
    return rows


#: Every function by its dotted name.
FUNCTIONS: dict[str, Intrinsic] = {row.name: row for row in sorted(_rows(), key=lambda r: r.name)}


class _Libdevice(IntrinsicGroup):
    """``kd.libdevice``; its error messages do not list the hundreds of members."""

    def __getattr__(self, name: str) -> Intrinsic:
        found = FUNCTIONS.get(f"libdevice.{name}")
        if found is not None:
            return found
        from kerneldsl.language.other_names import closest_name

        near = closest_name(name.removeprefix("__nv_"), dir(self))
        raise AttributeError(
            f"kerneldsl.libdevice has no member {name!r}"
            + (f"; the closest name is {near!r}" if near else "; dir(kd.libdevice) lists them")
        )


libdevice = _Libdevice("libdevice", {name.partition(".")[2]: f for name, f in FUNCTIONS.items()})
