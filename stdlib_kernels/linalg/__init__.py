"""Dense linear algebra, and attention."""

from stdlib_kernels.linalg.attention import attention
from stdlib_kernels.linalg.attention_backward import attention_backward
from stdlib_kernels.linalg.dot import dot
from stdlib_kernels.linalg.product import matmul, transpose

__all__ = ["attention", "attention_backward", "dot", "matmul", "transpose"]
