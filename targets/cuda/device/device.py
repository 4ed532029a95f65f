"""A CUDA device: the contract of :class:`~kerneldsl.contract.Device`, fulfilled with the driver.

References
----------
CUDA Driver API, sections "Memory Management" and "API synchronization behavior".
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import Device, MemoryType
from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.formatting import format_bytes, format_version
from kerneldsl.utilities.modules import imported
from targets.cuda.architectures import ARCHITECTURES, PTX_RELEASES, choose_ptx_version, parse_arch
from targets.cuda.compile.ptx_compiler import PtxCompiler, require_ptx
from targets.cuda.device import peers, pools
from targets.cuda.device.events import start_timer
from targets.cuda.device.streams import (
    LEGACY_DEFAULT_STREAM,
    stream_handle,
    synchronize_stream,
    wait_stream,
)
from targets.cuda.driver import captures
from targets.cuda.driver.attributes import read_attribute
from targets.cuda.driver.driver import Driver, get_driver
from targets.cuda.driver.fork import fork_guard

if TYPE_CHECKING:
    from kerneldsl.contract import (
        Artifact,
        DeviceEvent,
        DeviceInfo,
        DeviceStream,
        Executable,
        LaunchTimer,
        PoolBackend,
        SharedBuffer,
        Tracer,
    )
    from kerneldsl.errors import DriverError

__all__ = ["CudaDevice"]

#: The driver's memsets, by the bytes of the pattern that they repeat.
_MEMSETS = {1: "cuMemsetD8Async", 2: "cuMemsetD16Async", 4: "cuMemsetD32Async"}


class CudaDevice(Device):
    """An NVIDIA GPU."""

    compiler = PtxCompiler("cuda")
    memory_type = MemoryType.CUDA

    @property
    def software(self) -> str:
        return f"CUDA {format_version(get_driver().cuda_version)}"

    def unusable_reason(self) -> str | None:
        """Say what is needed where this driver or this device cannot run our PTX."""
        return str(fork_guard.error()) if fork_guard.has_forked else self._why_too_old

    @cached_property
    def _why_too_old(self) -> str | None:
        if self.arch not in ARCHITECTURES:
            return f"{self.name} is {self.arch}; known are {', '.join(ARCHITECTURES)}."
        arch, available = parse_arch(self.arch), get_driver().cuda_version
        needed = choose_ptx_version(arch)
        release = next(r for r in PTX_RELEASES if r.ptx == needed)
        if available >= release.cuda:
            return None
        return (
            f"the driver supports CUDA {format_version(available)}; code for {arch.name} is PTX "
            f"{format_version(needed)}, which needs CUDA {format_version(release.cuda)} (driver "
            f"{release.driver}). Update the NVIDIA driver."
        )

    def describe(self) -> DeviceInfo:
        """Return the driver's values at once, and those of NVML when they are read."""
        from targets.cuda.device.description import describe

        return describe(get_driver(), self)

    def driver_attribute(self, name: str) -> int | None:
        driver = get_driver()
        handle = driver.call(driver.api.cuDeviceGet, self.index, doing=f"find {self}")
        return read_attribute(driver.api, handle, name)

    def suppress(self, error: DriverError) -> None:
        get_driver().suppress(error, self.index)

    # ----------------------------------------------------------------- kernels

    def load(self, artifact: Artifact) -> Executable:
        from targets.cuda.device.executable import CudaExecutable

        return CudaExecutable(get_driver(), require_ptx(artifact, self), self)

    def synchronize(self) -> None:
        driver = get_driver()
        if not captures.is_under_way(self.index):
            driver.synchronize(self.index)
            return
        # Waiting for the context would drop the recording. The default stream waits for all that
        # block, and the others are waited for one by one.
        others = (each.own_handle for each in captures.live_streams(self.index))
        for stream in (LEGACY_DEFAULT_STREAM, *others):
            synchronize_stream(driver, self.index, stream, doing=f"wait for {self}")

    def start_timer(self, stream: Any) -> LaunchTimer | None:
        return start_timer(get_driver(), self.index, stream)

    def trace(self) -> Tracer | None:
        from targets.cuda.device.cupti_tracer import cupti_tracer

        return cupti_tracer()

    # ------------------------------------------------------------------ memory

    def create_pool(self) -> PoolBackend:
        return pools.create_pool(get_driver(), self)

    def create_shareable_pool(self) -> PoolBackend:
        return pools.ShareablePool(get_driver(), self)

    def export_memory(self, pointer: Any) -> tuple[bytes, int]:
        return peers.export_memory(get_driver(), self.index, pointer)

    def open_memory(self, handle: bytes) -> int:
        return peers.open_memory(get_driver(), self.index, handle)

    def close_memory(self, pointer: Any) -> None:
        peers.close_memory(get_driver(), self.index, pointer)

    def memory_info(self) -> tuple[int, int]:
        driver, doing = get_driver(), f"read how much memory of {self} is free"
        free, total = driver.call_on(self.index, driver.api.cuMemGetInfo, doing=doing)
        return int(free), int(total)

    def foreign_caches(self) -> Iterable[tuple[str, str]]:
        return _foreign_caches(self.index)

    def allocate_pinned(
        self, nbytes: int, *, is_mapped: bool, is_write_combined: bool
    ) -> SharedBuffer:
        from targets.cuda.device.host_memory import PinnedBuffer

        return PinnedBuffer(
            get_driver(), self, nbytes, is_mapped=is_mapped, is_write_combined=is_write_combined
        )

    def lock_pages(self, pointer: int, nbytes: int, owner: Any) -> SharedBuffer:
        from targets.cuda.device.host_memory import LockedBuffer

        return LockedBuffer(get_driver(), self, pointer, nbytes, owner)

    def allocate_managed(self, nbytes: int) -> SharedBuffer:
        from targets.cuda.device.host_memory import ManagedBuffer

        return ManagedBuffer(get_driver(), self, nbytes)

    def copy_from_host(
        self,
        destination: int,
        source: int,
        nbytes: int,
        stream: Any = None,
        *,
        blocking: bool = True,
    ) -> None:
        if not nbytes:
            return
        handle, driver = stream_handle(stream), get_driver()
        api = driver.api
        with driver.current(self.index):
            if not blocking or _needs_naming(driver, handle):
                status = api.cuMemcpyHtoDAsync(destination, source, nbytes, handle)[0]
                if blocking and not int(status):
                    # A copy from page-locked memory may still be reading its source.
                    status = api.cuStreamSynchronize(handle)[0]
            else:
                status = api.cuMemcpyHtoD(destination, source, nbytes)[0]
            if int(status):
                raise driver.failure(status, f"copy {nbytes} bytes from the host to {self}")

    def copy_to_host(
        self,
        destination: int,
        source: int,
        nbytes: int,
        stream: Any = None,
        *,
        blocking: bool = True,
    ) -> None:
        if not nbytes:
            return
        handle, driver = stream_handle(stream), get_driver()
        api = driver.api
        launched = driver.watch.in_flight(self.index) if blocking else ()
        with driver.current(self.index):
            if not blocking or _needs_naming(driver, handle):
                status = api.cuMemcpyDtoHAsync(destination, source, nbytes, handle)[0]
                if blocking and not int(status):
                    status = api.cuStreamSynchronize(handle)[0]
            else:
                status = api.cuMemcpyDtoH(destination, source, nbytes)[0]
            if int(status):
                raise driver.failure(status, f"copy {nbytes} bytes from {self} to the host")
        if launched:
            driver.watch.mark_finished(self.index, launched, handle)

    def copy_on_device(
        self, destination: int, source: int, nbytes: int, stream: Any = None
    ) -> None:
        if not nbytes:
            return
        handle, driver = stream_handle(stream), get_driver()
        with driver.current(self.index):
            status = driver.api.cuMemcpyDtoDAsync(destination, source, nbytes, handle)[0]
            if int(status):
                raise driver.failure(status, f"copy {nbytes} bytes within {self}")

    def fill(self, destination: int, pattern: bytes, count: int, stream: Any = None) -> None:
        if not count:
            return
        handle, driver, size = stream_handle(stream), get_driver(), len(pattern)
        if size in _MEMSETS:
            value = int.from_bytes(pattern, sys.byteorder)
            with driver.current(self.index):
                status = getattr(driver.api, _MEMSETS[size])(destination, value, count, handle)[0]
                if int(status):
                    doing = f"fill {count} times {size} bytes on {self}"
                    raise driver.failure(status, doing, index=self.index)
            return
        from targets.cuda.device.memory import WORD_BYTES, fill_words

        if destination % WORD_BYTES == 0:
            fill_words(driver, self, destination, pattern, count, stream=handle)
        else:  # another library's array, of complex numbers at an odd multiple of four bytes
            super().fill(destination, pattern, count, stream)

    def can_access_peer(self, peer: Device) -> bool:
        return peers.can_access(get_driver(), self.index, peer.index)

    def enable_peer_access(self, peer: Device) -> None:
        peers.enable_access(get_driver(), self.index, peer.index)

    def copy_to_peer(
        self, source: int, peer: Device, destination: int, nbytes: int, stream: Any = None
    ) -> None:
        if nbytes:
            there = (peer.index, destination)
            peers.copy(get_driver(), self.index, source, *there, nbytes, stream=stream)

    # ----------------------------------------------------------------- streams

    def wait_stream(self, stream: Any, earlier: Any) -> None:
        """Let what is put into `stream` from now on wait for what is in `earlier` now."""
        later, sooner = stream_handle(stream), stream_handle(earlier)
        if later != sooner:
            wait_stream(get_driver(), self.index, later, sooner)

    def create_stream(self, *, priority: int, is_blocking: bool) -> DeviceStream:
        from targets.cuda.device.device_streams import create_stream

        return create_stream(get_driver(), self, priority, is_blocking)

    def wrap_stream(self, stream: Any) -> DeviceStream:
        from targets.cuda.device.device_streams import wrap_stream

        return wrap_stream(get_driver(), self, stream)

    def create_event(self, *, is_timed: bool, is_blocking: bool = False) -> DeviceEvent:
        from targets.cuda.device.events import create_event

        return create_event(get_driver(), self, is_timed=is_timed, is_blocking=is_blocking)

    def wrap_event(self, event: Any) -> DeviceEvent:
        from targets.cuda.device.events import wrap_event

        return wrap_event(get_driver(), self, event)


def _needs_naming(driver: Driver, stream: int) -> bool:
    """Return whether a copy has to name its stream; without one the wait is saved."""
    return stream != LEGACY_DEFAULT_STREAM or driver.has_thread_defaults


def _foreign_caches(index: int) -> list[tuple[str, str]]:
    """Return what torch and CuPy keep for later on a device, and how to make them let go of it."""
    found = []
    for module, name, read, remedy in (
        ("torch", "torch", _kept_by_torch, "torch.cuda.empty_cache()"),
        ("cupy", "CuPy", _kept_by_cupy, "cupy.get_default_memory_pool().free_all_blocks()"),
    ):
        library = imported(module)
        try:
            used, kept = (0, 0) if library is None else read(library, index)
        except (AttributeError, RuntimeError, ValueError) as error:
            logger.debug("%s's memory could not be read: %s", name, error)
            continue
        if kept:
            reserved = f"{name} has reserved {format_bytes(kept)}, of which {format_bytes(used)}"
            found.append((f"{reserved} are in use", f"{remedy} empties {name}'s cache"))
    return found


def _kept_by_torch(torch: Any, index: int) -> tuple[int, int]:
    """Return the bytes in use, and those that are reserved."""
    if not torch.cuda.is_initialized():
        return 0, 0
    return torch.cuda.memory_allocated(index), torch.cuda.memory_reserved(index)


def _kept_by_cupy(cupy: Any, index: int) -> tuple[int, int]:
    with cupy.cuda.Device(index):
        pool = cupy.get_default_memory_pool()
        return pool.used_bytes(), pool.total_bytes()
