"""Compilation through Numba and LLVM, shared by the targets that use them.

The modules that need Numba import it when they are imported, so they are imported late.
"""
