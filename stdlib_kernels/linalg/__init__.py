"""Dense linear algebra."""

from __future__ import annotations

from stdlib_kernels.linalg.product import matmul
from stdlib_kernels.linalg.transposition import transpose

__all__ = ["matmul", "transpose"]
