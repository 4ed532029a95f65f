"""Vocabulary of kernels: intrinsics, dtypes and argument kinds, all as data."""
