"""Let narrow signed integers wrap around, as NumPy's do.

Numba marks the arithmetic of signed integers as never overflowing. Python's operators compute in
64 bits, where an overflow is out of a kernel's way and the mark helps with indices. NumPy's
functions (``np.multiply`` of two int32, say) compute in the operands' own width, where overflow is
ordinary: there the mark lets LLVM widen the operation and give another result.
"""

from __future__ import annotations

import re

__all__ = ["let_narrow_integers_wrap"]

_MARKED = re.compile(r"\b(add|sub|mul|shl) nsw (i(?:8|16|32)) ")


def let_narrow_integers_wrap(text: str) -> str:
    """Take the mark off operations of 8, 16 and 32 bits.

    Parameters
    ----------
    text : str
        A module in LLVM's textual form, as Numba made it.

    Examples
    --------
    >>> let_narrow_integers_wrap("%p = mul nsw i32 %a, %b")
    '%p = mul i32 %a, %b'
    >>> let_narrow_integers_wrap("%p = mul nsw i64 %a, %b")
    '%p = mul nsw i64 %a, %b'
    """
    return _MARKED.sub(r"\1 \2 ", text)
