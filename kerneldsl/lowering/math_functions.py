"""Functions of :mod:`math` and methods of numbers that Numba does not have, for every target.

Importing this module registers them with Numba; each is written with functions that Numba has, so
each target compiles them for itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload, overload_method

from kerneldsl.lowering import numba_extremes as _numba_extremes  # noqa: F401 - registers

__all__: list[str] = []


def _float_type(*kinds: Any) -> Any:
    """Return the type a function computes in: float64 if an argument is float64 or whole."""
    plain = [types.unliteral(kind) for kind in kinds]
    if not all(isinstance(kind, types.Float | types.Integer | types.Boolean) for kind in plain):
        return None
    is_single = all(isinstance(kind, types.Float) and kind.bitwidth <= 32 for kind in plain)
    return types.float32 if is_single else types.float64


@overload(math.fmod)
def _fmod(x: Any, y: Any) -> Any:
    """Compute the remainder of x / y with the sign of x, exactly."""
    kind = _float_type(x, y)
    if kind is None:
        return None

    def fmod(x: Any, y: Any) -> Any:
        return np.fmod(kind(x), kind(y))

    return fmod


@overload(math.remainder)
def _remainder(x: Any, y: Any) -> Any:
    """Compute the remainder of x by the nearest multiple of y, exactly; of two, by the even one.

    NaN is the result where Python raises. Source: IEEE 754-2019, section 5.3.1.
    """
    kind = _float_type(x, y)
    if kind is None:
        return None

    def remainder(x: Any, y: Any) -> Any:
        value, step = kind(x), abs(kind(y))
        if math.isinf(step) and not (math.isinf(value) or math.isnan(value)):
            return value
        size = abs(value)
        below = np.fmod(size, step)
        above = step - below
        if below < above:
            found = below
        elif below > above:
            found = -above
        else:  # in the middle, or NaN
            found = below - kind(2) * np.fmod(kind(0.5) * (size - below), step)
        return math.copysign(kind(1), value) * found

    return remainder


@overload(math.modf)
def _modf(x: Any) -> Any:
    """Compute the fractional and the whole part, both with the sign of x."""
    kind = _float_type(x)
    if kind is None:
        return None

    def modf(x: Any) -> Any:
        value = kind(x)
        whole = np.trunc(value)
        fraction = kind(0) if math.isinf(value) else value - whole
        return math.copysign(fraction, value), whole

    return modf


@overload(math.cbrt)
def _cbrt(x: Any) -> Any:
    """Compute the cube root."""
    kind = _float_type(x)
    if kind is None:
        return None

    root = _cube_root

    def cbrt(x: Any) -> Any:
        return root(kind(x))

    return cbrt


@overload(math.log, strict=False)
def _log(x: Any, base: Any = None) -> Any:
    """Compute the logarithm to a base; Numba has that to base e."""
    kind = _float_type(x, base) if base is not None else None
    return None if kind is None else lambda x, base=None: math.log(kind(x)) / math.log(kind(base))


@overload(math.isclose)
def _isclose(a: Any, b: Any, rel_tol: Any = 1e-9, abs_tol: Any = 0.0) -> Any:
    """Return whether two numbers are nearly equal, in float64 as Python's function."""
    if _float_type(a, b) is None:
        return None

    def isclose(a: Any, b: Any, rel_tol: Any = 1e-9, abs_tol: Any = 0.0) -> Any:
        one, other = np.float64(a), np.float64(b)
        size = max(abs(one), abs(other))
        is_near = abs(one - other) <= max(rel_tol * size, abs_tol)
        return one == other or (is_near and not math.isinf(size))

    return isclose


@overload(np.bitwise_count, strict=False)
def _bitwise_count(x: Any) -> Any:
    """Count the 1 bits of the absolute value, as a uint8."""
    return (lambda x: np.uint8(x.bit_count())) if isinstance(x, types.Integer) else None


@overload_method(types.Integer, "bit_count")
def _bit_count(value: Any) -> Any:
    """Count the 1 bits of the absolute value."""
    count = _ones_of_size

    def bit_count(value: Any) -> Any:
        return count(value)

    return bit_count


@intrinsic
def _ones_of_size(typingctx: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (size,) = args
        if signature.args[0].signed:  # the size of the least integer has its bits
            is_negative = builder.icmp_signed("<", size, size.type(0))
            size = builder.select(is_negative, builder.neg(size), size)
        found = builder.ctpop(size)
        return context.cast(builder, found, signature.args[0], types.int64)

    return types.int64(types.unliteral(value)), generate


@intrinsic
def _cube_root(typingctx: Any, x: Any) -> Any:
    """Call C's function: Numba's lowering of ``np.cbrt`` loses the sign of -0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = args[0].type
        name = "cbrtf" if signature.return_type is types.float32 else "cbrt"
        function = ir.FunctionType(kind, [kind])
        return builder.call(cgutils.insert_pure_function(builder.module, function, name), args)

    return x(x), generate
