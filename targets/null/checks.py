"""Errors that a driver would report: PTX for another device, impossible grids, invalid pointers.

References
----------
PTX ISA, sections "PTX Module Directives" (``.version``, ``.target``) and "Kernel and Function
Directives" (``.entry``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kerneldsl.contract import Device, LaunchConfig
from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.errors import CompileError, LaunchConfigError
from kerneldsl.utilities.formatting import format_version
from targets.cuda.architectures import parse_arch, ptx_version_for_driver
from targets.cuda.compile.ptx_text import read_header
from targets.null.memory import AddressSpace

__all__ = ["check_arrays", "check_config", "check_ptx", "unpack_parameters"]


def check_ptx(ptx: str, entry_name: str, device: Device) -> None:
    """Refuse PTX that a driver for the device would refuse to load.

    Raises `CompileError` where the entry is missing, or ``.version`` or ``.target`` are beyond the
    device.
    """
    header = read_header(ptx)
    entries = re.findall(r"\.entry\s+([\w$]+)", ptx)
    if header is None:
        raise CompileError(
            f"the PTX of {entry_name} lacks .version or .target",
            limit="PTX ISA: both must be first in a module",
        )
    if entry_name not in entries:
        raise CompileError(
            f"the PTX has no entry {entry_name}", value=entries, limit=f"It has {entries}"
        )
    cuda_version = device.extra.get("cuda_version", (13, 0))
    newest = ptx_version_for_driver(1000 * cuda_version[0] + 10 * cuda_version[1])
    found, target = header
    if found > newest:
        raise CompileError(
            f"{entry_name} is PTX {format_version(found)}",
            value=found,
            limit=f"The driver of {device} takes up to {format_version(newest)} "
            "(CUDA_ERROR_UNSUPPORTED_PTX_VERSION)",
            remedy="Compile for an older PTX version",
        )
    if not _runs_on(target, device.arch):
        raise CompileError(
            f"{entry_name} is compiled for {target}",
            value=target,
            limit=f"{device} is {device.arch} (CUDA_ERROR_NO_BINARY_FOR_GPU)",
            remedy=f"Compile for {device.arch}",
        )


def _runs_on(compiled_for: str, arch: str) -> bool:
    """Return whether PTX for one architecture can be assembled for a device of another."""
    code, device = parse_arch(compiled_for), parse_arch(arch)
    if code.suffix == "a":
        return code.number == device.number
    if code.suffix == "f":
        same_family = code.compute_capability[0] == device.compute_capability[0]
        return same_family and code.number <= device.number
    return code.number <= device.number


def check_config(name: str, config: LaunchConfig, device: Device) -> None:
    """Refuse a grid or block that the device cannot have.

    Raises `LaunchConfigError` for an extent below one or above its limit, or too many threads in a
    block.
    """
    limits = device.limits
    for what, found, allowed in (
        ("grid_dim", config.grid_dim, limits.max_grid_dim),
        ("block_dim", config.block_dim, limits.max_block_dim),
    ):
        for axis, extent, limit in zip("xyz", found, allowed, strict=True):
            if not 1 <= extent <= limit:
                raise LaunchConfigError(
                    f"{what} {found} of {name} is {extent} along {axis}",
                    value=found,
                    limit=f"{device} allows 1 to {limit} (MAX_{what.upper()}_{axis.upper()})",
                    remedy=f"Change {what}",
                )
    threads = math.prod(config.block_dim)
    if threads > limits.max_threads_per_block:
        raise LaunchConfigError(
            f"block_dim {config.block_dim} of {name} needs {threads} threads",
            value=config.block_dim,
            limit=f"{device} allows {limits.max_threads_per_block} (MAX_THREADS_PER_BLOCK)",
            remedy="Reduce block_dim",
        )


def unpack_parameters(name: str, layout: ParameterLayout, parameters: bytes) -> Mapping[str, Any]:
    """Read a parameter buffer by its layout, without the pointer to the fault record.

    Raises `LaunchConfigError` where the buffer is not as long as the layout says.
    """
    plain = replace(layout, debug=False) if layout.debug else layout
    if len(parameters) != plain.nbytes:
        raise LaunchConfigError(
            f"{name} was launched with {len(parameters)} bytes of parameters",
            value=len(parameters),
            limit=f"Its entry declares {plain.nbytes}:\n{plain.describe()}",
        )
    names = [p.name for p in plain.parameters]
    return dict(zip(names, plain.packer.unpack(parameters), strict=True))


def check_arrays(layout: ParameterLayout, values: Mapping[str, Any], space: AddressSpace) -> None:
    """Check that every array parameter is within one live allocation.

    Raises `DriverError` where an array reaches beyond an allocation, into freed memory, or is on
    the host.
    """
    names = [parameter.name for parameter in layout.parameters]
    for array in layout.arrays:
        pointer, *rest = (values[names[number]] for number in array.numbers)
        shape, strides = rest[: array.kind.ndim], rest[array.kind.ndim :]
        first, nbytes = _span(pointer, shape, strides, array.item_bytes)
        name = names[array.pointer].removesuffix(".data")
        space.check(first, nbytes, f"launch with the array {name}")


def _span(pointer: int, shape: list[int], strides: list[int], item: int) -> tuple[int, int]:
    """Return the first address and number of bytes up to the end of the last element."""
    if 0 in shape:
        return pointer, 0
    if not strides:
        return pointer, item * math.prod(shape)
    reaches = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    before = sum(reach for reach in reaches if reach < 0)
    after = sum(reach for reach in reaches if reach > 0)
    return pointer + before, after - before + item
