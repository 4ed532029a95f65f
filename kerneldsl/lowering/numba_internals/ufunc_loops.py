"""Lowerings of NumPy's functions of numbers where Numba's are slower, or not NumPy's.

Numba divides floats by ``floor(x / y)``, which rounds twice, and gives infinity for infinity // 3,
where NumPy, and Numba's own operator, have NaN. Its remainder loses the sign of a zero. Its maximum
compares and selects several times, where a GPU has one instruction.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import signature
from numba.np import ufunc_db

__all__ = ["ufunc_loops"]

_FLOATS = ("ff->", "dd->")


def ufunc_loops(ufunc: Any) -> dict[str, Callable[..., Any]]:
    """Return the lowerings of a ufunc by the types of their arguments and results."""
    loops: dict[str, Callable[..., Any]] = ufunc_db.get_ufunc_info(ufunc)
    ours = _LOOPS.get(ufunc)
    if ours is None:
        return loops
    return {key: ours if key.startswith(_FLOATS) else loop for key, loop in loops.items()}


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


_LOOPS: dict[Any, Callable[..., Any]] = {
    np.floor_divide: _quotient,
    np.remainder: _remainder,
    np.divmod: _both,
    np.maximum: partial(_extreme, "maximum"),
    np.minimum: partial(_extreme, "minimum"),
}
