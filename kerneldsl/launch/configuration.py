"""Configuration of a launch, from a decided request and its executable."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from kerneldsl.contract import Device, Executable, HostShare, LaunchConfig
from kerneldsl.errors import LaunchConfigError
from kerneldsl.launch.attributes import NO_ATTRIBUTES, check_attributes, in_clusters, runs_at_once
from kerneldsl.launch.decision import is_planned, tiled_config
from kerneldsl.launch.dimensions import check_limits
from kerneldsl.launch.request import Request
from kerneldsl.launch.shape import LaunchShape
from kerneldsl.planner.candidates import Candidate, fit_grid

if TYPE_CHECKING:
    from kerneldsl.planner.work import ElementWork

__all__ = ["configure", "host_share", "host_work", "shared_extent"]

#: Checked configurations of one executable that are remembered.
_MAX_CONFIGS = 1024


def configure(request: Request, executable: Executable) -> LaunchConfig:
    """Find grid and block of a launch, checked; the executable remembers them.

    Raises
    ------
    LaunchConfigError
        If the device cannot run this shape.
    """
    shape, device, candidate = request.shape, request.device, request.candidate
    if shape.extent is not None and candidate is not None and is_planned(request):
        config = _planned_config(candidate, shape, device)
    elif shape.extent is not None:
        if shape.tile is not None:
            config = _in_one_wave(request, executable, tiled_config(shape))
        else:
            config = device.compiler.forall_config(executable, shape.extent, shape.block_dim)
            config = replace(config, extent=shape.extent, shared_bytes=shape.shared_bytes)
        check_limits(device, config.grid_dim, config.block_dim, 0, 0, shape.extent)
    else:
        assert shape.grid_dim is not None
        assert shape.block_dim is not None
        config = LaunchConfig(shape.grid_dim, shape.block_dim, shared_bytes=shape.shared_bytes)
    if shape.launch_attributes != NO_ATTRIBUTES or request.state.traits.syncs_grid:
        config = _add_attributes(request, executable, config)
    if device.is_shared_out:
        given = None if shape.plan is None else shape.plan.host
        measured = None if candidate is None else candidate.host
        config = replace(config, share=given or measured or host_share(request, config))
    if len(executable.configs) >= _MAX_CONFIGS:
        executable.configs.clear()
    executable.configs[shape.key] = config
    return config


def _in_one_wave(request: Request, executable: Executable, config: LaunchConfig) -> LaunchConfig:
    """Return as many blocks as a GPU runs at once, if a kernel loops over more tiles than that.

    A block then loads its next tile while it stores one.
    """
    shape, device = request.shape, request.device
    if not request.state.traits.loops_over_tiles or device.is_shared_out:
        return config
    assert shape.extent is not None
    wave = device.compiler.forall_config(executable, shape.extent, shape.block_dim)
    is_longer = math.prod(wave.grid_dim) < math.prod(config.grid_dim)
    return replace(config, grid_dim=wave.grid_dim) if is_longer else config


def _planned_config(candidate: Candidate, shape: LaunchShape, device: Device) -> LaunchConfig:
    """Return the configuration of a launch, given its block and mapping."""
    assert shape.extent is not None
    grid_dim = fit_grid(
        candidate.mapping, shape.extent, candidate.block_dim, device.limits.max_grid_dim
    )
    if grid_dim is None:
        blocks = candidate.mapping.blocks(shape.extent, candidate.block_dim)
        raise LaunchConfigError(
            f"the extent {shape.extent} needs {blocks} blocks of {candidate.block_dim} threads",
            value=shape.extent,
            limit=f"{device} allows {device.limits.max_grid_dim} (MAX_GRID_DIM)",
            remedy="Use a larger block, or put the longest axis of the extent first",
        )
    return LaunchConfig(
        grid_dim, candidate.block_dim, shape.extent, shared_bytes=shape.shared_bytes
    )


def shared_extent(request: Request, config: LaunchConfig) -> tuple[int, ...]:
    """Return what threads of the host share: indices, or threads of blocks."""
    if config.extent is None or request.state.traits.uses_block:
        return (math.prod(config.grid_dim) * math.prod(config.block_dim),)
    return config.extent


def host_share(request: Request, config: LaunchConfig) -> HostShare | None:
    """Return how threads of the host share a launch."""
    pool = request.device.thread_pool()
    if pool is None:
        return None
    from kerneldsl.planner.host import element_ns, share_on_host

    extent = shared_extent(request, config)
    each_ns = element_ns(host_work(request, config), extent)
    return share_on_host(math.prod(extent), each_ns, *pool)


def host_work(request: Request, config: LaunchConfig) -> ElementWork:
    """Return what the host does for an index of :func:`shared_extent`."""
    from kerneldsl.analysis.work import UNKNOWN_TRIPS
    from kerneldsl.launch.work import kernel_work
    from kerneldsl.planner.work import element_work

    traits, extent = request.state.traits, shared_extent(request, config)
    trips: float = UNKNOWN_TRIPS
    if config.extent and traits.uses_block:
        trips = max(trips, math.prod(config.extent) / max(math.prod(extent), 1))
    is_mapped = traits.uses_grid_only and config.extent is not None
    body = kernel_work(request).body(x_is_last=is_mapped, unknown_trips=trips)
    return element_work(body, request.kinds)


def _add_attributes(request: Request, executable: Executable, config: LaunchConfig) -> LaunchConfig:
    """Return the configuration with the launch attributes, checked against the device."""
    name, launch_attributes = request.state.unit.qualname, request.shape.launch_attributes
    if config.extent is not None and not request.state.traits.uses_block:
        raise LaunchConfigError(
            f"cluster and cooperative do not apply to forall of the element kernel {name}",
            value=launch_attributes,
            limit="They are for kernels that use block-level operations",
            remedy=f"Leave them out, or launch {name}[grid, block](…)",
        )
    if launch_attributes.cluster_dim is not None and config.extent is not None:
        config = in_clusters(config, launch_attributes.cluster_dim)
    config = replace(
        config,
        cluster_dim=launch_attributes.cluster_dim,
        is_cooperative=runs_at_once(launch_attributes, request.state.traits, request.device),
    )
    resources = None if executable.device.is_shared_out else executable.resources
    syncs_grid = request.state.traits.syncs_grid
    check_attributes(name, config, executable.device, resources, syncs_grid=syncs_grid)
    return config
