"""LLVM's back end for PTX."""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm

__all__ = ["TRIPLE", "initialize_nvptx"]

TRIPLE = "nvptx64-nvidia-cuda"


@cache
def initialize_nvptx() -> llvm.Target:
    """Make the back end usable, once, and return it."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE)
