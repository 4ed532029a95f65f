"""The three compilers that a case is given to: ours, NVRTC and numba-cuda."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

import kerneldsl as kd
from cuda_c.case import Arguments, Case, source_of

__all__ = ["CompiledC", "compiled_c", "of_numba", "on_device", "pointers"]


class CompiledC:
    """A file of CUDA C, compiled by NVRTC as nvcc does by default."""

    def __init__(self, source: str, arch: str, include: str | None = None) -> None:
        from cuda.core import Program, ProgramOptions

        options = ProgramOptions(arch=arch, std="c++17", include_path=include)
        self._code = Program(source_of(source), "c++", options).compile("cubin")

    @property
    def cubin(self) -> bytes:
        """The machine code of all its kernels."""
        return bytes(self._code.code)

    def resources(self, name: str) -> dict[str, int]:
        """Return registers and bytes of local memory a thread."""
        found = self._code.get_kernel(name).attributes
        return {"registers": found.num_regs, "local_bytes": found.local_size_bytes}

    def launch(self, case: Case, arguments: Arguments) -> Callable[[], object]:
        """Return a launch of a case's kernel with pointers and scalars."""
        from cuda.core import Device, LaunchConfig, launch

        function = self._code.get_kernel(case.name)
        config, stream = LaunchConfig(grid=case.grid, block=case.block), Device().default_stream
        return lambda: launch(stream, config, function, *arguments)


_compiled: dict[str, CompiledC] = {}


def compiled_c(source: str, arch: str, include: str | None = None) -> CompiledC:
    """Return a compiled file, the same one for each of its cases."""
    if source not in _compiled:
        _compiled[source] = CompiledC(source, arch, include)
    return _compiled[source]


def on_device(arguments: Arguments) -> Arguments:
    """Return arguments with arrays on the device."""
    return tuple(kd.to_device(a) if isinstance(a, np.ndarray) else a for a in arguments)


def pointers(arguments: Arguments) -> Arguments:
    """Return arguments with addresses in place of device arrays."""
    return tuple(
        int(a.__cuda_array_interface__["data"][0]) if hasattr(a, "shape") and a.shape else a
        for a in arguments
    )


def of_numba(case: Case) -> Any:
    """Return a case's kernel as numba-cuda compiles it: the same function, with its own names."""
    from numba import cuda

    return cuda.jit(_with_names_of(case.kernel.function, cuda))


def _with_names_of(function: FunctionType, cuda: Any) -> FunctionType:
    names = dict(function.__globals__)
    for name in function.__code__.co_names:
        if isinstance(names.get(name), kd.DeviceFunction):
            names[name] = cuda.jit(device=True)(_with_names_of(names[name].function, cuda))
    return FunctionType(
        function.__code__, {**names, "kd": cuda}, function.__name__, function.__defaults__
    )
