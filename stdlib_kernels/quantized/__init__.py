"""Products with weights of a few bits, and how such weights are made."""

from stdlib_kernels.quantized.encoding import dequantize, quantize
from stdlib_kernels.quantized.formats import pack, unpack
from stdlib_kernels.quantized.gguf import read_gguf
from stdlib_kernels.quantized.product import matmul

__all__ = ["dequantize", "matmul", "pack", "quantize", "read_gguf", "unpack"]
