"""Reductions: many elements to one."""

from __future__ import annotations

from stdlib_kernels.reduce.summation import sum

__all__ = ["sum"]
