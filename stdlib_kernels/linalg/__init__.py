"""Dense linear algebra."""

from stdlib_kernels.linalg.product import matmul, transpose

__all__ = ["matmul", "transpose"]
