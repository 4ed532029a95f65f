"""Functions of C's mathematical library, for what is compiled in the place of a libdevice function.

References
----------
ISO C, section "Mathematics"; POSIX, "j0" and "y0".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kerneldsl.lowering.scalars import call_llvm
from kerneldsl.lowering.types import element_type

__all__ = ["c_function"]


def c_function(symbol: str, result: str, *arguments: str) -> Callable[..., Any]:
    """Return a function that compiled code calls, with the dtypes of its C declaration."""

    @intrinsic
    def call(typingctx: Any, *args: Any) -> Any:
        kinds = [element_type(each) for each in arguments]

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            returned = context.get_value_type(signature.return_type)
            given = cgutils.unpack_tuple(builder, values[0], len(kinds))
            return call_llvm(builder, symbol, returned, given)

        return element_type(result)(types.StarArgTuple(kinds)), generate

    return call  # type: ignore[no-any-return]
