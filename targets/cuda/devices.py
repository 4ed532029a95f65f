"""What the driver says of a device, as the core's :class:`~kerneldsl.target.Device`.

References
----------
CUDA Driver API, section "Device Management", enumeration ``CUdevice_attribute``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kerneldsl.target import Device, DeviceLimits, Dim3
from targets.cuda.architectures import ARCHITECTURES

__all__ = ["describe_device"]

_LIMITS = (
    "MAX_THREADS_PER_BLOCK",
    "MAX_BLOCK_DIM_X",
    "MAX_BLOCK_DIM_Y",
    "MAX_BLOCK_DIM_Z",
    "MAX_GRID_DIM_X",
    "MAX_GRID_DIM_Y",
    "MAX_GRID_DIM_Z",
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "WARP_SIZE",
    "MULTIPROCESSOR_COUNT",
)
#: What planning and reports want beside the limits.
_EXTRA = (
    "COMPUTE_CAPABILITY_MAJOR",
    "COMPUTE_CAPABILITY_MINOR",
    "MAX_SHARED_MEMORY_PER_BLOCK",
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "RESERVED_SHARED_MEMORY_PER_BLOCK",
    "MAX_REGISTERS_PER_BLOCK",
    "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "MAX_THREADS_PER_MULTIPROCESSOR",
    "MAX_BLOCKS_PER_MULTIPROCESSOR",
    "L2_CACHE_SIZE",
    "ECC_ENABLED",
    "INTEGRATED",
    "PCI_BUS_ID",
)


def describe_device(api: Any, call: Callable[..., Any], index: int) -> Device:
    """Ask the driver everything about a device.

    Parameters
    ----------
    api : module
        ``cuda.bindings.driver``.
    call : callable
        :meth:`targets.cuda.driver.Driver.call`.
    index : int
        The device's number in the driver's order.

    Returns
    -------
    Device
        Its `extra` holds further attributes by the driver's names in lower case,
        ``compute_capability`` as a pair, and ``total_memory_bytes``.

    Raises
    ------
    DriverError
        The driver could not say.
    """
    handle = call(api.cuDeviceGet, index, doing=f"find cuda:{index}")
    name = call(api.cuDeviceGetName, 256, handle, doing=f"name cuda:{index}")
    total = call(api.cuDeviceTotalMem, handle, doing=f"measure cuda:{index}")
    values = {
        attribute: int(
            call(
                api.cuDeviceGetAttribute,
                getattr(api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{attribute}"),
                handle,
                doing=f"read {attribute} of cuda:{index}",
            )
        )
        for attribute in (*_LIMITS, *_EXTRA)
    }
    limits = DeviceLimits(
        max_threads_per_block=values["MAX_THREADS_PER_BLOCK"],
        max_block_dim=_along_axes(values, "MAX_BLOCK_DIM"),
        max_grid_dim=_along_axes(values, "MAX_GRID_DIM"),
        # Devices that know no opt-in answer 0.
        max_shared_memory_per_block=values["MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"]
        or values["MAX_SHARED_MEMORY_PER_BLOCK"],
        warp_size=values["WARP_SIZE"],
        multiprocessor_count=values["MULTIPROCESSOR_COUNT"],
    )
    major, minor = values["COMPUTE_CAPABILITY_MAJOR"], values["COMPUTE_CAPABILITY_MINOR"]
    extra: dict[str, Any] = {attribute.lower(): values[attribute] for attribute in _EXTRA}
    extra["compute_capability"] = (major, minor)
    extra["total_memory_bytes"] = int(total)
    text = bytes(name).split(b"\0")[0].decode(errors="replace")
    return Device("cuda", index, text, _arch_for(major, minor), limits, extra)


def _arch_for(major: int, minor: int) -> str:
    """The newest architecture that can be compiled for and that the device runs."""
    number = 10 * major + minor
    plain = [a for a in ARCHITECTURES.values() if not a.suffix and a.number <= number]
    # A device newer than any in the table runs the newest PTX; one that is older than all gets its
    # own name, which the compiler then refuses.
    return max(plain, key=lambda a: a.number).name if plain else f"sm_{number}"


def _along_axes(values: dict[str, int], name: str) -> Dim3:
    return values[f"{name}_X"], values[f"{name}_Y"], values[f"{name}_Z"]
