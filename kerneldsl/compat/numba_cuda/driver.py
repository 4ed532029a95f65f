"""Names of numba.cuda.cudadrv that describe the machine."""

from __future__ import annotations

from typing import Any

from kerneldsl.compat.numba_cuda.devices import gpus
from kerneldsl.placement.devices import current_device

__all__ = ["USE_NV_BINDING", "_have_nvjitlink", "driver", "runtime"]

USE_NV_BINDING = True


class _Driver:
    """The driver's description of the machine."""

    is_available = True
    initialization_error = None

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

    def is_supported_version(self) -> bool:
        """Return whether the version is supported; there is no other one."""
        return True


driver = runtime = _Driver()


def _have_nvjitlink() -> bool:
    """Return whether code is optimized across links, which here needs no nvJitLink."""
    return True
