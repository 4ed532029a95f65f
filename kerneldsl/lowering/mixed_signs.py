"""Count of operations of uint64 and signed integers that were typed as int64.

Typing counts them, and a kernel in whose compilation the count has grown is looked at more closely
(:mod:`kerneldsl.analysis.sign_changes`); most kernels have none.
"""

from __future__ import annotations

__all__ = ["MIXED_SIGNS"]


class _Counter:
    """A number that is only compared with what it was before."""

    def __init__(self) -> None:
        self.count = 0


MIXED_SIGNS = _Counter()
