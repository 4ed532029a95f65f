"""Lowerings of NumPy's functions of numbers where Numba's have other results than NumPy's.

Numba divides floats by ``floor(x / y)``, which rounds twice, and gives infinity for infinity // 3,
where NumPy, and Numba's own operator, have NaN. Its remainder loses the sign of a zero.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.typing import signature
from numba.np import ufunc_db

__all__ = ["ufunc_loops"]

_FLOATS = ("ff->", "dd->")


def ufunc_loops(ufunc: Any) -> dict[str, Callable[..., Any]]:
    """Return the lowerings of a ufunc by the types of their arguments and results."""
    loops: dict[str, Callable[..., Any]] = ufunc_db.get_ufunc_info(ufunc)
    exact = _EXACT.get(ufunc)
    if exact is None:
        return loops
    return {key: exact if key.startswith(_FLOATS) else loop for key, loop in loops.items()}


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


_EXACT = {np.floor_divide: _quotient, np.remainder: _remainder, np.divmod: _both}
