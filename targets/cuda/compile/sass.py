"""SASS, the machine code of a kernel as text, by NVIDIA's disassembler where there is one.

References
----------
CUDA Binary Utilities, section "nvdisasm".
"""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path

from kerneldsl.errors import CompileError
from targets.cuda.compile.tools import find_tool

__all__ = ["disassemble", "find_nvdisasm"]

_TIMEOUT_SECONDS = 60


@cache
def find_nvdisasm() -> Path:
    """Return where nvdisasm is; see :func:`~targets.cuda.compile.tools.find_tool`."""
    return find_tool("nvdisasm", "pip install nvidia-cuda-nvdisasm")


def disassemble(cubin: bytes) -> str:
    """Return machine code as text, with the lines of the source where it has them.

    Raises `ToolMissingError` where there is no nvdisasm. Raises `CompileError` where it cannot read
    the code, such as that of an architecture that is newer than it.
    """
    tool = find_nvdisasm()
    with tempfile.TemporaryDirectory(prefix="kerneldsl-") as directory:
        code = Path(directory, "kernel.cubin")
        code.write_bytes(cubin)
        done = subprocess.run(
            [str(tool), "--print-code", "--print-line-info", str(code)],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    if done.returncode:
        raise CompileError(
            f"nvdisasm cannot read the machine code: {(done.stderr or done.stdout).strip()[:500]}",
            remedy="Install the nvdisasm of a newer CUDA toolkit",
        )
    return done.stdout
