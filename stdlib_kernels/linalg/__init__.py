"""Dense linear algebra."""

from __future__ import annotations

from stdlib_kernels.linalg.product import matmul, transpose

__all__ = ["matmul", "transpose"]
