"""Library kernels against NumPy and SciPy, on every target that is there."""
