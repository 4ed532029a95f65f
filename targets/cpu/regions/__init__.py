"""The CPU target from the region IR: rewrites of regions, and what writes them as LLVM code."""
