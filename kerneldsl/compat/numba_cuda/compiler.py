"""Functions that compile without a launch."""

from __future__ import annotations

from typing import Any

from kerneldsl.compat.numba_cuda.decorators import jit
from kerneldsl.compat.numba_cuda.dispatcher import CUDADispatcher
from kerneldsl.compat.numba_cuda.typing import kinds_of_signature
from kerneldsl.placement.devices import current_device

__all__ = [
    "compile",
    "compile_all",
    "compile_for_current_device",
    "compile_ptx",
    "compile_ptx_for_current_device",
]


def compile(
    pyfunc: Any,
    sig: Any,
    debug: bool | None = None,
    lineinfo: bool = False,
    device: bool = True,
    fastmath: bool = False,
    cc: Any = None,
    opt: bool | None = None,
    abi: str = "c",
    abi_info: Any = None,
    output: str = "ptx",
    forceinline: bool = False,
    launch_bounds: Any = None,
) -> tuple[str, Any]:
    """Return the PTX of a kernel for a signature, and Numba's type of its result."""
    if abi not in ("numba", "c"):
        raise NotImplementedError(f"Unsupported ABI: {abi}")
    if abi == "c" and not device:
        raise NotImplementedError("The C ABI is not supported for kernels")
    if output not in ("ptx", "ltoir"):
        raise NotImplementedError(f"Unsupported output type: {output}")
    if device or output != "ptx":
        raise NotImplementedError(
            "kerneldsl compiles kernels to PTX, and device functions with the kernels that call "
            "them. Compile a kernel that calls the function, with device=False"
        )
    from numba import types

    _, result = kinds_of_signature(sig)
    if result not in (None, types.void):
        raise TypeError("CUDA kernel must have void return type.")
    function = pyfunc.py_func if isinstance(pyfunc, CUDADispatcher) else pyfunc
    made = jit(
        function,
        debug=debug,
        lineinfo=lineinfo,
        fastmath=fastmath,
        opt=not debug if opt is None else opt,
        launch_bounds=launch_bounds,
    )
    overload = made.compile(sig)
    return overload.inspect_asm(cc or _cc()), types.void


def _cc() -> tuple[int, int]:
    device = current_device()
    if device.is_host:
        return 9, 0
    major, minor = device.describe().compute_capability
    return major, minor


def compile_for_current_device(pyfunc: Any, sig: Any, **options: Any) -> tuple[str, Any]:
    """Compile for the current device, as `compile` does."""
    return compile(pyfunc, sig, cc=_cc(), **options)


def compile_ptx(
    pyfunc: Any, sig: Any, device: bool = False, abi: str = "numba", **options: Any
) -> tuple[str, Any]:
    """Return the PTX of a kernel for a signature, and Numba's type of its result."""
    return compile(pyfunc, sig, device=device, abi=abi, **options)


def compile_ptx_for_current_device(pyfunc: Any, sig: Any, **options: Any) -> tuple[str, Any]:
    """Compile for the current device, as `compile_ptx` does."""
    return compile_ptx(pyfunc, sig, cc=_cc(), **options)


def compile_all(pyfunc: Any, sig: Any, **options: Any) -> tuple[list[str], Any]:
    """Return the PTX of a kernel in a list: kerneldsl links nothing else."""
    code, result = compile(pyfunc, sig, **options)
    return [code], result
