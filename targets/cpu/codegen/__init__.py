"""From a rewritten kernel to machine code: storage, loops over threads, Numba and LLVM."""
