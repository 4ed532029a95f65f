"""The CPU target: kernels become parallel, vectorized loops over blocks."""
