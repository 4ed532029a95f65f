"""Code generation of a rewritten kernel: storage, loops over threads, Numba and LLVM."""
