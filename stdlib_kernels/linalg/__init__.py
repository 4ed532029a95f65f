"""Dense linear algebra."""

from __future__ import annotations

from stdlib_kernels.linalg.matmul import matmul
from stdlib_kernels.linalg.transpose import transpose

__all__ = ["matmul", "transpose"]
