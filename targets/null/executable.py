"""A compiled kernel on a described device: it can be launched, and does not run.

Errors are those that a driver would report: PTX for another device, impossible grids, invalid
pointers.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import Device, Executable, LaunchConfig, Resources
from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.errors import CompileError, LaunchConfigError, ToolMissingError
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import format_version
from targets.cuda.architectures import parse_arch, ptx_version_for_driver
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.compile.lowered import with_bounds
from targets.cuda.compile.ptx_lines import read_header
from targets.cuda.device.carveout import Carveout, check_resources
from targets.cuda.device.streams import stream_handle
from targets.null.memory import AddressSpace
from targets.null.native import NativeDriver

if TYPE_CHECKING:
    from kerneldsl.contract import DriverEntry

__all__ = [
    "LaunchRecord",
    "NullExecutable",
    "check_arrays",
    "check_config",
    "check_ptx",
    "estimate_resources",
    "unpack_parameters",
]

_log = logging.getLogger("kerneldsl.null")


@dataclass(frozen=True)
class LaunchRecord:
    """A launch that a driver would have taken."""

    #: The kernel's entry.
    entry_name: str
    #: The name of its function in Python.
    kernel: str
    #: The device that it would have run on.
    device: Device
    #: Grid, block, extent, stream and dynamic shared memory.
    config: LaunchConfig
    #: The parameter buffer, without the pointer to the fault record.
    parameters: bytes
    #: Values by the names of the parameter layout.
    values: Mapping[str, Any]


def estimate_resources(artifact: CudaArtifact, device: Device) -> Resources:
    """Return what a kernel takes, where no assembler can say.

    Registers, spills and the stack frame are unknown (``None``). Shared memory is what the PTX
    declares. The largest block is what ``launch_bounds`` promises, else the device's. That is too
    many for a kernel that needs more registers than 65536 / threads.
    """
    specialization = artifact.specialization
    bounds = with_bounds(specialization, artifact.additions).launch_bounds
    limit = device.limits.max_threads_per_block
    return Resources(
        registers=None,
        spill_bytes=None,
        local_bytes=None,
        static_shared_bytes=artifact.static_shared_bytes,
        max_block_threads=min(limit, bounds[0]) if bounds else limit,
    )


class NullExecutable(Executable):
    """A compiled kernel on a described device.

    `record` takes the record of each launch, `driver` the launches of native code.

    Raises `CompileError` where a driver for the device would refuse the PTX.

    - `resources`: from ptxas if it is installed and knows the architecture, else estimated.
    - `carveout`: the preference that a driver would have got.
    """

    def __init__(
        self,
        artifact: CudaArtifact,
        space: AddressSpace,
        record: Callable[[LaunchRecord], None],
        driver: NativeDriver,
    ) -> None:
        self.artifact = artifact
        self.device = space.device
        self._space = space
        self._record = record
        self._driver = driver
        self._layout = artifact.layout
        self._additions = artifact.additions
        artifact.require(self.device.arch, self.device.extra.get("cuda_version", (13, 0)))
        if artifact.specialization.code is None:
            check_ptx(artifact.ptx, artifact.entry_name, self.device)
        if artifact.binaries:
            artifact.code("cubin")  # linked, as for a driver
        self._resources = self._find_resources(artifact)
        self.carveout = Carveout(self.device, self._resources)

    def _find_resources(self, artifact: CudaArtifact) -> Resources:
        estimated = estimate_resources(artifact, self.device)
        try:
            found = artifact.resources()
        except ToolMissingError as error:
            _log.debug("resources of %s are estimated: %s", artifact.entry_name, error)
            return estimated
        threads = min(found.max_block_threads, estimated.max_block_threads)
        return replace(found, max_block_threads=threads)

    @property
    def resources(self) -> Resources:
        return self._resources

    def launch(self, config: LaunchConfig, parameters: bytes) -> None:
        self._record(self.examine(config, parameters))

    def native_entry(self, config: LaunchConfig) -> DriverEntry:
        return self._driver.entry(self, config)

    def examine(self, config: LaunchConfig, parameters: bytes) -> LaunchRecord:
        """Check a launch as a driver would, and describe it, without what its code adds."""
        name, layout = self.artifact.entry_name, self._layout
        added = self._additions.added_to(config)
        check_config(name, added, self.device)
        check_resources(name, self.resources, self.device, added)
        self.carveout.is_raised_by(added)
        stream_handle(config.stream)
        values = unpack_parameters(name, layout, parameters)
        check_arrays(layout, values, self._space)
        kernel = self.artifact.specialization.unit.name
        return LaunchRecord(name, kernel, self.device, config, bytes(parameters), values)


# -- errors that a driver would report ------------------------------------------------------------


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
    if not parse_arch(target).assembles_for(parse_arch(device.arch)):
        raise CompileError(
            f"{entry_name} is compiled for {target}",
            value=target,
            limit=f"{device} is {device.arch} (CUDA_ERROR_NO_BINARY_FOR_GPU)",
            remedy=f"Compile for {device.arch}",
        )


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
