"""Names of numba.cuda.cudadrv that describe the machine."""

from __future__ import annotations

from typing import Any

from kerneldsl.compat.numba_cuda.devices import (
    Context,
    MemoryInfo,
    _choices,
    before_first_context,
    cuda_error,
    current_context,
    gpus,
    is_available,
    is_supported_version,
    start_errors,
)
from kerneldsl.compat.numba_cuda.errors import CudaAPIError
from kerneldsl.compat.numba_cuda.streams import stream
from kerneldsl.placement.devices import current_device

__all__ = ["USE_NV_BINDING", "_have_nvjitlink", "driver", "get_version", "runtime"]

USE_NV_BINDING = True


class _Driver:
    """The driver's description of the machine."""

    def __init__(self) -> None:
        self._streams: list[Any] = []

    def cuInit(self, flags: int = 0) -> None:
        """Start the driver of the current device, before the first context is made."""
        current_device()

    def _start(self) -> None:
        try:
            self.cuInit(0)
        except CudaAPIError as error:
            start_errors.append(f"{error.msg} ({error.code})")

    @property
    def is_available(self) -> bool:
        """False if NUMBA_DISABLE_CUDA is set."""
        return is_available()

    @property
    def initialization_error(self) -> str | None:
        """The reason not to use the driver, if there is one."""
        return cuda_error()

    def get_device_count(self) -> int:
        """Return the number of devices."""
        return len(gpus)

    def get_device(self, devnum: int = 0) -> Any:
        """Return a device."""
        return gpus[devnum]

    def get_version(self) -> tuple[int, int]:
        """Return the version of CUDA that the driver supports; of a CPU the one of its language."""
        if current_device().is_host:
            return 13, 0
        major, minor = current_device().describe().cuda_driver_version
        return major, minor

    is_supported_version = staticmethod(is_supported_version)

    def cuMemGetInfo(self) -> MemoryInfo:
        """Return the free and the total memory, in bytes."""
        found: MemoryInfo = current_context().get_memory_info()
        return found

    def cuStreamCreate(self, flags: int = 0) -> int:
        """Make a stream, and return its handle."""
        self._streams.append(stream())
        return int(self._streams[-1])

    def get_active_context(self) -> _ActiveContext:
        """Return the active context of this thread."""
        return _ActiveContext(_choices.contexts[-1] if _choices.contexts else None)

    def pop_active_context(self) -> int | None:
        """Make the context active that was before, and return the handle of this one."""
        return _choices.contexts.pop().handle if _choices.contexts else None


class _ActiveContext:
    """The active context of a thread, if there is one."""

    def __init__(self, context: Context | None) -> None:
        self.context_handle = None if context is None else context.handle
        self.devnum = None if context is None else context.device.id

    def __bool__(self) -> bool:
        return self.context_handle is not None

    def __enter__(self) -> _ActiveContext:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


driver = runtime = _Driver()
before_first_context.append(driver._start)
get_version = driver.get_version


def _have_nvjitlink() -> bool:
    """Return whether code is optimized across links, which here needs no nvJitLink."""
    return True
