"""The CUDA target's lowerings of the language's intrinsics, keyed by name.

`rules` types calls (one function for each of the language's typing rules), `ids`, `synchronize`,
`memory` and `atomics` write instructions, `faults` holds what the shared passes put into a kernel,
`table` brings them together. Nothing is imported here, so that importing one of them is cheap.
"""

from __future__ import annotations

__all__: list[str] = []
