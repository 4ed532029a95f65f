"""Triton's kernel, in a module of its own: it is written in Triton's language."""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["axpy"]


@triton.jit
def axpy(a, x, y, out, n, BLOCK: tl.constexpr):
    """Take one scalar and three arrays."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, a * tl.load(x + at, mask) + tl.load(y + at, mask), mask)
