"""Everything that the driver and NVML say of a device, as the core's ``DeviceInfo``.

For several attributes the driver answers 0 if it does not know. Those are listed here. Their values
are then read from NVML, or are unavailable. No context is made for a description: on a GPU a
context takes some hundred megabytes.

References
----------
CUDA Driver API, enumeration ``CUdevice_attribute`` and section "Device Management"; NVML API
Reference, "Device Queries". PTX ISA 9.0: ``fma`` (``.f16`` from sm_53, ``.bf16`` from sm_80),
``cvt`` (``.e4m3x2`` from sm_89), ``wmma`` (from sm_70). CUDA Programming Guide, appendix "Compute
Capabilities". NVIDIA Turing GPU Architecture: TU116 and TU117 are chips of compute capability 7.5
without tensor cores.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import Device, DeviceInfo
from kerneldsl.errors import AttributeUnavailableError
from kerneldsl.utilities.formatting import format_version
from targets.cuda.driver.attributes import ATTRIBUTES, read_pci_address
from targets.cuda.driver.nvml import NvmlDevice, get_nvml

if TYPE_CHECKING:
    from targets.cuda.driver.driver import Driver

__all__ = ["abilities_of", "add_peak_bandwidth", "describe", "format_uuid", "known_at_once"]

_LIVE = (
    "utilization_percent",
    "memory_utilization_percent",
    "temperature_celsius",
    "power_watts",
    "power_limit_watts",
    "current_clock_mhz",
    "current_memory_clock_mhz",
    "processes",
)
_PEAK = "2 · {clock} kHz · {bits} bits / 8: the memory moves data twice a clock"

#: First compute capability, its innovation, and the document for it, by attribute.
_SINCE = {
    "supports_fp16": ((5, 3), "arithmetic in float16", "PTX ISA, fma.f16"),
    "supports_bf16": ((8, 0), "arithmetic in bfloat16", "PTX ISA, fma.bf16"),
    "supports_fp8": ((8, 9), "conversions and products of e4m3 and e5m2", "PTX ISA, cvt.e4m3x2"),
    "supports_tensor_cores": ((7, 0), "tensor cores", "PTX ISA, wmma"),
}
#: Products with a TU116 or TU117.
_TURING_WITHOUT_TENSOR_CORES = re.compile(
    r"\bGTX 16\d0|\bMX[45]50\b|\bT(?:400|500|550|600|1000|1200|2000)\b"
)


def describe(driver: Driver, device: Device) -> DeviceInfo:
    """Describe a device.

    Raises `DriverError` where the driver does not find the device.
    """
    api = driver.api
    handle = driver.call(api.cuDeviceGet, device.index, doing=f"find {device}")
    values, unavailable, reasons = known_at_once(device)
    values["cuda_driver_version"] = driver.cuda_version
    address = read_pci_address(api, handle)
    if address is not None:
        values["pci_address"] = address
    status, *answer = getattr(api, "cuDeviceGetUuid_v2", api.cuDeviceGetUuid)(handle)
    if not int(status) and answer:
        values["uuid"] = format_uuid(bytes(answer[0].bytes), is_instance=" MIG " in device.name)
    readers = _readers(driver, device, values)
    add_peak_bandwidth(values, reasons, readers)
    return DeviceInfo(device, values, unavailable, reasons, readers)


def known_at_once(device: Device) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    """Derive from the `extra` of a device: values, what is unavailable, and reasons."""
    extra = device.extra
    values: dict[str, Any] = {
        name: extra[name] for name in ("compute_capability", "total_memory_bytes") if name in extra
    }
    unavailable, reasons = {}, {}
    for field, attribute in ATTRIBUTES.items():
        found = extra.get(attribute.name.lower())
        if found is None:
            unavailable[field] = f"This driver, or its bindings, do not know {attribute.name}"
        elif found or attribute.may_be_zero or attribute.is_flag:
            values[field] = bool(found) if attribute.is_flag else found
        else:
            unavailable[field] = f"The driver answered 0 for {attribute.name}: it does not know"
    if "compute_capability" in values:
        for field, (is_so, why) in abilities_of(device.name, values["compute_capability"]).items():
            values[field], reasons[field] = is_so, why
    return values, unavailable, reasons


def format_uuid(raw: bytes, *, is_instance: bool) -> str:
    """Write a UUID as ``nvidia-smi -L`` and ``CUDA_VISIBLE_DEVICES`` do.

    Examples
    --------
    >>> format_uuid(bytes(range(16)), is_instance=False)
    'GPU-00010203-0405-0607-0809-0a0b0c0d0e0f'
    """
    digits = raw.hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return f"{'MIG' if is_instance else 'GPU'}-{'-'.join(parts)}"


def _readers(
    driver: Driver, device: Device, values: dict[str, Any]
) -> dict[str, Callable[[], Any]]:
    """Return what is read when it is requested: it changes, or needs another library."""
    find = functools.cache(lambda: NvmlDevice(get_nvml(), _uuid_in(values, device)))
    readers: dict[str, Callable[[], Any]] = {
        name: functools.partial(_read, find, name) for name in _LIVE
    }
    readers["free_memory_bytes"] = functools.partial(_free_memory, driver, device, find)
    readers["driver_version"] = lambda: get_nvml().driver_version()
    readers["runtime_version"] = _runtime_version
    for field, reader in (
        ("clock_rate_khz", "max_clock_khz"),
        ("memory_clock_rate_khz", "max_memory_clock_khz"),
        ("memory_bus_width_bits", "memory_bus_width_bits"),
    ):
        if field not in values:
            readers[field] = functools.partial(_read, find, reader)
    return readers


def _read(find: Callable[[], NvmlDevice], name: str) -> Any:
    return getattr(find(), name)()


def _uuid_in(values: dict[str, Any], device: Device) -> str:
    uuid = values.get("uuid")
    if uuid is None:
        raise AttributeUnavailableError(f"The driver reports no UUID to find {device} in NVML")
    return str(uuid)


def _free_memory(driver: Driver, device: Device, find: Callable[[], NvmlDevice]) -> int:
    """Read it in the context if there is one; else from NVML, which needs no context."""
    if device.index not in driver.contexts:
        try:
            return find().free_memory_bytes()
        except AttributeUnavailableError:
            pass  # the driver will make a context, and say
    doing = f"measure the memory of {device}"
    free, _ = driver.call_on(device.index, driver.api.cuMemGetInfo, doing=doing)
    return int(free)


def _runtime_version() -> tuple[int, int]:
    try:
        from cuda.bindings import runtime
    except ImportError as error:
        raise AttributeUnavailableError("cuda.bindings.runtime cannot be imported") from error
    status, version = runtime.cudaRuntimeGetVersion()
    if int(status):
        raise AttributeUnavailableError(f"The CUDA runtime answered {status!r}")
    return version // 1000, version % 1000 // 10


def add_peak_bandwidth(
    values: dict[str, Any], reasons: dict[str, str], readers: dict[str, Callable[[], Any]]
) -> None:
    """Add the peak bandwidth, or what reads it, if a part of it has to be read."""

    def part(name: str) -> int:
        return int(values[name] if name in values else readers[name]())

    def peak() -> float:
        return 2 * part("memory_clock_rate_khz") * 1000 * part("memory_bus_width_bits") / 8

    name = "peak_bandwidth_bytes_per_s"
    clock, bits = values.get("memory_clock_rate_khz"), values.get("memory_bus_width_bits")
    if clock and bits:
        values[name] = peak()
    else:
        readers[name] = peak
    reasons[name] = _PEAK.format(
        clock=clock or "NVML's memory clock", bits=bits or "NVML's bus width"
    )


def abilities_of(name: str, compute_capability: tuple[int, int]) -> Mapping[str, tuple[bool, str]]:
    """Say what a GPU can do.

    The result maps attributes of :class:`~kerneldsl.DeviceInfo` to value and reason.

    Examples
    --------
    >>> abilities_of("NVIDIA A100-SXM4-80GB", (8, 0))["supports_bf16"]
    (True, 'Compute capability 8.0; arithmetic in bfloat16 came with 8.0 (PTX ISA, fma.bf16)')
    """
    found = {}
    for attribute, (since, what, where) in _SINCE.items():
        found[attribute] = (
            compute_capability >= since,
            f"Compute capability {format_version(compute_capability)}; {what} came with "
            f"{format_version(since)} ({where})",
        )
    if compute_capability == (7, 5) and _TURING_WITHOUT_TENSOR_CORES.search(name):
        found["supports_tensor_cores"] = (
            False,
            f"{name} has a chip of the Turing family that was made without tensor cores (TU116, "
            "TU117)",
        )
    return found
