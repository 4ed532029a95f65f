"""Dense linear algebra."""

from stdlib_kernels.linalg.dot import dot
from stdlib_kernels.linalg.product import matmul, transpose

__all__ = ["dot", "matmul", "transpose"]
