"""numba.cuda.libdevice: the functions of NVIDIA's library, as kerneldsl has them."""

from __future__ import annotations

from typing import Any

from kerneldsl.language.intrinsics.libdevice import libdevice

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    return getattr(libdevice, name)


def __dir__() -> list[str]:
    return dir(libdevice)
