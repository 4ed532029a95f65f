"""Programs of NVIDIA's toolkit, which is not needed: they are looked for where it may be."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from kerneldsl.errors import ToolMissingError
from targets.cuda.compile.libdevice import toolkit_directories, wheel_directories

__all__ = ["find_tool", "tool_places"]


def find_tool(name: str, install: str) -> Path:
    """Return where a program is; `install` is the command that installs it.

    Looked for in: NVIDIA's wheels beside this Python's packages, ``PATH``, ``CUDA_HOME``,
    ``CUDA_PATH``, ``/usr/local/cuda``.

    Raises `ToolMissingError` where there is none.
    """
    for place in tool_places(name):
        if place.is_file():
            return place
    raise ToolMissingError(
        f"{name} was not found",
        value=name,
        limit="Looked for in NVIDIA's wheels, PATH, CUDA_HOME, CUDA_PATH and /usr/local/cuda",
        remedy=f"Run: {install}, or install the CUDA toolkit",
    )


def tool_places(name: str) -> Iterator[Path]:
    """Yield where a program may be, in the order in which they are tried."""
    for wheel in wheel_directories():
        yield from sorted(wheel.glob(f"**/bin/{name}"), reverse=True)
    found = shutil.which(name)
    if found:
        yield Path(found)
    for root in toolkit_directories():
        yield root / "bin" / name
