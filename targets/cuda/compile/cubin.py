"""Machine code of a kernel for a file: by ptxas, or by the nvJitLink library where that is missing.

References
----------
nvJitLink documentation, "Code Example" and "Linking".
"""

from __future__ import annotations

import importlib.util
from typing import Any

from kerneldsl.errors import CompileError, ToolMissingError
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
        linker = _find_linker()
        if linker is None:
            raise ToolMissingError(
                "machine code needs ptxas or the nvJitLink library, and neither was found",
                value="ptxas",
                limit=missing.limit,
                remedy="Run: pip install nvidia-cuda-nvcc (ptxas), or write PTX, which the "
                "driver compiles",
            ) from missing
        return _link(linker, ptx, arch)
    return assemble(ptx, arch).cubin


def _find_linker() -> Any | None:
    """Return the bindings of nvJitLink, if the library is there."""
    if importlib.util.find_spec("cuda") is None:
        return None
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except (ImportError, RuntimeError):  # no bindings, or they do not find the library
        return None
    return nvjitlink


def _link(linker: Any, ptx: str, arch: str) -> bytes:
    handle = None
    try:
        handle = linker.create(1, [f"-arch={arch}"])
        code = ptx.encode()
        linker.add_data(handle, linker.InputType.PTX, code, len(code), "kernel.ptx")
        linker.complete(handle)
        cubin = bytearray(linker.get_linked_cubin_size(handle))
        linker.get_linked_cubin(handle, cubin)
        return bytes(cubin)
    except linker.nvJitLinkError as error:
        log = _error_log(linker, handle)
        raise CompileError(
            f"nvJitLink refuses the PTX for {arch}: {log or error}",
            value=log,
            remedy="An older nvJitLink does not know a newer architecture: run pip install -U "
            "nvidia-nvjitlink, or pip install nvidia-cuda-nvcc for ptxas",
        ) from error
    finally:
        if handle is not None:
            linker.destroy(handle)


def _error_log(linker: Any, handle: Any) -> str:
    if handle is None:
        return ""
    log = bytearray(linker.get_error_log_size(handle))
    linker.get_error_log(handle, log)
    return log.rstrip(b"\0").decode(errors="replace").strip()
