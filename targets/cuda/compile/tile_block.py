"""The block of a kernel with tiles where nobody chooses one."""

from __future__ import annotations

from typing import Final

from kerneldsl.contract.limits import Dim3

__all__ = ["DEFAULT_TILE_BLOCK"]

DEFAULT_TILE_BLOCK: Final[Dim3] = (256, 1, 1)
