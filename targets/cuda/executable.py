"""A compiled kernel on a CUDA device.

Everything that can be known before a launch is checked before it, so that a kernel never runs with
a configuration the driver would refuse or cut short.
"""

from __future__ import annotations

import logging
import struct
import time
from typing import NoReturn

from kerneldsl.errors import ResourceLimitError
from kerneldsl.target import Device, Executable, LaunchConfig, Resources
from targets.cuda import functions, memory
from targets.cuda.artifact import CudaArtifact
from targets.cuda.driver import Driver
from targets.cuda.streams import stream_handle, synchronize_stream

__all__ = ["CudaExecutable", "check_resources"]

_log = logging.getLogger("kerneldsl.cuda.executable")


def check_resources(name: str, resources: Resources, device: Device, config: LaunchConfig) -> None:
    """Refuse a launch for which the device has too little.

    Parameters
    ----------
    name : str
        The kernel, for the message.
    resources : Resources
        What the compiled kernel takes.
    device : Device
        What there is.
    config : LaunchConfig
        What is asked for.

    Raises
    ------
    ResourceLimitError
        The block has more threads than the kernel's registers allow, or static and dynamic shared
        memory together are more than a block may have.
    """
    threads = config.block_dim[0] * config.block_dim[1] * config.block_dim[2]
    if threads > resources.max_block_threads:
        _refuse_block(name, resources, device, config, threads)
    shared = resources.static_shared_bytes + config.shared_bytes
    limit = device.limits.max_shared_memory_per_block
    if shared > limit:
        raise ResourceLimitError(
            f"{name} needs {shared} bytes of shared memory a block "
            f"({resources.static_shared_bytes} static, {config.shared_bytes} dynamic)",
            value=shared,
            limit=f"{device} ({device.name}) allows {limit} (MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)",
            remedy="Use smaller tiles or fewer shared_bytes",
        )


def _refuse_block(
    name: str, resources: Resources, device: Device, config: LaunchConfig, threads: int
) -> NoReturn:
    registers = f" with its {resources.registers} registers a thread" if resources.registers else ""
    raise ResourceLimitError(
        f"block_dim {config.block_dim} has {threads} threads",
        value=config.block_dim,
        limit=f"{name}{registers} can run with {resources.max_block_threads} threads a block on "
        f"{device} ({device.name}) (MAX_THREADS_PER_BLOCK of the compiled kernel)",
        remedy="Use a smaller block, or compile with launch_bounds= or max_registers=",
    )


class CudaExecutable(Executable):
    """A compiled kernel on a CUDA device.

    Parameters
    ----------
    driver : Driver
        The process's driver.
    artifact : CudaArtifact
        The compiled kernel.
    device : Device
        Where it is loaded.

    Attributes
    ----------
    resources : Resources
        What the driver's assembler gave the kernel.
    load_seconds : float
        What loading cost, assembling the PTX included; the driver remembers assembled code.

    Raises
    ------
    CompileError
        The driver's assembler refused the PTX.
    DriverError
        The device has no room, or has failed.
    """

    def __init__(self, driver: Driver, artifact: CudaArtifact, device: Device) -> None:
        self.artifact = artifact
        self.device = device
        self._cuda_artifact = artifact
        self._driver = driver
        options = artifact.specialization.options
        started = time.perf_counter()
        self._function = functions.load(
            driver, device.index, artifact.ptx, artifact.entry_name, line_info=options.lineinfo
        )
        self.load_seconds = time.perf_counter() - started
        self.resources = self._function.resources
        self._is_debug = options.debug
        self._allowed_shared_bytes = 0
        _log.debug(
            "loaded %s on %s in %.1f ms: %s",
            artifact.entry_name,
            device,
            1e3 * self.load_seconds,
            self.resources,
        )

    def launch(self, config: LaunchConfig, parameters: bytes) -> None:
        check_resources(self._function.name, self.resources, self.device, config)
        if config.shared_bytes > self._allowed_shared_bytes:
            functions.allow_shared_bytes(self._driver, self._function, config.shared_bytes)
            self._allowed_shared_bytes = config.shared_bytes
        stream = stream_handle(config.stream)
        if self._is_debug:
            self._launch_and_check(config, parameters, stream)
        else:
            self._start(config, parameters, stream)

    def _start(self, config: LaunchConfig, parameters: bytes, stream: int) -> None:
        functions.launch(
            self._driver,
            self._function,
            config.grid_dim,
            config.block_dim,
            parameters,
            shared_bytes=config.shared_bytes,
            stream=stream,
        )

    def _launch_and_check(self, config: LaunchConfig, parameters: bytes, stream: int) -> None:
        """Launch with a fault record, wait, and raise what the kernel recorded."""
        import ctypes

        from kerneldsl.lowering.faults import FAULT_RECORD_BYTES, raise_fault

        driver, index, nbytes = self._driver, self.device.index, FAULT_RECORD_BYTES
        record = memory.CudaBuffer(driver, self.device, nbytes)
        memory.clear(driver, index, record.pointer, nbytes, stream=stream)
        last = self._cuda_artifact.specialization.layout.parameters[-1]
        pointer = struct.pack("=Q", record.pointer)
        self._start(config, parameters.ljust(last.offset, b"\0") + pointer, stream)
        synchronize_stream(driver, index, stream, doing=f"run {self._function.name}")
        found = ctypes.create_string_buffer(nbytes)
        memory.copy_to_host(
            driver, index, ctypes.addressof(found), record.pointer, nbytes, stream=stream
        )
        raise_fault(found.raw, self._cuda_artifact.fault_table)
