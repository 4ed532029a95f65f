"""LLVM's passes over a module, and the pass manager given back.

llvmlite's pass managers inherit two methods that dispose of them, of which Python finds the one
that does nothing: each would stay in memory, with the analyses of what it ran over (llvmlite 0.50,
``binding/newpassmanagers.py``).
"""

from __future__ import annotations

from typing import Any

from llvmlite.binding.newpassmanagers import NewPassManager

__all__ = ["run_passes"]


def run_passes(manager: Any, module: Any, builder: Any) -> None:
    """Run the passes of a pass manager over a module, then dispose of the manager."""
    try:
        manager.run(module, builder)
    finally:
        NewPassManager._dispose(manager)
        manager.detach()
