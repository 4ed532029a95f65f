"""A CUDA device: the contract of :class:`~kerneldsl.target.Device`, fulfilled with the driver."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kerneldsl.target import Device, MemoryType
from targets.cuda import captures, memory, peers, pools
from targets.cuda.architectures import (
    ARCHITECTURES,
    PTX_RELEASES,
    choose_ptx_version,
    parse_arch,
)
from targets.cuda.driver import get_driver
from targets.cuda.fork import fork_guard
from targets.cuda.ptx_compiler import PtxCompiler, require_ptx
from targets.cuda.streams import (
    LEGACY_DEFAULT_STREAM,
    stream_handle,
    synchronize_stream,
    wait_stream,
)
from targets.cuda.timer import start_timer

if TYPE_CHECKING:
    from kerneldsl.errors import DriverError
    from kerneldsl.target import (
        Artifact,
        DeviceEvent,
        DeviceInfo,
        DeviceStream,
        Executable,
        LaunchTimer,
        PoolBackend,
        SharedBuffer,
    )

__all__ = ["CudaDevice"]


class CudaDevice(Device):
    """An NVIDIA GPU."""

    compiler = PtxCompiler("cuda")
    memory_type = MemoryType.CUDA

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
            f"the driver supports CUDA {_dotted(available)}; code for {arch.name} is PTX "
            f"{_dotted(needed)}, which needs CUDA {_dotted(release.cuda)} (driver "
            f"{release.driver}). Update the NVIDIA driver."
        )

    def describe(self) -> DeviceInfo:
        """What the driver says at once, and NVML when it is asked."""
        from targets.cuda.description import describe

        return describe(get_driver(), self)

    def swallow(self, error: DriverError) -> None:
        get_driver().swallow(error, self.index)

    # ----------------------------------------------------------------- kernels

    def load(self, artifact: Artifact) -> Executable:
        from targets.cuda.executable import CudaExecutable

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

    # ------------------------------------------------------------------ memory

    def create_pool(self) -> PoolBackend:
        return pools.create_pool(get_driver(), self)

    def memory_info(self) -> tuple[int, int]:
        return memory.memory_info(get_driver(), self.index)

    def foreign_caches(self) -> Iterable[tuple[str, str]]:
        from targets.cuda.foreign_caches import foreign_caches

        return foreign_caches(self.index)

    def allocate_pinned(
        self, nbytes: int, *, is_mapped: bool, is_write_combined: bool
    ) -> SharedBuffer:
        from targets.cuda.host_memory import PinnedBuffer

        return PinnedBuffer(
            get_driver(), self, nbytes, is_mapped=is_mapped, is_write_combined=is_write_combined
        )

    def allocate_managed(self, nbytes: int) -> SharedBuffer:
        from targets.cuda.host_memory import ManagedBuffer

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
        if nbytes:
            handle, where = stream_handle(stream), (get_driver(), self.index)
            memory.copy_from_host(
                *where, destination, source, nbytes, stream=handle, blocking=blocking
            )

    def copy_to_host(
        self,
        destination: int,
        source: int,
        nbytes: int,
        stream: Any = None,
        *,
        blocking: bool = True,
    ) -> None:
        if nbytes:
            handle, where = stream_handle(stream), (get_driver(), self.index)
            memory.copy_to_host(
                *where, destination, source, nbytes, stream=handle, blocking=blocking
            )

    def copy_on_device(
        self, destination: int, source: int, nbytes: int, stream: Any = None
    ) -> None:
        if nbytes:
            handle, where = stream_handle(stream), (get_driver(), self.index)
            memory.copy_on_device(*where, destination, source, nbytes, stream=handle)

    def fill(self, destination: int, pattern: bytes, count: int, stream: Any = None) -> None:
        if not count:
            return
        handle = stream_handle(stream)
        if len(pattern) <= memory.MAX_PATTERN_BYTES:
            memory.fill(get_driver(), self.index, destination, pattern, count, stream=handle)
            return
        from targets.cuda.fill import WORD_BYTES, fill_words

        if destination % WORD_BYTES == 0:
            fill_words(get_driver(), self, destination, pattern, count, stream=handle)
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
        from targets.cuda.device_streams import create_stream

        return create_stream(get_driver(), self, priority, is_blocking)

    def wrap_stream(self, stream: Any) -> DeviceStream:
        from targets.cuda.device_streams import wrap_stream

        return wrap_stream(get_driver(), self, stream)

    def create_event(self, *, is_timed: bool, is_blocking: bool = False) -> DeviceEvent:
        from targets.cuda.events import create_event

        return create_event(get_driver(), self, is_timed=is_timed, is_blocking=is_blocking)

    def wrap_event(self, event: Any) -> DeviceEvent:
        from targets.cuda.events import wrap_event

        return wrap_event(get_driver(), self, event)


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
