"""What every target that compiles through Numba and LLVM shares.

The modules that need Numba import it when they are imported, so they are imported late.
"""
