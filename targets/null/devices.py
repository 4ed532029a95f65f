"""Devices that the null target can pretend to have.

References
----------
CUDA Programming Guide, "Compute Capabilities"; NVIDIA H100 Tensor Core GPU Architecture, table
"H100 SXM5"; CUDA Driver API, enumeration ``CUdevice_attribute`` for the names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kerneldsl.contract import Device, DeviceInfo, DeviceLimits
from targets.cuda.device.description import add_peak_bandwidth, known_at_once

__all__ = ["H100", "SMALL_OLD_CARD", "describe"]

_GRID = (2**31 - 1, 65535, 65535)
_BLOCK = (1024, 1024, 64)

#: An H100 SXM5 with 80 GB under a driver of CUDA 13.0.
H100 = Device(
    "null",
    0,
    "NVIDIA H100 80GB HBM3 (no hardware)",
    "sm_90",
    DeviceLimits(1024, _BLOCK, _GRID, 232448, 32, 132),
    {
        "compute_capability": (9, 0),
        "cuda_version": (13, 0),
        "total_memory_bytes": 85_017_493_504,
        "max_shared_memory_per_block": 49152,
        "max_shared_memory_per_multiprocessor": 233472,
        "reserved_shared_memory_per_block": 1024,
        "max_registers_per_block": 65536,
        "max_registers_per_multiprocessor": 65536,
        "max_threads_per_multiprocessor": 2048,
        "max_blocks_per_multiprocessor": 32,
        "l2_cache_size": 50 * 2**20,
        "clock_rate": 1_980_000,
        "memory_clock_rate": 2_619_000,
        "global_memory_bus_width": 5120,
        "total_constant_memory": 65536,
        "async_engine_count": 3,
        "ecc_enabled": 1,
        "integrated": 0,
        "unified_addressing": 1,
        "managed_memory": 1,
        "memory_pools_supported": 1,
        "concurrent_kernels": 1,
        "cooperative_launch": 1,
        "cluster_launch": 1,
    },
    "discrete",
)

#: A GeForce GTX 1050 with 2 GB under a driver of CUDA 11.8: no shared memory beyond 48 KB.
SMALL_OLD_CARD = replace(
    H100,
    name="GeForce GTX 1050 (no hardware)",
    arch="sm_61",
    limits=DeviceLimits(1024, _BLOCK, _GRID, 49152, 32, 5),
    extra={
        **H100.extra,
        "compute_capability": (6, 1),
        "cuda_version": (11, 8),
        "total_memory_bytes": 2 * 2**30,
        "max_shared_memory_per_multiprocessor": 98304,
        "reserved_shared_memory_per_block": 0,
        "l2_cache_size": 2**20,
        "clock_rate": 1_493_000,
        "memory_clock_rate": 3_504_000,
        "global_memory_bus_width": 128,
        "ecc_enabled": 0,
        "cluster_launch": 0,
    },
)

_NOTHING_RUNS = "The device is described, and does not exist"


def describe(device: Device) -> DeviceInfo:
    """Describe a described device in full; what its `extra` lacks is unavailable."""
    values, _, reasons = known_at_once(device)
    readers: dict[str, Callable[[], Any]] = {}
    if "cuda_version" in device.extra:
        values["cuda_driver_version"] = device.extra["cuda_version"]
    if "memory_clock_rate_khz" in values and "memory_bus_width_bits" in values:
        add_peak_bandwidth(values, reasons, readers)
    described = DeviceInfo(device, values)
    left = (field.name for field in described.fields() if field.name not in described.values)
    if "total_memory_bytes" in values:
        readers["free_memory_bytes"] = lambda: (device.memory_info() or (None,))[0]
    return DeviceInfo(device, values, dict.fromkeys(left, _NOTHING_RUNS), reasons, readers)
