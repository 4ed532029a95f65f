"""Link PTX with machine code and LTO-IR by the nvJitLink library.

References
----------
nvJitLink documentation, "Code Example", "Linking" and "Options".
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

from kerneldsl.errors import CompileError

__all__ = ["find_linker", "link_inputs"]

#: Forms of code to the names of nvJitLink's types of input.
_TYPES = {"ptx": "PTX", "cubin": "CUBIN", "fatbin": "FATBIN", "ltoir": "LTOIR"}


def find_linker() -> Any | None:
    """Return the bindings of nvJitLink, if the library is there."""
    if importlib.util.find_spec("cuda") is None:
        return None
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except (ImportError, RuntimeError):  # no bindings, or they do not find the library
        return None
    return nvjitlink


def link_inputs(linker: Any, inputs: Sequence[tuple[str, bytes, str]], arch: str) -> bytes:
    """Return the machine code of some inputs: the form of each, its contents, and its name.

    Raises `CompileError` where nvJitLink refuses one, with its log.
    """
    handle = None
    options = [f"-arch={arch}"]
    if any(form == "ltoir" for form, _, _ in inputs):
        options.append("-lto")
    if any(form == "ptx" and b"\t.loc\t" in contents for form, contents, _ in inputs):
        options.append("-lineinfo")
    try:
        handle = linker.create(len(options), options)
        for form, contents, name in inputs:
            kind = getattr(linker.InputType, _TYPES[form])
            linker.add_data(handle, kind, contents, len(contents), name)
        linker.complete(handle)
        cubin = bytearray(linker.get_linked_cubin_size(handle))
        linker.get_linked_cubin(handle, cubin)
        return bytes(cubin)
    except linker.nvJitLinkError as error:
        log = _error_log(linker, handle)
        raise CompileError(
            f"nvJitLink refuses {' with '.join(name for _, _, name in inputs)} for {arch}: "
            f"{log or error}",
            value=log,
            remedy="An older nvJitLink does not know a newer architecture: run pip install -U "
            "nvidia-nvjitlink, or pip install nvidia-cuda-nvcc for ptxas"
            if len(inputs) == 1
            else "Compile the code as relocatable device code (-rdc=true), for this architecture",
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
