"""Modules of PTX that programs load themselves, and launch with cuda.core."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kerneldsl.errors import TargetUnavailableError
from kerneldsl.placement.devices import current_device

__all__ = ["Module"]


class Function:
    """An entry of a module; its `kernel` is cuda.core's."""

    def __init__(self, module: Module, name: str) -> None:
        self.module, self.name = module, name
        self.kernel = module.object_code.get_kernel(name)

    @property
    def handle(self) -> Any:
        """The driver's handle."""
        return self.kernel.handle


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
