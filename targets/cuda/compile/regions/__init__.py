"""LLVM IR of a kernel's region IR: passes on the IR, and emission of operations."""
