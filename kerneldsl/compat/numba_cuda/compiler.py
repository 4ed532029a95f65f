"""Functions that compile without a launch."""

from __future__ import annotations

from typing import Any

from kerneldsl.compat.numba_cuda.decorators import jit
from kerneldsl.compat.numba_cuda.dispatcher import CUDADispatcher
from kerneldsl.compat.numba_cuda.errors import translating
from kerneldsl.compat.numba_cuda.overloads import arch_of
from kerneldsl.compat.numba_cuda.typing import argument_types, kinds_of_signature
from kerneldsl.contract.options import EntryForm
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
    """Return PTX for a signature, and Numba's type of the result.

    It is that of a kernel, or of a function that other GPU code calls. With the ABI ``"c"`` it is a
    function of C. With ``"numba"`` it takes the address of its result, and returns 0.
    """
    if abi not in ("numba", "c"):
        raise NotImplementedError(f"Unsupported ABI: {abi}")
    if abi == "c" and not device:
        raise NotImplementedError("The C ABI is not supported for kernels")
    if output not in ("ptx", "ltoir"):
        raise NotImplementedError(f"Unsupported output type: {output}")
    if forceinline and output != "ltoir":
        raise ValueError("Can only designate forced inlining in LTO-IR")
    if output != "ptx":
        raise NotImplementedError("kerneldsl writes PTX, and no LTO-IR. Write output='ptx'")
    from numba import types

    kinds, declared = kinds_of_signature(sig, of_kernel=not device)
    function = pyfunc.py_func if isinstance(pyfunc, CUDADispatcher) else pyfunc
    made = jit(
        sig if device and declared is not None else None,
        device=device,
        debug=debug,
        lineinfo=lineinfo,
        fastmath=fastmath,
        opt=not debug if opt is None else opt,
        launch_bounds=launch_bounds,
    )(function)
    if not device:
        if declared not in (None, types.void):
            raise TypeError("CUDA kernel must have void return type.")
        with translating():
            return made._declare(kinds, None).inspect_asm(cc or _cc()), types.void
    form = EntryForm.FUNCTION if abi == "c" else EntryForm.STATUS
    overload = made.compile_device(argument_types(kinds))
    with translating():
        exported = overload.exported(form, (abi_info or {}).get("abi_name"))
        code = exported.artifact(arch_of(cc or _cc())).text("ptx")
    result = types.void if exported.result is None else argument_types((exported.result,))[0]
    return code, result


def _cc() -> tuple[int, int]:
    device = current_device()
    if device.is_host:
        return 9, 0
    major, minor = device.describe().compute_capability
    return major, minor


def compile_ptx(
    pyfunc: Any, sig: Any, device: bool = False, abi: str = "numba", **options: Any
) -> tuple[str, Any]:
    """Return the PTX of a kernel for a signature, and Numba's type of its result."""
    return compile(pyfunc, sig, device=device, abi=abi, **options)


#: The current device is where both compile for by default.
compile_for_current_device, compile_ptx_for_current_device = compile, compile_ptx


def compile_all(pyfunc: Any, sig: Any, **options: Any) -> tuple[list[str], Any]:
    """Return the PTX of a kernel in a list: kerneldsl links nothing else."""
    code, result = compile(pyfunc, sig, **options)
    return [code], result
