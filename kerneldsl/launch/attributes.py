"""Launches with blocks that run together: cooperative ones, and clusters of blocks.

What a device must have for them is checked before the launch, and said in words.

References
----------
CUDA C++ Programming Guide, sections "Cooperative Groups" and "Thread Block Clusters"; CUDA Driver
API, ``cuLaunchKernelEx``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from kerneldsl.errors import ArgumentValueError, LaunchConfigError
from kerneldsl.errors.values import safe_repr
from kerneldsl.utilities.flags import read_flag

if TYPE_CHECKING:
    from kerneldsl.analysis.traits import KernelTraits
    from kerneldsl.contract import Device, Dim3, LaunchConfig, Resources
    from kerneldsl.planner import Occupancy

__all__ = [
    "NO_ATTRIBUTES",
    "LaunchAttributes",
    "check_attributes",
    "in_clusters",
    "read_attributes",
    "resident_blocks",
    "runs_at_once",
]

#: Blocks of a cluster that every device with clusters can hold.
_MAX_CLUSTER_BLOCKS = 8


class LaunchAttributes(NamedTuple):
    """Concurrency of a launch's blocks: clusters and cooperative launches."""

    #: Blocks of a cluster, which run on neighbouring multiprocessors.
    cluster_dim: Dim3 | None = None
    #: Whether all blocks of the grid run concurrently.
    is_cooperative: bool = False


#: Blocks run when there is room for them.
NO_ATTRIBUTES = LaunchAttributes()


def read_attributes(cluster: object, cooperative: object) -> LaunchAttributes:
    """Read the options of a decorator or launch.

    - raises `ArgumentTypeError`, `ArgumentValueError` if `cluster` is no 1-3 ints of at least 1, or
      `cooperative` no bool.
    """
    cooperative = read_flag("cooperative", cooperative)
    if cluster is None:
        return LaunchAttributes(None, cooperative) if cooperative else NO_ATTRIBUTES
    parts = cluster if isinstance(cluster, tuple) else (cluster,)
    if not 1 <= len(parts) <= 3 or any(type(n) is not int or not 1 <= n < 2**31 for n in parts):
        raise ArgumentValueError(
            f"cluster is {safe_repr(cluster)}",
            value=cluster,
            limit="A cluster must be an int or a tuple of 1 to 3 ints: blocks along x, y and z",
        )
    x, y, z = (*parts, 1, 1)[:3]
    if x * y * z > _MAX_CLUSTER_BLOCKS:
        raise ArgumentValueError(
            f"cluster {safe_repr(cluster)} has {x * y * z} blocks",
            value=cluster,
            limit=f"A cluster has {_MAX_CLUSTER_BLOCKS} blocks at most on every device that has "
            "clusters",
            remedy="Use a smaller one",
        )
    return LaunchAttributes((x, y, z), cooperative)


def runs_at_once(attributes: LaunchAttributes, traits: KernelTraits, device: Device) -> bool:
    """Return whether all blocks of a launch must be on a device at once: a cooperative launch.

    A barrier of the grid needs that, but on a host, where blocks take turns between barriers.
    """
    return not device.is_host if traits.syncs_grid else attributes.is_cooperative


def in_clusters(config: LaunchConfig, cluster_dim: Dim3) -> LaunchConfig:
    """Round a configuration's grid up to whole clusters."""
    from kerneldsl.contract import LaunchConfig

    x, y, z = (
        -(-blocks // width) * width
        for blocks, width in zip(config.grid_dim, cluster_dim, strict=True)
    )
    return LaunchConfig(
        (x, y, z), config.block_dim, config.extent, config.stream, config.shared_bytes
    )


def check_attributes(
    kernel: str,
    config: LaunchConfig,
    device: Device,
    resources: Resources | None,
    *,
    syncs_grid: bool = False,
) -> None:
    """Check a launch against what the device has.

    - `kernel`: name of the kernel.
    - `config`: configuration of the launch.
    - `device`: device of the launch.
    - `resources`: resources of the kernel, if they are known.
    - `syncs_grid`: whether it is the kernel's barrier of the grid for which a launch is
      cooperative.
    - raises `LaunchConfigError`: the device has no such launches, the cluster does not divide the
      grid, or the blocks of a cooperative launch do not fit on it at once.
    """
    if config.cluster_dim is not None:
        _require(kernel, device, "cluster_launch", "clusters of blocks", "9.0")
        if any(
            blocks % width
            for blocks, width in zip(config.grid_dim, config.cluster_dim, strict=True)
        ):
            raise LaunchConfigError(
                f"grid_dim {config.grid_dim} of {kernel} is not made of clusters of "
                f"{config.cluster_dim} blocks",
                value=config.grid_dim,
                limit="Along each axis the cluster divides the grid",
                remedy="Round the grid up, and let the kernel test its index",
            )
    if config.is_cooperative:
        instead = "Split the kernel at its barriers of the grid" if syncs_grid else ""
        _require(kernel, device, "cooperative_launch", "cooperative launches", "6.0", instead)
        if resources is not None and resources.registers is not None:
            _check_room(kernel, config, device, resources, syncs_grid=syncs_grid)


def _require(
    kernel: str, device: Device, attribute: str, what: str, since: str, instead: str = ""
) -> None:
    if not device.extra.get(attribute):
        raise LaunchConfigError(
            f"{kernel} was launched with {what} on {device} ({device.name})",
            value=attribute.upper(),
            limit=f"The device has no {what}; NVIDIA's have them "
            f"(CU_DEVICE_ATTRIBUTE_{attribute.upper()}) from compute capability {since} on",
            remedy=instead or "Launch it without them there",
        )


def _check_room(
    kernel: str,
    config: LaunchConfig,
    device: Device,
    resources: Resources,
    *,
    syncs_grid: bool,
) -> None:
    try:
        held, room = resident_blocks(
            device, resources, math.prod(config.block_dim), config.shared_bytes
        )
    except ArgumentValueError:  # older than the model of occupancy; the driver will say
        return
    blocks = math.prod(config.grid_dim)
    if blocks > room:
        raise LaunchConfigError(
            f"{kernel} has a barrier of the grid, and was launched with {blocks} blocks"
            if syncs_grid
            else f"a cooperative launch of {kernel} has {blocks} blocks",
            value=config.grid_dim,
            limit=f"{device} holds {room} of them at once: {held.summary()}",
            remedy="Use fewer blocks, and let each thread do several elements in a loop over "
            "kd.gridsize",
        )


def resident_blocks(
    device: Device, resources: Resources, block_threads: int, shared_bytes: int
) -> tuple[Occupancy, int]:
    """Return the occupancy of a kernel, and how many of its blocks a device holds at once.

    Raises `ArgumentValueError` for devices that are older than the model of occupancy.
    """
    from kerneldsl.planner import DeviceOccupancyLimits, KernelResources, occupancy

    limits = DeviceOccupancyLimits.from_device(device)
    held = occupancy(
        limits, KernelResources.from_resources(resources, limits), block_threads, shared_bytes
    )
    return held, held.active_blocks * limits.multiprocessor_count
