"""Calling the system's C compiler."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from kerneldsl.errors import CompileError, ToolMissingError

__all__ = ["find_compiler", "link_shared"]

#: Functions that no library has are refused here; no path or time becomes part of the file.
_OPTIONS = (
    *("-std=gnu11", "-O2", "-fPIC", "-shared", "-pthread"),
    *("-Wl,-z,defs", "-Wl,-z,noexecstack", "-Wl,--build-id=none"),
)
_LIBRARIES = ("-lm", "-ldl")


def find_compiler() -> list[str]:
    """Return the command of the C compiler: ``CC`` of the environment, else ``cc``.

    Raises `ToolMissingError` if there is none.
    """
    command = shlex.split(os.environ.get("CC", "")) or ["cc"]
    if shutil.which(command[0]) is None:
        raise ToolMissingError(
            f"the C compiler {command[0]} was not found",
            value=command[0],
            limit="A C library of kernels is linked by the system's C compiler, CC or cc",
            remedy="Install gcc or clang, or name one with CC",
        )
    return command


def link_shared(folder: Path, output: str, files: Sequence[str]) -> None:
    """Compile and link sources and object files of a folder into a shared object there.

    Raises
    ------
    CompileError
        The compiler refuses them; its messages are part of the error.
    ToolMissingError
        There is no compiler.
    """
    # In the folder, so that no other path becomes part of the file.
    command = [*find_compiler(), *_OPTIONS, "-o", output, *files, *_LIBRARIES]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(
            f"{command[0]} could not link {output}:\n{done.stderr.strip()}",
            value=output,
            limit=f"It was called in {folder} as: {shlex.join(command)}",
        )
