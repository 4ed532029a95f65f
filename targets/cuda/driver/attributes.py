"""Devices of the driver, as the core's light :class:`~kerneldsl.contract.Device`.

This is what starting and launching need; everything else that can be known is
:mod:`targets.cuda.device.description`'s.

References
----------
CUDA Driver API, section "Device Management", enumeration ``CUdevice_attribute``; NVIDIA Virtual GPU
Software User Guide, section "Virtual GPU Types" (the names of shares of a GPU).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kerneldsl.contract import Device, DeviceLimits
from targets.cuda.architectures import ARCHITECTURES

if TYPE_CHECKING:
    from kerneldsl.contract import DeviceKind, Dim3

__all__ = ["ATTRIBUTES", "Attribute", "describe_device", "read_attribute", "read_pci_address"]


class Attribute(NamedTuple):
    """Driver query of a device attribute; a description has its name in lower case."""

    name: str
    is_flag: bool = False
    #: Whether 0 is a value of the attribute; otherwise it means that the driver does not know it.
    may_be_zero: bool = False


#: Attributes of :class:`~kerneldsl.DeviceInfo` that the driver has under another name.
ATTRIBUTES = {
    "clock_rate_khz": Attribute("CLOCK_RATE"),
    "memory_clock_rate_khz": Attribute("MEMORY_CLOCK_RATE"),
    "memory_bus_width_bits": Attribute("GLOBAL_MEMORY_BUS_WIDTH"),
    "l2_cache_bytes": Attribute("L2_CACHE_SIZE"),
    "constant_memory_bytes": Attribute("TOTAL_CONSTANT_MEMORY"),
    "async_engine_count": Attribute("ASYNC_ENGINE_COUNT", may_be_zero=True),
    "max_threads_per_multiprocessor": Attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
    "max_blocks_per_multiprocessor": Attribute("MAX_BLOCKS_PER_MULTIPROCESSOR"),
    "max_registers_per_block": Attribute("MAX_REGISTERS_PER_BLOCK"),
    "max_registers_per_multiprocessor": Attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
    "max_shared_memory_per_block_bytes": Attribute("MAX_SHARED_MEMORY_PER_BLOCK"),
    "max_shared_memory_per_multiprocessor_bytes": Attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
    # The driver reserves no shared memory before compute capability 8.0.
    "reserved_shared_memory_per_block_bytes": Attribute(
        "RESERVED_SHARED_MEMORY_PER_BLOCK", may_be_zero=True
    ),
    "is_ecc_enabled": Attribute("ECC_ENABLED", is_flag=True),
    "is_integrated": Attribute("INTEGRATED", is_flag=True),
    "has_unified_addressing": Attribute("UNIFIED_ADDRESSING", is_flag=True),
    "supports_managed_memory": Attribute("MANAGED_MEMORY", is_flag=True),
    "supports_memory_pools": Attribute("MEMORY_POOLS_SUPPORTED", is_flag=True),
    "supports_concurrent_kernels": Attribute("CONCURRENT_KERNELS", is_flag=True),
    "supports_cooperative_launch": Attribute("COOPERATIVE_LAUNCH", is_flag=True),
    "supports_cluster_launch": Attribute("CLUSTER_LAUNCH", is_flag=True),
}
_LIMITS = (
    "MAX_THREADS_PER_BLOCK",
    "MAX_BLOCK_DIM_X",
    "MAX_BLOCK_DIM_Y",
    "MAX_BLOCK_DIM_Z",
    "MAX_GRID_DIM_X",
    "MAX_GRID_DIM_Y",
    "MAX_GRID_DIM_Z",
    "MAX_SHARED_MEMORY_PER_BLOCK",
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "WARP_SIZE",
    "MULTIPROCESSOR_COUNT",
    "COMPUTE_CAPABILITY_MAJOR",
    "COMPUTE_CAPABILITY_MINOR",
)
#: Attributes that planning needs besides the limits and the description of a device.
_EXTRA = ("PCI_BUS_ID", *(attribute.name for attribute in ATTRIBUTES.values()))
#: The profile at the end of a virtual GPU's name: ``-8Q``, ``-1-5C``, ``-4CME``.
_VIRTUAL_PROFILE = re.compile(r"^GRID |-\d+(?:-\d+)?(?:[QBAC]|CME)\b")


def describe_device(api: Any, call: Callable[..., Any], index: int) -> Device:
    """Query the driver for what launching, planning and choosing need.

    Its `extra` holds further attributes by the driver's names in lower case, where the driver knows
    them, ``compute_capability`` as a pair, and ``total_memory_bytes``.

    Raises `DriverError` where the driver could not say what a launch needs to know.
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
        for attribute in _LIMITS
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
    optional = {attribute: read_attribute(api, handle, attribute) for attribute in _EXTRA}
    extra: dict[str, Any] = {
        attribute.lower(): value
        for attribute, value in (values | optional).items()
        if value is not None
    }
    extra["compute_capability"] = (major, minor)
    extra["total_memory_bytes"] = int(total)
    text = bytes(name).split(b"\0")[0].decode(errors="replace")
    kind = _kind_of(text, bool(optional["INTEGRATED"]))
    return Device("cuda", index, text, _arch_for(major, minor), limits, extra, kind)


def read_attribute(api: Any, handle: Any, attribute: str) -> int | None:
    """Read an attribute that the bindings or the driver may be too old to know.

    Its name is the driver's without ``CU_DEVICE_ATTRIBUTE_``. What is not known is no error, so
    nothing of it is logged.
    """
    member = getattr(api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{attribute}", None)
    if member is None:
        return None
    status, *value = api.cuDeviceGetAttribute(member, handle)
    return int(value[0]) if not int(status) else None


def read_pci_address(api: Any, handle: Any) -> str | None:
    """Read where a device is on the PCI bus, such as ``"0000:1b:00.0"``; ``None`` if unknown."""
    domain, bus, slot = (
        read_attribute(api, handle, f"PCI_{part}_ID") for part in ("DOMAIN", "BUS", "DEVICE")
    )
    if domain is None or bus is None or slot is None:
        return None
    return f"{domain:04x}:{bus:02x}:{slot:02x}.0"


def _kind_of(name: str, is_integrated: bool) -> DeviceKind:
    """Return what a GPU is; the driver says only whether it is integrated."""
    if is_integrated:
        return "integrated"
    return "virtual" if _VIRTUAL_PROFILE.search(name) else "discrete"


def _arch_for(major: int, minor: int) -> str:
    """Return the newest architecture that can be compiled for and that the device runs."""
    number = 10 * major + minor
    plain = [a for a in ARCHITECTURES.values() if not a.suffix and a.number <= number]
    # A device newer than any in the table runs the newest PTX. One that is older than all gets its
    # own name, and the compiler refuses it.
    return max(plain, key=lambda a: a.number).name if plain else f"sm_{number}"


def _along_axes(values: dict[str, int], name: str) -> Dim3:
    return values[f"{name}_X"], values[f"{name}_Y"], values[f"{name}_Z"]
