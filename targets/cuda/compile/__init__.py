"""Compilation of a kernel to PTX, which needs neither a driver nor a GPU."""
