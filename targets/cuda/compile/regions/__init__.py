"""From the region IR of a kernel to LLVM: passes on the IR, and how operations are written."""
