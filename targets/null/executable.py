"""A compiled kernel on a described device: it can be launched, and does not run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import Device, Executable, LaunchConfig, Resources
from kerneldsl.errors import ToolMissingError
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.device.carveout import Carveout
from targets.cuda.device.resource_limits import check_resources
from targets.cuda.device.streams import stream_handle
from targets.null.checks import check_arrays, check_config, check_ptx, unpack_parameters
from targets.null.memory import AddressSpace
from targets.null.native import NativeDriver

if TYPE_CHECKING:
    from kerneldsl.contract import DriverEntry

__all__ = ["LaunchRecord", "NullExecutable", "estimate_resources"]

_log = logging.getLogger("kerneldsl.null")


@dataclass(frozen=True)
class LaunchRecord:
    """A launch that a driver would have taken.

    Parameters
    ----------
    entry_name : str
        The kernel's entry.
    kernel : str
        The name of its function in Python.
    device : Device
        Where it would have run.
    config : LaunchConfig
        Grid, block, extent, stream and dynamic shared memory.
    parameters : bytes
        The parameter buffer, without the pointer to the fault record.
    values : dict
        The same, by the names of the parameter layout.
    """

    entry_name: str
    kernel: str
    device: Device
    config: LaunchConfig
    parameters: bytes
    values: Mapping[str, Any]


def estimate_resources(artifact: CudaArtifact, device: Device) -> Resources:
    """Return what a kernel takes, where no assembler can say.

    Registers, spills and the stack frame are unknown (``None``); shared memory is what the PTX
    declares; the largest block is what ``launch_bounds`` promises, else the device's, which is too
    many for a kernel that needs more registers than 65536 / threads.
    """
    specialization = artifact.specialization
    bounds = specialization.options.launch_bounds
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

    Attributes
    ----------
    resources : Resources
        From ptxas if it is installed and knows the architecture, else estimated.
    carveout : Carveout
        What a driver would have been asked to prefer.
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
