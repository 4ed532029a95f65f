"""Bindings of the CUDA driver without a driver: they remember what they were asked.

Every test of the CUDA target's own modules uses this class, or one that answers a few calls
differently. A call ``cuSomething`` answers success and what ``do_cuSomething`` returns.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

__all__ = ["ATTRIBUTES", "FakeBindings", "Names", "Status"]

#: Attributes of every device, by the driver's names; 7 where none is said.
ATTRIBUTES = {
    "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_BLOCK_DIM_X": 1024,
    "MAX_BLOCK_DIM_Y": 1024,
    "MAX_BLOCK_DIM_Z": 64,
    "MAX_GRID_DIM_X": 2**31 - 1,
    "MAX_GRID_DIM_Y": 65535,
    "MAX_GRID_DIM_Z": 65535,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 0,
    "MAX_SHARED_MEMORY_PER_BLOCK": 49152,
    "WARP_SIZE": 32,
    "MULTIPROCESSOR_COUNT": 5,
    "COMPUTE_CAPABILITY_MAJOR": 6,
    "COMPUTE_CAPABILITY_MINOR": 1,
}
_NAMES = {
    0: "CUDA_SUCCESS",
    2: "CUDA_ERROR_OUT_OF_MEMORY",
    214: "CUDA_ERROR_ECC_UNCORRECTABLE",
    600: "CUDA_ERROR_NOT_READY",
    700: "CUDA_ERROR_ILLEGAL_ADDRESS",
    801: "CUDA_ERROR_NOT_SUPPORTED",
}


class Names:
    """An enumeration whose members are their own names without the prefix."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> str:
        return name.removeprefix(self._prefix)


class Status(int):
    """A status as the bindings give it: a number with a name."""

    name: str

    def __new__(cls, code: int, name: str | None = None) -> Status:
        status = super().__new__(cls, code)
        status.name = name or _NAMES.get(code, "CUDA_ERROR_UNKNOWN")
        return status


class FakeBindings:
    """As much of ``cuda.bindings.driver`` as is called; keeps a list of the calls.

    Attributes
    ----------
    calls : list of tuple
        Name and arguments of each call.
    failures : dict
        Statuses, by name, of calls that fail after what they do.
    answers : dict
        Number of a status, and results, by name, of calls that do nothing else.
    launched : bytes
        Packed parameters of the last launch.
    launched_one_by_one : list of bytes
        The first four bytes of its first two parameters, where each was handed over by itself.
    attributes : list of str
        Which attributes the last launch had.
    """

    CUdevice_attribute = Names("CU_DEVICE_ATTRIBUTE_")
    CUfunction_attribute = Names("CU_FUNC_ATTRIBUTE_")
    CUjit_option = Names("CU_JIT_")
    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
    CUlaunchConfig = SimpleNamespace
    CUlaunchAttributeID = Names("CU_LAUNCH_ATTRIBUTE_")
    CUstream = int

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.current = 0
        self.failures: dict[str, Status] = {}
        self.answers: dict[str, tuple[Any, ...]] = {}
        self.launched: bytes = b""
        self.launched_one_by_one: list[bytes] = []
        self.attributes: list[str] = []
        self.error_log = b""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        own = getattr(type(self), f"do_{name}", None)

        def call(*args: Any) -> tuple[Any, ...]:
            self.calls.append((name, *args))
            if name in self.answers:
                status, *rest = self.answers[name]
                return (Status(status), *rest)
            answer = own(self, *args) if own is not None else ()
            return (self.failures.get(name) or Status(0), *answer)

        return call

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]

    def since(self, *wanted: str) -> list[tuple[Any, ...]]:
        """Return the calls of some names since it was asked last."""
        found = [call for call in self.calls if call[0] in wanted]
        self.calls.clear()
        return found

    def do_cuInit(self, flags: int) -> tuple[Any, ...]:
        return ()

    def do_cuGetErrorString(self, status: Status) -> tuple[Any, ...]:
        return (b"as the driver says it",)

    def do_cuDriverGetVersion(self) -> tuple[Any, ...]:
        return (12040,)

    def do_cuDeviceGetCount(self) -> tuple[Any, ...]:
        return (2,)

    def do_cuDeviceGet(self, index: int) -> tuple[Any, ...]:
        return (index,)

    def do_cuDeviceGetName(self, length: int, device: int) -> tuple[Any, ...]:
        return (b"Old Card\0\0\0",)

    def do_cuDeviceTotalMem(self, device: int) -> tuple[Any, ...]:
        return (2**31,)

    def do_cuDeviceGetAttribute(self, name: str, device: int) -> tuple[Any, ...]:
        return (ATTRIBUTES.get(name, 7),)

    def do_cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Any, ...]:
        return (0x1000 + device,)

    def do_cuCtxGetCurrent(self) -> tuple[Any, ...]:
        return (self.current,)

    def do_cuCtxSetCurrent(self, context: int) -> tuple[Any, ...]:
        self.current = int(context)
        return ()

    def do_cuMemAlloc(self, nbytes: int) -> tuple[Any, ...]:
        return (0xABC00,)

    def do_cuMemGetInfo(self) -> tuple[Any, ...]:
        return (10, 2**31)

    def do_cuModuleLoadDataEx(
        self, data: bytes, count: int, options: list[str], values: list[Any]
    ) -> tuple[Any, ...]:
        given = dict(zip(options, values, strict=True))
        log = b"ptxas . 8 bytes stack frame, 12 bytes spill stores, 4 bytes spill loads"
        given["INFO_LOG_BUFFER"][: len(log)] = log
        given["ERROR_LOG_BUFFER"][: len(self.error_log)] = self.error_log
        return (0x77,)

    def do_cuModuleGetFunction(self, module: int, name: bytes) -> tuple[Any, ...]:
        return (0x99,)

    def do_cuFuncGetAttribute(self, name: str, function: int) -> tuple[Any, ...]:
        known = {"MAX_THREADS_PER_BLOCK": 512, "NUM_REGS": 40, "SHARED_SIZE_BYTES": 1024}
        return (known.get(name, 0),)

    def do_cuLaunchKernel(self, *args: Any) -> tuple[Any, ...]:
        if args[-2]:
            assert args[-1] == 0
            self._read_one_by_one(args[-2])
            return ()
        extra = ctypes.cast(args[-1], ctypes.POINTER(ctypes.c_void_p))
        assert [extra[0], extra[2], extra[4]] == [1, 2, None]
        size = ctypes.c_size_t.from_address(extra[3]).value
        self.launched = ctypes.string_at(extra[1], size)
        return ()

    @staticmethod
    def CUlaunchAttribute() -> SimpleNamespace:
        return SimpleNamespace(value=SimpleNamespace(clusterDim=SimpleNamespace()))

    def do_cuLaunchKernelEx(
        self, config: Any, function: Any, parameters: int, extra: int
    ) -> tuple[Any, ...]:
        assert extra == 0
        assert config.numAttrs == len(config.attrs)
        self.attributes = [each.id for each in config.attrs]
        self._read_one_by_one(parameters)
        return ()

    def _read_one_by_one(self, parameters: int) -> None:
        addresses = ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p))
        self.launched_one_by_one = [ctypes.string_at(addresses[i], 4) for i in range(2)]

    def do_cuEventCreate(self, flags: int) -> tuple[Any, ...]:
        return (0xE,)

    def do_cuPointerGetAttribute(self, name: str, pointer: int) -> tuple[Any, ...]:
        return (1,)
