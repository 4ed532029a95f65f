"""Kernels as people write them for CUDA, each beside its text in CUDA C."""
