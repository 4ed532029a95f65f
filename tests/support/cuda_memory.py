"""What tests of the CUDA target's memory share: bindings that know pools."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kerneldsl.contract import Device, DeviceLimits
from targets.cuda.device import device as cuda_device
from targets.cuda.device import host_memory, peers, pools
from targets.cuda.device.device import CudaDevice
from targets.cuda.driver.driver import Driver
from tests.support.driver_bindings import FakeBindings, Names

__all__ = ["ORDER", "Bindings", "device", "device_of", "driver_of", "stream"]


LIMITS = DeviceLimits(1024, (1024, 1024, 64), (2**31 - 1, 65535, 65535), 49152, 32, 4)


class Bindings(FakeBindings):
    """Bindings that know pools and memory of the host: what is made has consecutive numbers."""

    CUdevice_attribute = CUmemPool_attribute = Names()
    CUmemAllocationType = CUmemLocationType = CUmemAccess_flags = Names()
    CUmemAttach_flags = SimpleNamespace(CU_MEM_ATTACH_GLOBAL=1)
    CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_WRITECOMBINED = 1, 2, 4
    cuuint64_t = int

    def __init__(self) -> None:
        super().__init__()
        self.reserved = 0
        self.made = 0
        self.has_pools = self.has_managed = 1

    @staticmethod
    def CUmemPoolProps() -> Any:
        return SimpleNamespace(location=SimpleNamespace())

    @staticmethod
    def CUmemAccessDesc() -> Any:
        return SimpleNamespace(location=SimpleNamespace())

    def do_cuDriverGetVersion(self) -> tuple[Any, ...]:
        return (13000,)

    def do_cuMemGetInfo(self) -> tuple[Any, ...]:
        return (10, 1000)

    def do_cuCtxGetCurrent(self) -> tuple[Any, ...]:
        return (0x1000,)

    def do_cuDeviceGetAttribute(self, name: str, device: int) -> tuple[Any, ...]:
        return (self.has_managed if "MANAGED" in name else self.has_pools,)

    def do_cuMemPoolGetAttribute(self, *args: Any) -> tuple[Any, ...]:
        return (self.reserved,)

    def do_cuDeviceCanAccessPeer(self, *args: Any) -> tuple[Any, ...]:
        return (1,)

    def _make(self, *args: Any) -> tuple[Any, ...]:
        self.made += 1
        return (0x10000 * self.made,)

    do_cuMemPoolCreate = do_cuMemAllocFromPoolAsync = do_cuEventCreate = do_cuMemAlloc = _make
    CU_MEMHOSTREGISTER_PORTABLE, CU_MEMHOSTREGISTER_DEVICEMAP = 1, 2
    do_cuMemHostAlloc = do_cuMemHostGetDevicePointer = do_cuMemAllocManaged = _make


def driver_of(api: Bindings, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A driver of these bindings, until the test ends; nothing waits to be freed or used again."""
    monkeypatch.setattr(peers, "_enabled", set())
    monkeypatch.setattr(host_memory, "_waiting", type(host_memory._waiting)())
    monkeypatch.setattr(host_memory, "_postponed", type(host_memory._postponed)())
    pools._idle.clear()
    return Driver(api)


def device(index: int = 0) -> Device:
    return Device("cuda", index, "a card", "sm_90", LIMITS)


def device_of(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> CudaDevice:
    """The first device, under a driver that is the process's until the test ends."""
    monkeypatch.setattr(cuda_device, "get_driver", lambda: driver)
    return CudaDevice.from_description(device())


def stream(handle: int, index: int = 0) -> Any:
    return SimpleNamespace(own_handle=handle, handle=handle, device=device(index))


ORDER = (
    "cuEventRecord",
    "cuStreamWaitEvent",
    "cuMemFreeAsync",
    "cuMemFree",
    "cuCtxRecordEvent",
    "cuCtxSynchronize",
    "cuStreamSynchronize",
    "cuEventSynchronize",
)
