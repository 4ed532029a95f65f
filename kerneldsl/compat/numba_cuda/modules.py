"""Modules of PTX that programs load themselves, and launch with cuda.core."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from kerneldsl.errors import TargetUnavailableError
from kerneldsl.placement.devices import current_device

__all__ = ["CodeLibrary", "Module", "check_carveout"]


class Function:
    """An entry of a module; its `kernel` is cuda.core's."""

    def __init__(self, module: Module, name: str) -> None:
        self.module, self.name = module, name
        self.kernel = module.object_code.get_kernel(name)

    @property
    def handle(self) -> Any:
        """The driver's handle."""
        return self.kernel.handle


class CodeLibrary:
    """The code of a kernel for types of its parameters, and what it is linked with."""

    def __init__(self, links: Iterable[Any]) -> None:
        self._linking_files = {each.path or each.name for each in links}

    def get_cufunc(self) -> CompiledFunction:
        """Return the function."""
        return CompiledFunction()


class CompiledFunction:
    """A compiled kernel; its preferences change nothing: kerneldsl decides on the carve-out."""

    def cache_config(
        self, prefer_equal: bool = False, prefer_cache: bool = False, prefer_shared: bool = False
    ) -> None:
        """Take a preference for the L1 cache or shared memory, which changes nothing."""

    def set_shared_memory_carveout(self, carveout: int) -> None:
        """Take a share of shared memory in percent, -1 for any; it changes nothing."""
        check_carveout(int(carveout))


def check_carveout(carveout: Any) -> None:
    """Raise for no part of the memory that shared memory and the L1 cache have together."""
    if isinstance(carveout, str):
        if carveout.lower() not in ("default", "maxl1", "maxshared"):
            raise ValueError(
                f"Invalid carveout value: {carveout}. Must be default, MaxL1 or MaxShared"
            )
    elif not isinstance(carveout, int):
        raise TypeError(f"shared_memory_carveout must be a str or an int, got {type(carveout)}")
    elif not -1 <= carveout <= 100:
        raise ValueError(f"Carveout value must be between -1 and 100, got {carveout}")


class Module:
    """PTX on the current device.

    Parameters
    ----------
    ptx : str or bytes
        The text.
    """

    def __init__(self, ptx: str | bytes) -> None:
        device = current_device()
        if device.is_host:
            raise TargetUnavailableError(
                f"{device} runs no PTX", remedy="Compile a kernel, or use a machine with a GPU"
            )
        text = ptx.encode() if isinstance(ptx, str) else ptx
        self.object_code: Any = import_module("cuda.core").ObjectCode.from_ptx(text)

    def get_function(self, name: str) -> Function:
        """Return an entry."""
        return Function(self, name)

    def unload(self) -> None:
        """Return at once: cuda.core unloads the module with the last object that uses it."""
