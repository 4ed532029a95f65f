"""Packages that ship compiled kernels: their files, and processes that use them."""
