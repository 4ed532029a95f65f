"""Machine code of a kernel for a file: by ptxas, or by nvJitLink where that is missing."""

from __future__ import annotations

from kerneldsl.errors import ToolMissingError
from kerneldsl.frontend.code_form import CodeForm
from targets.cuda.compile.linker import find_linker, link_inputs
from targets.cuda.compile.ptxas import assemble, find_ptxas

__all__ = ["make_cubin"]


def make_cubin(ptx: str, arch: str) -> bytes:
    """Return the machine code of PTX, an ELF file.

    Raises `ToolMissingError` where there is neither ptxas nor nvJitLink, or ptxas does not know the
    architecture. Raises `CompileError` where the PTX is refused.
    """
    try:
        find_ptxas()
    except ToolMissingError as missing:
        linker = find_linker()
        if linker is None:
            raise ToolMissingError(
                "machine code needs ptxas or the nvJitLink library, and neither was found",
                value="ptxas",
                limit=missing.limit,
                remedy="Run: pip install nvidia-cuda-nvcc (ptxas), or write PTX, which the "
                "driver compiles",
            ) from missing
        return link_inputs(linker, [(CodeForm.PTX, ptx.encode(), "the PTX")], arch)
    return assemble(ptx, arch).cubin
