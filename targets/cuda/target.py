"""The CUDA target: the contract of :mod:`kerneldsl.target`, fulfilled with the CUDA driver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kerneldsl.errors import DeviceMismatchError, DriverError, TargetUnavailableError
from kerneldsl.locks import ForkSafeLock
from targets.cuda import captures, memory, peers, pools
from targets.cuda.architectures import (
    ARCHITECTURES,
    PTX_RELEASES,
    choose_ptx_version,
    parse_arch,
)
from targets.cuda.driver import get_driver
from targets.cuda.fork import fork_guard
from targets.cuda.pointers import device_of_pointer
from targets.cuda.ptx_target import PtxTarget
from targets.cuda.streams import (
    LEGACY_DEFAULT_STREAM,
    stream_handle,
    synchronize_stream,
    wait_stream,
)
from targets.cuda.timer import start_timer

if TYPE_CHECKING:
    from kerneldsl.target import (
        Artifact,
        Check,
        Device,
        DeviceEvent,
        DeviceInfo,
        DeviceStream,
        Executable,
        LaunchTimer,
        PoolBackend,
        SharedBuffer,
    )
    from targets.cuda.driver import Driver

__all__ = ["CudaTarget"]


class CudaTarget(PtxTarget):
    """NVIDIA GPUs.

    Making one costs nothing; the driver is loaded when devices are first asked for.
    """

    name = "cuda"

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._reason: str | None = None
        self._is_probed = False

    # ---------------------------------------------------------------- devices

    def unavailable_reason(self) -> str | None:
        """Say why no device can be used, or ``None``; found out once for the process."""
        if fork_guard.has_forked:
            return str(fork_guard.error())
        with self._lock:
            if not self._is_probed:
                try:
                    driver = get_driver()
                    reasons = [_why_too_old(driver, each) for each in driver.devices()]
                    self._reason = reasons[0] if None not in reasons else None
                except (TargetUnavailableError, DriverError) as error:
                    self._reason = str(error)
                self._is_probed = True
        return self._reason

    def devices(self) -> tuple[Device, ...]:
        return () if self.unavailable_reason() is not None else get_driver().devices()

    def unusable_reason(self, device: Device) -> str | None:
        """Say why this driver runs none of our code on one device, or ``None``."""
        return self.unavailable_reason() or _why_too_old(get_driver(), device)

    def describe(self, device: Device) -> DeviceInfo:
        """What the driver says at once, and NVML when it is asked."""
        from targets.cuda.description import describe

        return describe(get_driver(), device)

    def checks(self) -> Iterable[Check]:
        """What ``kd.preflight()`` looks at; see :mod:`targets.cuda.checks`."""
        from targets.cuda.checks import check_cuda

        return check_cuda()

    def swallow(self, device: Device, error: DriverError) -> None:
        get_driver().swallow(error, device.index)

    def device_of_pointer(self, pointer: int) -> Device:
        """Return the device that an address belongs to.

        Raises
        ------
        DriverError
            The address is not one of CUDA's.
        """
        driver = get_driver()
        index = device_of_pointer(driver, pointer)
        devices = driver.devices()
        if not 0 <= index < len(devices):
            raise DeviceMismatchError(
                f"address {pointer:#x} belongs to device {index}",
                value=index,
                limit=f"kerneldsl sees {len(devices)} devices",
                remedy="Copy the array to one of them",
            )
        return devices[index]

    # ------------------------------------------------------------------- code

    def load(self, artifact: Artifact, device: Device) -> Executable:
        from targets.cuda.executable import CudaExecutable

        return CudaExecutable(get_driver(), self._loadable(artifact), device)

    # ---------------------------------------------------------------- memory

    def create_pool(self, device: Device) -> PoolBackend:
        return pools.create_pool(get_driver(), device)

    def memory_info(self, device: Device) -> tuple[int, int]:
        return memory.memory_info(get_driver(), device.index)

    def allocate_pinned(
        self, device: Device, nbytes: int, *, is_mapped: bool, is_write_combined: bool
    ) -> SharedBuffer:
        from targets.cuda.host_memory import PinnedBuffer

        return PinnedBuffer(
            get_driver(), device, nbytes, is_mapped=is_mapped, is_write_combined=is_write_combined
        )

    def allocate_managed(self, device: Device, nbytes: int) -> SharedBuffer:
        from targets.cuda.host_memory import ManagedBuffer

        return ManagedBuffer(get_driver(), device, nbytes)

    def copy_from_host(
        self,
        device: Device,
        destination: int,
        source: int,
        nbytes: int,
        stream: Any = None,
        *,
        blocking: bool = True,
    ) -> None:
        if nbytes:
            memory.copy_from_host(
                get_driver(),
                device.index,
                destination,
                source,
                nbytes,
                stream=stream_handle(stream),
                blocking=blocking,
            )

    def copy_to_host(
        self,
        device: Device,
        destination: int,
        source: int,
        nbytes: int,
        stream: Any = None,
        *,
        blocking: bool = True,
    ) -> None:
        if nbytes:
            memory.copy_to_host(
                get_driver(),
                device.index,
                destination,
                source,
                nbytes,
                stream=stream_handle(stream),
                blocking=blocking,
            )

    def copy_on_device(
        self, device: Device, destination: int, source: int, nbytes: int, stream: Any = None
    ) -> None:
        if nbytes:
            handle = stream_handle(stream)
            memory.copy_on_device(
                get_driver(), device.index, destination, source, nbytes, stream=handle
            )

    def fill(
        self, device: Device, destination: int, pattern: bytes, count: int, stream: Any = None
    ) -> None:
        if not count:
            return
        handle = stream_handle(stream)
        if len(pattern) <= memory.MAX_PATTERN_BYTES:
            memory.fill(get_driver(), device.index, destination, pattern, count, stream=handle)
            return
        from targets.cuda.fill import WORD_BYTES, fill_words

        if destination % WORD_BYTES == 0:
            fill_words(get_driver(), device, destination, pattern, count, stream=handle)
        else:  # another library's array, of complex numbers at an odd multiple of four bytes
            super().fill(device, destination, pattern, count, stream)

    def can_access_peer(self, device: Device, peer: Device) -> bool:
        return peers.can_access(get_driver(), device.index, peer.index)

    def enable_peer_access(self, device: Device, peer: Device) -> None:
        peers.enable_access(get_driver(), device.index, peer.index)

    def copy_to_peer(
        self,
        device: Device,
        source: int,
        peer: Device,
        destination: int,
        nbytes: int,
        stream: Any = None,
    ) -> None:
        if nbytes:
            peers.copy(
                get_driver(), device.index, source, peer.index, destination, nbytes, stream=stream
            )

    # --------------------------------------------------------------- waiting

    def synchronize(self, device: Device) -> None:
        driver = get_driver()
        if not captures.is_under_way(device.index):
            driver.synchronize(device.index)
            return
        # Waiting for the context would drop the recording. The default stream waits for all that
        # block, and the others are waited for one by one.
        others = (each.own_handle for each in captures.live_streams(device.index))
        for stream in (LEGACY_DEFAULT_STREAM, *others):
            synchronize_stream(driver, device.index, stream, doing=f"wait for {device}")

    def wait_stream(self, device: Device, stream: Any, earlier: Any) -> None:
        """Let what is put into `stream` from now on wait for what is in `earlier` now."""
        later, sooner = stream_handle(stream), stream_handle(earlier)
        if later != sooner:
            wait_stream(get_driver(), device.index, later, sooner)

    def start_timer(self, device: Device, stream: Any) -> LaunchTimer | None:
        return start_timer(get_driver(), device.index, stream)

    # --------------------------------------------------------------- streams

    def create_stream(self, device: Device, *, priority: int, is_blocking: bool) -> DeviceStream:
        from targets.cuda.device_streams import create_stream

        return create_stream(get_driver(), device, priority, is_blocking)

    def wrap_stream(self, device: Device, stream: Any) -> DeviceStream:
        from targets.cuda.device_streams import wrap_stream

        return wrap_stream(get_driver(), device, stream)

    def create_event(
        self, device: Device, *, is_timed: bool, is_blocking: bool = False
    ) -> DeviceEvent:
        from targets.cuda.events import create_event

        return create_event(get_driver(), device, is_timed=is_timed, is_blocking=is_blocking)

    def wrap_event(self, device: Device, event: Any) -> DeviceEvent:
        from targets.cuda.events import wrap_event

        return wrap_event(get_driver(), device, event)


def _why_too_old(driver: Driver, device: Device) -> str | None:
    """Say what is needed where this driver or this device cannot run our PTX."""
    if device.arch not in ARCHITECTURES:
        return f"{device.name} is {device.arch}; known are {', '.join(ARCHITECTURES)}."
    arch = parse_arch(device.arch)
    needed = choose_ptx_version(arch)
    release = next(r for r in PTX_RELEASES if r.ptx == needed)
    if driver.cuda_version >= release.cuda:
        return None
    return (
        f"the driver supports CUDA {_dotted(driver.cuda_version)}; code for {arch.name} is PTX "
        f"{_dotted(needed)}, which needs CUDA {_dotted(release.cuda)} (driver {release.driver}). "
        "Update the NVIDIA driver."
    )


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
