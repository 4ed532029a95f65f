"""What tests of the CUDA target's memory share: bindings that only remember what was asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kerneldsl.target import Device, DeviceLimits
from targets.cuda import host_memory, peers, pools
from targets.cuda.driver import Driver

__all__ = ["ORDER", "Bindings", "device", "driver_of", "stream"]


LIMITS = DeviceLimits(1024, (1024, 1024, 64), (2**31 - 1, 65535, 65535), 49152, 32, 4)


class _Names:
    def __getattr__(self, name: str) -> str:
        return name


class _Status(int):
    @property
    def name(self) -> str:
        return {
            0: "CUDA_SUCCESS",
            2: "CUDA_ERROR_OUT_OF_MEMORY",
            214: "CUDA_ERROR_ECC_UNCORRECTABLE",
            600: "CUDA_ERROR_NOT_READY",
            700: "CUDA_ERROR_ILLEGAL_ADDRESS",
            801: "CUDA_ERROR_NOT_SUPPORTED",
        }.get(int(self), "CUDA_ERROR_UNKNOWN")


class Bindings:
    """Answers success, with consecutive numbers for what is made."""

    CUdevice_attribute = CUmemPool_attribute = _Names()
    CUmemAllocationType = CUmemLocationType = CUmemAccess_flags = _Names()
    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
    CUmemAttach_flags = SimpleNamespace(CU_MEM_ATTACH_GLOBAL=1)
    CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_WRITECOMBINED = 1, 2, 4

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.answers: dict[str, tuple[Any, ...]] = {}
        self.reserved = 0
        self.made = 0
        self.has_pools = self.has_managed = 1

    @staticmethod
    def CUmemPoolProps() -> Any:
        return SimpleNamespace(location=SimpleNamespace())

    @staticmethod
    def CUmemAccessDesc() -> Any:
        return SimpleNamespace(location=SimpleNamespace())

    cuuint64_t = int

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*args: Any) -> tuple[Any, ...]:
            self.calls.append((name, *args))
            if name in self.answers:
                status, *rest = self.answers[name]
                return (_Status(status), *rest)
            return (_Status(0), *self.answer(name, args))

        return call

    def answer(self, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        if name == "cuDriverGetVersion":
            return (13000,)
        if name == "cuGetErrorString":
            return (b"as the driver says it",)
        if name == "cuMemGetInfo":
            return (10, 1000)
        if name == "cuDeviceGet":
            return (args[0],)
        if name == "cuDevicePrimaryCtxRetain":
            return (0x1000 + args[0],)
        if name == "cuCtxGetCurrent":
            return (0x1000,)
        if name == "cuDeviceGetAttribute":
            return (self.has_managed if "MANAGED" in args[0] else self.has_pools,)
        if name == "cuMemPoolGetAttribute":
            return (self.reserved,)
        if name == "cuDeviceCanAccessPeer":
            return (1,)
        if name in (
            "cuMemPoolCreate",
            "cuMemAllocFromPoolAsync",
            "cuEventCreate",
            "cuMemAlloc",
            "cuMemHostAlloc",
            "cuMemHostGetDevicePointer",
            "cuMemAllocManaged",
        ):
            self.made += 1
            return (0x10000 * self.made,)
        return ()

    def since(self, *wanted: str) -> list[tuple[Any, ...]]:
        found = [call for call in self.calls if call[0] in wanted]
        self.calls.clear()
        return found


def driver_of(api: Bindings, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A driver of these bindings, until the test ends; nothing waits to be freed or used again."""
    monkeypatch.setattr(peers, "_enabled", set())
    monkeypatch.setattr(host_memory, "_waiting", type(host_memory._waiting)())
    monkeypatch.setattr(host_memory, "_postponed", type(host_memory._postponed)())
    pools._idle.clear()
    return Driver(api)


def device(index: int = 0) -> Device:
    return Device("cuda", index, "a card", "sm_90", LIMITS)


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
