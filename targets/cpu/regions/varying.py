"""Operations that differ between the threads of a block in their results."""

from __future__ import annotations

__all__ = ["VARYING"]

#: What differs between the threads of a block.
VARYING = frozenset((*(f"threadIdx.{axis}" for axis in "xyz"), "local.array"))
