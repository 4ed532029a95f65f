"""Machine code of one kernel for several architectures in one file, by the toolkit's fatbinary.

The driver takes the code for its device from such a file. For a device that is newer than all of
them it assembles the PTX.

References
----------
CUDA Compiler Driver NVCC, sections "Fatbinaries" and "GPU Compilation".
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from kerneldsl.errors import CompileError
from targets.cuda.architectures import parse_arch
from targets.cuda.compile.tools import find_tool

__all__ = ["make_fatbin"]

_TIMEOUT_SECONDS = 60


def make_fatbin(cubins: Mapping[str, bytes], ptx: Mapping[str, str]) -> bytes:
    """Return the fat binary of machine code and PTX, each by its architecture.

    Raises
    ------
    ToolMissingError
        Without fatbinary.
    CompileError
        If it refuses the code.
    """
    tool = find_tool("fatbinary", "pip install nvidia-cuda-nvcc")
    contents = {("elf", arch): cubins[arch] for arch in _in_order(cubins)}
    contents |= {("ptx", arch): ptx[arch].encode() for arch in _in_order(ptx)}
    with tempfile.TemporaryDirectory(prefix="kerneldsl-") as directory:
        # Names without folders, so that the result is the same in every folder.
        command = [str(tool), "-64", "--create=kernel.fatbin", "--compress=false"]
        for (kind, arch), data in contents.items():
            name = f"{arch}.{kind}"
            Path(directory, name).write_bytes(data)
            command.append(f"--image3=kind={kind},sm={arch.removeprefix('sm_')},file={name}")
        done = subprocess.run(
            command,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode:
            log = (done.stderr + done.stdout).strip()
            images = ", ".join(f"{kind} for {arch}" for kind, arch in contents)
            raise CompileError(
                f"fatbinary refuses the code: {log}",
                value=log,
                limit=f"It was called with {images}",
                remedy="Install the version of nvidia-cuda-nvcc that kerneldsl is tested with",
            )
        return Path(directory, "kernel.fatbin").read_bytes()


def _in_order(architectures: Iterable[str]) -> list[str]:
    return sorted(architectures, key=lambda each: parse_arch(each).number)
