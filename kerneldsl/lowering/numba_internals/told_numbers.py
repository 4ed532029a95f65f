"""End a function of Numba's on the host with a number in the place of what describes an exception.

Whoever calls it finds the number where the address of that description would be, and must not read
from it.
"""

from __future__ import annotations

from typing import Any

from numba.core.callconv import RETCODE_USEREXC

__all__ = ["return_number"]


def return_number(context: Any, builder: Any, number: Any) -> None:
    """Return from the function that is built with an int64; it ends the block of the builder."""
    convention = context.call_conv
    place = convention._get_excinfo_argument(builder.function)
    builder.store(builder.inttoptr(number, place.type.pointee), place)
    convention._return_errcode_raw(builder, RETCODE_USEREXC)
