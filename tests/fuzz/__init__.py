"""Random kernels, compared bit for bit with an oracle that follows Numba's typing."""
