"""NVTX ranges around what is recorded, so that Nsight shows the names that a profile has.

References
----------
NVTX Python documentation, "push_range" and "pop_range".
"""

from __future__ import annotations

from typing import Any

from kerneldsl.errors import ToolMissingError
from kerneldsl.profiling.spans import Span

__all__ = ["NvtxRanges"]

_DOMAIN = "kerneldsl"


class NvtxRanges:
    """Ranges in a domain of their own.

    Raises
    ------
    ToolMissingError
        If the package ``nvtx`` is not installed.
    """

    def __init__(self) -> None:
        try:
            import nvtx
        except ImportError as error:
            raise ToolMissingError(
                "NVTX ranges need the package nvtx",
                limit="kd.profile(nvtx=True) marks what it records for Nsight",
                remedy="pip install nvtx, or leave out nvtx=True",
            ) from error
        self._nvtx: Any = nvtx

    def push(self, span: Span) -> None:
        """Begin the range of a span."""
        self._nvtx.push_range(f"{span.kind} {span.name}", domain=_DOMAIN, category=span.kind)

    def pop(self) -> None:
        """End the innermost range of this thread."""
        self._nvtx.pop_range(domain=_DOMAIN)
