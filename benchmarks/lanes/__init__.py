"""Kernels of ``benchmarks/cpu_lanes.py`` as people write them for CUDA, and their rivals."""
