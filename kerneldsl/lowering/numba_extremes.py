"""Functions that numba.cuda computes otherwise: ``max``, ``min``, ``float`` and ``print``.

Of two floats beside a NaN its extremes are the number. Python's give the first argument unless the
second is larger, so that the place of a NaN decides. And ``float`` of a float16 is that float16.
Its prints show a bfloat16, which Python does not have, with six decimals. Of more values than a GPU
formats they show the format alone.

References
----------
IEEE 754-2019, section 9.6: maximumNumber and minimumNumber. CUDA Math API, ``fmax`` and ``fmin``.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

__all__ = ["larger", "numba_cuda_form", "numba_print", "smaller"]

_FLOATS = (types.float32, types.float64)


def larger(x: Any, y: Any) -> Any:
    """Return the larger number of two."""
    return np.fmax(x, y)


def smaller(x: Any, y: Any) -> Any:
    """Return the smaller number of two."""
    return np.fmin(x, y)


def numba_print(*values: Any) -> None:
    """Stand for ``print``; each target has its implementation."""


# Tables of what functions cost know Python's by these names.
larger.__name__, smaller.__name__, numba_print.__name__ = "max", "min", "print"


def numba_cuda_form(function: Any, kinds: list[Any]) -> Any:
    """Return what numba.cuda calls for a function of arguments of types, mostly the function."""
    if function is float and [*map(str, kinds)] == ["float16"]:
        return operator.pos
    is_of_floats = len(kinds) == 2 and all(kind in _FLOATS for kind in kinds)
    if not is_of_floats:
        return function
    return larger if function is max else smaller if function is min else function


@intrinsic
def _larger(typingctx: Any, x: Any, y: Any) -> Any:
    return x(x, y), _emitter("maximumnum")


@intrinsic
def _smaller(typingctx: Any, x: Any, y: Any) -> Any:
    return x(x, y), _emitter("minimumnum")


def _emitter(name: str) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = args[0].type
        called = f"llvm.{name}.f{signature.return_type.bitwidth}"
        function = ir.FunctionType(kind, [kind, kind])
        return builder.call(cgutils.insert_pure_function(builder.module, function, called), args)

    return generate


def _typed(function: Any, computed: Any) -> None:
    """Have an intrinsic compute a function, of arguments of the wider of two types."""

    def find(x: Any, y: Any) -> Any:
        kind = types.float64 if types.float64 in (x, y) else types.float32

        def extreme(x: Any, y: Any) -> Any:
            return computed(kind(x), kind(y))

        return extreme

    overload(function)(find)


_typed(larger, _larger)
_typed(smaller, _smaller)
