"""Devices that the null target can pretend to have.

References
----------
CUDA Programming Guide, "Compute Capabilities"; NVIDIA H100 Tensor Core GPU Architecture, table
"H100 SXM5"; CUDA Driver API, enumeration ``CUdevice_attribute`` for the names.
"""

from __future__ import annotations

from kerneldsl.target import Device, DeviceLimits

__all__ = ["H100", "SMALL_OLD_CARD"]

_GRID = (2**31 - 1, 65535, 65535)
_BLOCK = (1024, 1024, 64)

#: An H100 SXM5 with 80 GB under a driver of CUDA 13.0.
H100 = Device(
    "null",
    0,
    "NVIDIA H100 80GB HBM3 (described)",
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
    },
)

#: A GeForce GTX 1050 with 2 GB under a driver of CUDA 11.8: no shared memory beyond 48 KB.
SMALL_OLD_CARD = Device(
    "null",
    0,
    "GeForce GTX 1050 (described)",
    "sm_61",
    DeviceLimits(1024, _BLOCK, _GRID, 49152, 32, 5),
    {
        "compute_capability": (6, 1),
        "cuda_version": (11, 8),
        "total_memory_bytes": 2 * 2**30,
        "max_shared_memory_per_block": 49152,
        "max_shared_memory_per_multiprocessor": 98304,
        "reserved_shared_memory_per_block": 0,
        "max_registers_per_block": 65536,
        "max_registers_per_multiprocessor": 65536,
        "max_threads_per_multiprocessor": 2048,
        "max_blocks_per_multiprocessor": 32,
        "l2_cache_size": 2**20,
    },
)
