"""Declare operations on the values of one thread.

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
    "saturate",
    "selp",
    "uniform",
]


popc = Intrinsic("popc", "Return the number of 1 bits of `value`.", Typing.BITS, ("value",))
clz = Intrinsic(
    "clz",
    "Return the number of leading 0 bits of `value`. For 0, return its width.",
    Typing.BITS,
    ("value",),
)
ffs = Intrinsic(
    "ffs",
    "Return the position of the lowest 1 bit of `value`, counted from 1. For 0, return 0.",
    Typing.BIT_POSITION,
    ("value",),
)
brev = Intrinsic(
    "brev", "Reverse the order of the 32 or 64 bits of `value`.", Typing.BIT_STRING, ("value",)
)
byte_perm = Intrinsic(
    "byte_perm",
    "Select four of the eight bytes of `x` (bytes 0 to 3, the lowest first) and `y` (4 to 7). The "
    "lowest three bits of hexadecimal digit n of `selector` are the number of byte n.",
    Typing.WORDS,
    ("x", "y", "selector"),
)


def _funnel_shift(name: str, direction: str, count: str, half: str) -> Intrinsic:
    return Intrinsic(
        name,
        f"Shift the double-width number of `high` and `low` {direction} by `shift` {count}, and "
        f"return its {half} half.",
        Typing.WIDE_INTEGERS,
        ("low", "high", "shift"),
    )


_MODULO, _CLAMPED = "modulo the width of `low`", "bits, at most the width of `low`"
funnelshift_l = _funnel_shift("funnelshift_l", "left", _MODULO, "upper")
funnelshift_lc = _funnel_shift("funnelshift_lc", "left", _CLAMPED, "upper")
funnelshift_r = _funnel_shift("funnelshift_r", "right", _MODULO, "lower")
funnelshift_rc = _funnel_shift("funnelshift_rc", "right", _CLAMPED, "lower")

mulhi = Intrinsic(
    "mulhi",
    "Return the upper half of the double-width product of `a` and `b`.",
    Typing.WIDE_INTEGERS,
    ("a", "b"),
    on_host=host_values.mulhi,
)
dot4 = Intrinsic(
    "dot4",
    "Add the four products of the bytes of `a` and `b` to `c`; the sum wraps around. Bytes of an "
    "int32 are signed, those of a uint32 unsigned. Vectors of words are computed part by part.",
    Typing.DOT,
    ("a", "b", "c"),
)
fma = Intrinsic(
    "fma",
    "Compute `a` · `b` + `c` with one rounding. Of float16 and bfloat16 it is a float32.",
    Typing.FLOATS,
    ("a", "b", "c"),
    on_host=host_values.fma,
)
rsqrt = Intrinsic("rsqrt", "Compute 1 / √`x`, to 2 units in the last place.", Typing.FLOATS, ("x",))
cbrt = Intrinsic(
    "cbrt", "Compute the cube root of `x`, to 2 units in the last place.", Typing.FLOATS, ("x",)
)
saturate = Intrinsic("saturate", "Clamp `x` to 0 to 1. NaN and -0 become 0.", Typing.FLOATS, ("x",))
selp = Intrinsic(
    "selp",
    "Return `a` if `condition` is nonzero, else `b`; both are evaluated.",
    Typing.CHOICE,
    ("condition", "a", "b"),
)
bitcast = Intrinsic(
    "bitcast",
    "Reinterpret the bits of `value` as another dtype of the same width.",
    Typing.CAST,
    ("value", "dtype"),
    static=("dtype",),
    on_host=host_values.bitcast,
)
nanosleep = Intrinsic(
    "nanosleep",
    "Suspend the thread for about `ns` nanoseconds, at most twice as long. The CPU, and GPUs "
    "below compute capability 7.0, continue at once.",
    Typing.NOTHING,
    ("ns",),
)
uniform = Intrinsic(
    "uniform",
    "Return `value`, and promise that it is the same in every thread of the block.",
    Typing.VALUE,
    ("value",),
    Scope.BLOCK,
)
