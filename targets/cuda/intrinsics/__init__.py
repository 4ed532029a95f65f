"""The CUDA target's lowerings of the language's intrinsics, keyed by name.

`ids`, `synchronize`, `warp`, `memory` and `atomics` write instructions, `faults` those of debug
mode, `table` brings them together; calls are typed by :mod:`kerneldsl.ir.rules.calls`.
Nothing is imported here, so that importing one of them is cheap.
"""

from __future__ import annotations

__all__: list[str] = []
