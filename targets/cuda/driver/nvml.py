"""Live values of a GPU from NVIDIA's management library: utilization, temperature, power, clocks.

It is loaded when one of these is first requested. A device is found in it by its UUID, never by its
number: NVML counts all GPUs of the machine in the order of their PCI addresses, and ignores
``CUDA_VISIBLE_DEVICES`` and ``CUDA_DEVICE_ORDER``. The bindings are ``cuda.bindings.nvml``:
cuda.core's API of NVML (1.2) has no power readings.

References
----------
NVML API Reference, sections "Device Queries" and "Multi Instance GPU Management".
"""

from __future__ import annotations

import functools
from typing import Any

from kerneldsl.errors import AttributeUnavailableError
from kerneldsl.utilities.locks import ForkSafeLock

__all__ = ["Nvml", "NvmlDevice", "get_nvml"]

# The bindings have renamed these members from release to release; the numbers are nvml.h's.
_TEMPERATURE_GPU = 0
_CLOCK_SM = 1
_CLOCK_MEM = 2
#: Value that NVML returns for an unknown number.
_NOT_AVAILABLE = 2**64 - 1


class Nvml:
    """The initialized library.

    `api` is ``cuda.bindings.nvml``, after a successful ``init_v2``.
    """

    def __init__(self, api: Any) -> None:
        self.api = api

    def call(self, name: str, *args: Any) -> Any:
        """Call a function of the library.

        Raises `AttributeUnavailableError` where the function is not in the bindings or the library,
        or NVML answered with an error.
        """
        function = getattr(self.api, name, None)
        if function is None:
            raise AttributeUnavailableError(f"These bindings of NVML have no {name}")
        try:
            return function(*args)
        except self.api.NvmlError as error:
            raise AttributeUnavailableError(
                f"NVML answered {type(error).__name__.removesuffix('Error')} to {name}: {error}"
            ) from error

    def driver_version(self) -> str:
        """Return the version of the driver, such as ``"580.95.05"``."""
        return str(self.call("system_get_driver_version"))


class NvmlDevice:
    """One GPU, or one instance of a GPU in MIG mode.

    The UUID is as ``nvidia-smi -L`` shows it, such as ``"GPU-…"`` or ``"MIG-…"``.
    """

    def __init__(self, nvml: Nvml, uuid: str) -> None:
        self._nvml = nvml
        self._handle = nvml.call("device_get_handle_by_uuid", uuid)
        # Temperature, power and clocks are of the whole GPU, not of an instance.
        self._whole = self._handle
        if uuid.startswith("MIG-"):
            self._whole = nvml.call("device_get_device_handle_from_mig_device_handle", self._handle)

    def free_memory_bytes(self) -> int:
        return int(self._nvml.call("device_get_memory_info_v2", self._handle).free)

    def utilization_percent(self) -> float:
        return float(self._nvml.call("device_get_utilization_rates", self._handle).gpu)

    def memory_utilization_percent(self) -> float:
        return float(self._nvml.call("device_get_utilization_rates", self._handle).memory)

    def temperature_celsius(self) -> float:
        return float(self._nvml.call("device_get_temperature_v", self._whole, _TEMPERATURE_GPU))

    def power_watts(self) -> float:
        return int(self._nvml.call("device_get_power_usage", self._whole)) / 1000

    def power_limit_watts(self) -> float:
        return int(self._nvml.call("device_get_enforced_power_limit", self._whole)) / 1000

    def current_clock_mhz(self) -> float:
        return self._clock("device_get_clock_info", _CLOCK_SM)

    def current_memory_clock_mhz(self) -> float:
        return self._clock("device_get_clock_info", _CLOCK_MEM)

    def max_clock_khz(self) -> int:
        return int(1000 * self._clock("device_get_max_clock_info", _CLOCK_SM))

    def max_memory_clock_khz(self) -> int:
        return int(1000 * self._clock("device_get_max_clock_info", _CLOCK_MEM))

    def memory_bus_width_bits(self) -> int:
        return _not_zero(int(self._nvml.call("device_get_memory_bus_width", self._whole)))

    def processes(self) -> tuple[tuple[int, int | None], ...]:
        """Return processes with a context here, and the bytes of each where NVML may report."""
        found = self._nvml.call("device_get_compute_running_processes_v3", self._handle)
        return tuple((int(each.pid), _known(int(each.used_gpu_memory))) for each in found)

    def _clock(self, function: str, domain: int) -> float:
        return float(_not_zero(int(self._nvml.call(function, self._whole, domain))))


def _known(number: int) -> int | None:
    return None if number == _NOT_AVAILABLE else number


def _not_zero(number: int) -> int:
    if not number:
        raise AttributeUnavailableError("NVML answered 0, which means that it does not know")
    return number


_lock = ForkSafeLock()


def get_nvml() -> Nvml:
    """Return the library, loaded at the first call that succeeds.

    Raises `AttributeUnavailableError` where the bindings or the library are missing, or it cannot
    be initialized; it says which.
    """
    with _lock:
        return _initialize()


@functools.cache
def _initialize() -> Nvml:
    try:
        from cuda.bindings import nvml as api
    except ImportError as error:
        raise AttributeUnavailableError(
            "It is read through NVML, which the installed cuda-bindings lack",
            remedy="Install a newer cuda-bindings",
        ) from error
    try:
        api.init_v2()
    except api.NvmlError as error:
        raise AttributeUnavailableError(f"NVML could not be initialized: {error}") from error
    except RuntimeError as error:  # what the bindings raise without a library
        raise AttributeUnavailableError(
            "NVML's library libnvidia-ml.so.1 (nvml.dll on Windows) was not found"
        ) from error
    return Nvml(api)
