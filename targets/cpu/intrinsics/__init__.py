"""The operations of kernels on a CPU.

Each is an LLVM sequence of a few instructions. `memory` places the storage of a block, `atomics`
changes memory that threads share, `warp` exchanges values between the lanes of a warp, `faults`
holds what debug mode puts into a kernel, and `printing` writes to the terminal. `table` says how
each intrinsic is performed. Nothing is imported here, so that importing one of them is cheap.
"""

from __future__ import annotations

__all__: list[str] = []
