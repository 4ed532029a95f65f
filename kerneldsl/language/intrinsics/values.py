"""Declare what is computed from one thread's values alone.

References
----------
CUDA Math API, sections "Integer Intrinsics" and "Type Casting Intrinsics"; PTX ISA, sections "shf",
"prmt", "dp4a" and "nanosleep".
"""

from __future__ import annotations

from kerneldsl.language.intrinsics import host_values
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Scope, Typing

__all__ = [
    "bitcast",
    "brev",
    "byte_perm",
    "cbrt",
    "clz",
    "dot4",
    "ffs",
    "fma",
    "funnelshift_l",
    "funnelshift_lc",
    "funnelshift_r",
    "funnelshift_rc",
    "mulhi",
    "nanosleep",
    "popc",
    "rsqrt",
    "selp",
    "uniform",
]


popc = Intrinsic("popc", "The number of bits of `value` that are 1.", Typing.BITS, ("value",))
clz = Intrinsic(
    "clz",
    "The number of bits of `value` that are 0 above its highest 1: its width for 0.",
    Typing.BITS,
    ("value",),
)
ffs = Intrinsic(
    "ffs",
    "The position of the lowest bit of `value` that is 1, counted from 1; 0 for 0.",
    Typing.BIT_POSITION,
    ("value",),
)
brev = Intrinsic(
    "brev", "The 32 or 64 bits of `value` in reversed order.", Typing.BIT_STRING, ("value",)
)
byte_perm = Intrinsic(
    "byte_perm",
    "Four of the eight bytes of `x` (0 to 3, the lowest first) and `y` (4 to 7): byte n of the "
    "result is the one that the lowest three bits of the nth four bits of `selector` number.",
    Typing.WORDS,
    ("x", "y", "selector"),
)


def _funnel_shift(name: str, direction: str, count: str, half: str) -> Intrinsic:
    return Intrinsic(
        name,
        f"The {half} half of `high` and `low`, one number of twice the width, shifted {direction} "
        f"by `shift` {count}.",
        Typing.WIDE_INTEGERS,
        ("low", "high", "shift"),
    )


_MODULO, _CLAMPED = "modulo the width of `low`", "or the width of `low`, if that is less"
funnelshift_l = _funnel_shift("funnelshift_l", "left", _MODULO, "upper")
funnelshift_lc = _funnel_shift("funnelshift_lc", "left", _CLAMPED, "upper")
funnelshift_r = _funnel_shift("funnelshift_r", "right", _MODULO, "lower")
funnelshift_rc = _funnel_shift("funnelshift_rc", "right", _CLAMPED, "lower")

mulhi = Intrinsic(
    "mulhi",
    "The upper half of the product of `a` and `b`, which has twice their width.",
    Typing.WIDE_INTEGERS,
    ("a", "b"),
    on_host=host_values.mulhi,
)
dot4 = Intrinsic(
    "dot4",
    "`c` and the four products of the bytes of `a` with those of `b` in one sum, which wraps "
    "around. Bytes of an int32 are signed, those of a uint32 are not. Of vectors of words, each "
    "part by itself.",
    Typing.DOT,
    ("a", "b", "c"),
)
fma = Intrinsic(
    "fma",
    "`a` · `b` + `c`, rounded once.",
    Typing.FLOATS,
    ("a", "b", "c"),
    on_host=host_values.fma,
)
rsqrt = Intrinsic("rsqrt", "1 / √`x`, to 2 units in the last place.", Typing.FLOATS, ("x",))
cbrt = Intrinsic(
    "cbrt", "The cube root of `x`, to 2 units in the last place.", Typing.FLOATS, ("x",)
)
selp = Intrinsic(
    "selp",
    "`a` if `condition` is not zero, else `b`; both are evaluated.",
    Typing.CHOICE,
    ("condition", "a", "b"),
)
bitcast = Intrinsic(
    "bitcast",
    "The bits of `value` as a number of another dtype of that width.",
    Typing.CAST,
    ("value", "dtype"),
    static=("dtype",),
    on_host=host_values.bitcast,
)
nanosleep = Intrinsic(
    "nanosleep",
    "Let the thread rest for about `ns` nanoseconds, at most twice as long; the CPU, and GPUs "
    "below compute capability 7.0, go on at once.",
    Typing.NOTHING,
    ("ns",),
)
uniform = Intrinsic(
    "uniform",
    "Promise that the value is the same in every thread of the block.",
    Typing.VALUE,
    ("value",),
    Scope.BLOCK,
)
