"""Random configurations for the occupancy model, with every edge of its rules well visited."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kerneldsl.contract import Device, DeviceLimits
from kerneldsl.planner import COMPUTE_CAPABILITIES, DeviceOccupancyLimits, KernelResources
from tests.occupancy.header import INPUTS

__all__ = ["kernel_of_row", "limits_like_a_driver", "random_configurations"]

_KB = 1024
#: Threads on a multiprocessor of a device that no table has: NVIDIA has not published 10.7's.
_ASSUMED_THREADS = 2048


def limits_like_a_driver(
    capability: tuple[int, int],
    *,
    multiprocessors: int = 1,
    threads: int = _ASSUMED_THREADS,
    shared: int = 328 * _KB,
    blocks: int = 16,
) -> Device:
    """A device as the CUDA target describes it."""
    limits = DeviceLimits(
        max_threads_per_block=1024,
        max_block_dim=(1024, 1024, 64),
        max_grid_dim=(2**31 - 1, 65535, 65535),
        max_shared_memory_per_block=shared - _KB,
        warp_size=32,
        multiprocessor_count=multiprocessors,
    )
    extra = {
        "compute_capability": capability,
        "max_shared_memory_per_block": 48 * _KB,
        "max_shared_memory_per_multiprocessor": shared,
        "reserved_shared_memory_per_block": _KB,
        "max_registers_per_block": 65536,
        "max_registers_per_multiprocessor": 65536,
        "max_threads_per_multiprocessor": threads,
        "max_blocks_per_multiprocessor": blocks,
    }
    return Device("cuda", 0, "imagined", f"sm_{capability[0]}{capability[1]}", limits, extra)


def _devices(rng: np.random.Generator) -> list[DeviceOccupancyLimits]:
    """Each compute capability as it is, and with limits that a driver might tell instead."""
    found: list[DeviceOccupancyLimits] = []
    for capability in COMPUTE_CAPABILITIES:
        if capability == (10, 7):
            plain = DeviceOccupancyLimits.from_device(limits_like_a_driver(capability))
        else:
            plain = DeviceOccupancyLimits.for_compute_capability(capability)
        found += [plain] * 4
        for _ in range(8):
            shared = int(rng.choice(plain.shared_memory_carveouts[1:]))
            shared -= int(rng.choice([0, 0, _KB, 3 * _KB + 128]))
            shared = max(shared, 17 * _KB)
            reserved = plain.reserved_shared_memory_per_block and int(rng.choice([_KB, 2 * _KB]))
            found.append(
                replace(
                    plain,
                    max_threads_per_multiprocessor=int(rng.choice([1024, 1536, 2048, 2000])),
                    max_threads_per_block=int(rng.choice([1024, 1024, 512, 1000])),
                    max_registers_per_block=int(rng.choice([65536, 32768, 65535])),
                    max_registers_per_multiprocessor=int(rng.choice([65536, 131072, 65000])),
                    max_shared_memory_per_multiprocessor=shared,
                    max_shared_memory_per_block=min(48 * _KB, shared - reserved),
                    max_shared_memory_per_block_optin=shared - reserved,
                    reserved_shared_memory_per_block=reserved,
                    multiprocessor_count=int(rng.integers(1, 200)),
                )
            )
    return found


def random_configurations(
    rng: np.random.Generator, count: int
) -> tuple[np.ndarray, list[DeviceOccupancyLimits]]:
    """Configurations, and the device of each.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of everything random.
    count : int
        How many.

    Returns
    -------
    rows : ndarray of int64, shape (count, len(INPUTS))
        The configurations.
    devices : list of DeviceOccupancyLimits
        One a row; few different ones.
    """
    devices = _devices(rng)
    which = rng.integers(len(devices), size=count)
    chosen = [devices[i] for i in which]
    columns: dict[str, np.ndarray] = {
        "major": _of(chosen, lambda d: d.compute_capability[0]),
        "minor": _of(chosen, lambda d: d.compute_capability[1]),
        "kernel_max_threads_per_block": _mixed(
            rng, count, [1024, 2**31 - 1, 1, 31, 256], lambda n: rng.integers(1, 1100, n)
        ),
        "registers": _mixed(
            rng,
            count,
            [0, 1, 8, 9, 16, 24, 32, 33, 40, 64, 65, 80, 120, 128, 168, 169, 255, 256, 257],
            lambda n: rng.integers(0, rng.choice([64, 128, 257], n)),
        ),
        "barriers": _mixed(rng, count, [1, 1, 1, 0, 2, 16], lambda n: rng.integers(0, 9, n)),
        "virtual_resources": _mixed(
            rng, count, [0, 0, 0, 1, 128, 129], lambda n: rng.integers(0, 40, n)
        ),
        "block_threads": _mixed(
            rng,
            count,
            [1, 31, 32, 33, 64, 96, 128, 160, 192, 256, 384, 512, 544, 1000, 1023, 1024, 1025],
            lambda n: rng.integers(1, rng.choice([256, 512, 1100], n)),
        ),
        "carveout_percent": _mixed(
            rng, count, [-1, -1, -1, 0, 50, 100], lambda n: rng.integers(0, 101, n)
        ),
        "dynamic_bytes_per_thread": _mixed(
            rng, count, [0, 0, 4, 64], lambda n: rng.integers(0, 400, n)
        ),
        "wanted_blocks": _mixed(rng, count, [1, 1, 2, 4], lambda n: rng.integers(1, 34, n)),
    }
    for name in INPUTS[2:12]:
        columns[name] = _of(chosen, lambda d, name=name: getattr(d, name))
    _add_shared_memory(rng, count, chosen, columns)
    return np.stack([columns[name] for name in INPUTS], axis=1).astype(np.int64), chosen


def _add_shared_memory(
    rng: np.random.Generator,
    count: int,
    devices: list[DeviceOccupancyLimits],
    columns: dict[str, np.ndarray],
) -> None:
    """Static, dynamic and opted-in bytes, often within a few bytes of where an answer changes."""
    reserved = columns["reserved_shared_memory_per_block"]
    optin = columns["max_shared_memory_per_block_optin"]
    near = rng.choice([-129, -128, -127, -1, 0, 1, 127, 128, 129], count)
    carveout = _of(devices, lambda d: int(rng.choice(d.shared_memory_carveouts)))
    share = carveout // rng.integers(1, 34, count) + near
    limit = np.where(rng.random(count) < 0.5, 48 * _KB, optin) + rng.choice([-1, 0, 0, 1], count)
    total = np.select(
        [rng.random(count) < p for p in (0.25, 0.5, 0.3, 0.8)],
        [np.zeros(count, np.int64), share - reserved, limit, rng.integers(0, 32 * _KB, count)],
        rng.integers(0, 260 * _KB, count),
    ).clip(0)
    part = np.select([rng.random(count) < p for p in (0.4, 0.5)], [0.0, 1.0], rng.random(count))
    static = (total * part).astype(np.int64)
    dynamic = total - static
    room = (optin - static).clip(0)
    columns["static_shared_bytes"] = static
    columns["dynamic_shared_bytes"] = dynamic
    columns["max_dynamic_shared_bytes"] = np.select(
        [rng.random(count) < p for p in (0.2, 0.7, 0.4, 0.3)],
        [np.full(count, -1), room, dynamic, (dynamic - 1).clip(0)],
        rng.integers(0, 240 * _KB, count),
    )


def _of(devices, value) -> np.ndarray:
    return np.array([value(device) for device in devices], np.int64)


def _mixed(rng: np.random.Generator, count: int, edges: list[int], anything) -> np.ndarray:
    """Half edges, half anything."""
    return np.where(rng.random(count) < 0.5, rng.choice(edges, count), anything(count))


def kernel_of_row(row: dict[str, int]) -> KernelResources:
    """The kernel of a configuration."""
    cap, percent = row["max_dynamic_shared_bytes"], row["carveout_percent"]
    return KernelResources(
        registers=row["registers"],
        static_shared_bytes=row["static_shared_bytes"],
        max_threads_per_block=row["kernel_max_threads_per_block"],
        max_dynamic_shared_bytes=None if cap < 0 else cap,
        carveout_percent=None if percent < 0 else percent,
        barriers=row["barriers"],
        virtual_resources=row["virtual_resources"],
    )
