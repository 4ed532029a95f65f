"""Let signed integers wrap around, as NumPy's do.

Numba marks the arithmetic of signed integers as never overflowing, so LLVM may give any result
where it does: it takes the square of an int64 for positive, say. Hashes and generators of random
numbers count on the wraparound, and both machines shall give the same bits.
"""

from __future__ import annotations

import re

__all__ = ["let_integers_wrap"]

_MARKED = re.compile(r"\b(add|sub|mul|shl) nsw (i(?:8|16|32|64)) ")


def let_integers_wrap(text: str) -> str:
    """Take the mark off additions, subtractions, products and shifts.

    Operations that carry a second mark, as our own of thread indices do, keep both: they cannot
    overflow.

    Parameters
    ----------
    text : str
        A module in LLVM's textual form, as Numba made it.

    Examples
    --------
    >>> let_integers_wrap("%p = mul nsw i64 %a, %b")
    '%p = mul i64 %a, %b'
    >>> let_integers_wrap("%p = mul nuw nsw i64 %a, %b")
    '%p = mul nuw nsw i64 %a, %b'
    """
    return _MARKED.sub(r"\1 \2 ", text)
