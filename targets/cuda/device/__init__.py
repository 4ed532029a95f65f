"""A CUDA device: what it is, its memory, streams, events and graphs, and kernels on it."""
