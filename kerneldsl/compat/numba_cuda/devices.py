"""numba.cuda's devices and contexts; on a CPU there is one device, with a GPU's limits."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from kerneldsl.compat.numba_cuda import streams
from kerneldsl.compat.numba_cuda.errors import CudaAPIError, CudaDriverError, CudaSupportError
from kerneldsl.compat.numba_cuda.managers import MemoryInfo, manager_for
from kerneldsl.compat.numba_cuda.modules import Module
from kerneldsl.contract import Device as _Device
from kerneldsl.contract import MemoryType
from kerneldsl.placement.devices import current_device, use
from kerneldsl.placement.registry import get_target
from kerneldsl.streams.waiting import synchronize

__all__ = [
    "Context",
    "Device",
    "MemoryInfo",
    "close",
    "cuda_error",
    "current_context",
    "defer_cleanup",
    "detect",
    "get_context",
    "get_current_device",
    "gpus",
    "is_available",
    "is_bfloat16_supported",
    "is_float16_supported",
    "is_fp8_supported",
    "is_supported_version",
    "list_devices",
    "profile_start",
    "profile_stop",
    "profiling",
    "require_context",
    "select_device",
    "synchronize",
]

#: Properties that a CPU lacks: the limits of kernels there.
_OF_CPU: dict[str, Any] = {
    "ASYNC_ENGINE_COUNT": 1,
    "CAN_MAP_HOST_MEMORY": 1,
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "CONCURRENT_KERNELS": 0,
    "INTEGRATED": 1,
    "KERNEL_EXEC_TIMEOUT": 0,
    "MAX_BLOCK_DIM_X": 1024,
    "MAX_BLOCK_DIM_Y": 1024,
    "MAX_BLOCK_DIM_Z": 64,
    "MAX_GRID_DIM_X": 2**31 - 1,
    "MAX_GRID_DIM_Y": 65535,
    "MAX_GRID_DIM_Z": 65535,
    "MAX_REGISTERS_PER_BLOCK": 65536,
    "MAX_SHARED_MEMORY_PER_BLOCK": 48 * 1024,
    "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_THREADS_PER_MULTIPROCESSOR": 1024,
    "PCI_BUS_ID": 0,
    "PCI_DEVICE_ID": 0,
    "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO": 2,
    "TCC_DRIVER": 0,
    "TOTAL_CONSTANT_MEMORY": 64 * 1024,
    "UNIFIED_ADDRESSING": 1,
    "WARP_SIZE": 32,
}
#: Properties that a CPU has under another name.
_OF_HOST = {
    "CLOCK_RATE": "clock_rate_khz",
    "L2_CACHE_SIZE": "l2_cache_bytes",
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": "max_shared_memory_per_block_optin_bytes",
    "MULTIPROCESSOR_COUNT": "usable_core_count",
}


class Device:
    """A device, with the driver's attributes by their names in upper case."""

    def __init__(self, device: _Device) -> None:
        self._device = device
        self.id = device.index

    @property
    def _info(self) -> Any:
        return self._device.describe()

    @property
    def name(self) -> bytes:
        """The name, as bytes."""
        return str(self._device.name).encode()

    @property
    def uuid(self) -> str:
        """The UUID."""
        if self._device.memory_type is not MemoryType.CUDA:
            return "GPU-00000000-0000-0000-0000-000000000000"
        found = str(self._info.uuid)
        return found if found.startswith("GPU-") else f"GPU-{found}"

    @property
    def compute_capability(self) -> tuple[int, int]:
        """The compute capability; of a CPU the one with the operations of its kernels."""
        if self._device.is_host:
            return _OF_CPU["COMPUTE_CAPABILITY_MAJOR"], _OF_CPU["COMPUTE_CAPABILITY_MINOR"]
        major, minor = self._info.compute_capability
        return major, minor

    supports_float16 = True

    @property
    def supports_bfloat16(self) -> bool:
        """True if it computes in bfloat16."""
        return self.compute_capability >= (8, 0)

    @property
    def supports_fp8(self) -> bool:
        """True if it converts 8-bit floats."""
        return self.compute_capability >= (8, 9)

    def __getattr__(self, name: str) -> Any:
        if name != name.upper():
            raise AttributeError(f"a device has no attribute {name!r}")
        found = None if self._device.is_host else self._device.driver_attribute(name)
        if found is None and self._device.memory_type is not MemoryType.CUDA:
            spelled = _OF_HOST.get(name)
            found = getattr(self._info, spelled) if spelled else _OF_CPU.get(name)
        if found is None:
            raise AttributeError(f"the device {self._device} has no attribute {name!r}")
        return found

    def get_primary_context(self) -> Context:
        """Return the context."""
        return _context_of(self)

    def release_primary_context(self) -> None:
        """Return at once: kerneldsl frees unused memory itself."""

    def reset(self) -> None:
        """Wait for the device, and free the unused memory of its pools."""
        _context_of(self).reset()

    def __enter__(self) -> Device:
        _choices.entered.append(use(self._device))
        _choices.entered[-1].__enter__()
        _context_of(self).push()
        return self

    def __exit__(self, *exc: object) -> None:
        _context_of(self).pop()
        _choices.entered.pop().__exit__(*exc)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other._device is self._device

    def __hash__(self) -> int:
        return hash(self._device)

    def __repr__(self) -> str:
        return f"<CUDA device {self.id} {self.name!r}>"


class _Choices(threading.local):
    """The choices of this thread: devices in blocks, their contexts, and the selected device."""

    def __init__(self) -> None:
        self.entered: list[use] = []
        self.contexts: list[Context] = []
        self.selected: use | None = None


_choices = _Choices()


#: Attributes that a context takes from its memory manager.
_OF_MANAGER = (
    "allocations deallocations defer_cleanup get_ipc_handle get_memory_info memalloc "
    "memallocmanaged memhostalloc mempin"
)


class Context:
    """The state of a device in this process."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.modules: dict[Any, Any] = {}
        self._process = os.getpid()
        self.memory_manager = manager_for(self)

    @property
    def is_of_parent(self) -> bool:
        """True if a GPU was used in the process that this one was forked from."""
        return self._process != os.getpid() and not self.device._device.is_host

    @property
    def handle(self) -> int:
        """A number that no other context has."""
        return id(self.device._device)

    def __getattr__(self, name: str) -> Any:
        if name not in _OF_MANAGER.split():
            raise AttributeError(f"a context has no attribute {name!r}")
        return getattr(self.memory_manager, name)

    def synchronize(self) -> None:
        """Wait for the device."""
        synchronize(self.device._device)

    def reset(self) -> None:
        """Wait for the device, and free the unused memory of its pools."""
        self.synchronize()
        self.memory_manager.reset()

    def push(self) -> None:
        """Make it the active context of this thread."""
        _choices.contexts.append(self)

    def pop(self) -> None:
        """Make the context active that was before."""
        if not _choices.contexts or _choices.contexts.pop() is not self:
            raise RuntimeError("the context is not the active one")

    def prepare_for_use(self) -> None:
        """Prepare the memory manager."""
        self.memory_manager.initialize()

    create_stream = staticmethod(streams.stream)
    create_external_stream = staticmethod(streams.external_stream)
    get_default_stream = staticmethod(streams.default_stream)
    get_legacy_default_stream = staticmethod(streams.legacy_default_stream)
    get_per_thread_default_stream = staticmethod(streams.per_thread_default_stream)
    create_event = staticmethod(streams.event)

    def create_module_ptx(self, ptx: str | bytes) -> Module:
        """Load PTX."""
        return Module(ptx)

    def get_active_blocks_per_multiprocessor(
        self, func: Any, blocksize: int, memsize: int, flags: Any = None
    ) -> int:
        """Return how many blocks of a function of a module run on a multiprocessor at once."""
        occupancy = func.kernel.occupancy
        return int(occupancy.max_active_blocks_per_multiprocessor(blocksize, memsize))

    def can_access_peer(self, peer_context: Context | int) -> bool:
        """Return whether kernels here may use memory of another device."""
        from kerneldsl.memory.copies import can_access_peer

        other = peer_context if isinstance(peer_context, int) else peer_context.device.id
        return can_access_peer(self.device._device, gpus[other]._device)

    def __enter__(self) -> Context:
        self.device.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.device.__exit__(*exc)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and other.device == self.device

    def __hash__(self) -> int:
        return hash(self.device)

    def __repr__(self) -> str:
        return f"<CUDA context of device {self.device.id}>"


_contexts: dict[_Device, Context] = {}
#: Functions that are called before the first context is made.
before_first_context: list[Callable[[], None]] = []
#: Errors of the driver's start.
start_errors: list[str] = []


def _context_of(device: Device) -> Context:
    found = _contexts.get(device._device)
    if found is None:
        found = _contexts.setdefault(device._device, Context(device))
    return found


class _Devices:
    """The devices: those of the current one's target."""

    @property
    def lst(self) -> list[Device]:
        """All of them."""
        target = get_target(current_device().compiler.name)
        return [Device(each) for each in target.devices()]

    @property
    def current(self) -> Device:
        """The current one."""
        return Device(current_device())

    def __call__(self) -> _Devices:
        return self

    def __getitem__(self, number: int) -> Device:
        return self.lst[number]

    def __iter__(self) -> Iterator[Device]:
        return iter(self.lst)

    def __len__(self) -> int:
        return len(self.lst)

    def __str__(self) -> str:
        return ", ".join(map(str, self.lst))


gpus = _Devices()


def list_devices() -> _Devices:
    """Return the devices."""
    return gpus


def select_device(device_id: int) -> Device:
    """Make a device the current one of this thread."""
    known = gpus.lst
    if not 0 <= device_id < len(known):
        raise CudaAPIError(101, "Call to cuDeviceGet results in CUDA_ERROR_INVALID_DEVICE")
    if _choices.selected is not None:
        _choices.selected.__exit__(None, None, None)
    if known[device_id]._device is current_device():
        _choices.selected = None
        return known[device_id]
    _choices.selected = use(known[device_id]._device)
    _choices.selected.__enter__()
    return known[device_id]


def get_current_device() -> Device:
    """Return the current device."""
    return gpus.current


def current_context(devnum: int | None = None) -> Context:
    """Return the context of the current device, or of another one, which becomes current."""
    if not _contexts:
        for start in before_first_context:
            start()
        if not is_available():
            raise CudaSupportError(f"Error at driver init: {cuda_error()}")
    elif any(each.is_of_parent for each in tuple(_contexts.values())):
        raise CudaDriverError("CUDA initialized before forking")
    found = _context_of(get_current_device() if devnum is None else select_device(devnum))
    if not _choices.contexts:
        found.push()
    found.prepare_for_use()
    return found


get_context = current_context


def require_context(function: Any) -> Any:
    """Return the function: kerneldsl starts a device when it is first used."""
    return function


def close() -> None:
    """Wait for the current device, and free the unused memory of its pools."""
    current_context().reset()


def is_available() -> bool:
    """Return whether kernels run; without a GPU they run on the CPU, unless that is disabled."""
    return cuda_error() is None


def is_supported_version() -> bool:
    """Return whether the version of CUDA is supported; there is no other one."""
    return True


def is_float16_supported() -> bool:
    """Return whether kernels compute in float16."""
    return True


def is_bfloat16_supported() -> bool:
    """Return whether kernels compute in bfloat16."""
    return get_current_device().supports_bfloat16


def is_fp8_supported() -> bool:
    """Return whether kernels convert 8-bit floats."""
    return get_current_device().supports_fp8


def cuda_error() -> str | None:
    """Return why kernels do not run: ``NUMBA_DISABLE_CUDA``, or an error of the driver."""
    from numba import config

    return _DISABLED if config.DISABLE_CUDA else next(iter(start_errors), None)


_DISABLED = "CUDA is disabled due to setting NUMBA_DISABLE_CUDA=1 in the environment"


def detect() -> bool:
    """Print the devices, and return whether there is one."""
    known = gpus.lst
    print(f"Found {len(known)} CUDA devices")
    for each in known:
        print(f"id {each.id}    {each.name!r:>20} {'[SUPPORTED]':>40}")
        rows = {
            "Compute Capability": "{}.{}".format(*each.compute_capability),
            "PCI Device ID": each.PCI_DEVICE_ID,
            "PCI Bus ID": each.PCI_BUS_ID,
            "UUID": each.uuid,
        }
        for key, value in rows.items():
            print(f"{key:>40}: {value}")
    print("Summary:")
    print(f"\t{len(known)}/{len(known)} devices are supported")
    return bool(known)


def defer_cleanup() -> Any:
    """Return a block in which the memory manager of the current context frees nothing."""
    return current_context().defer_cleanup()


@contextlib.contextmanager
def profiling() -> Iterator[None]:
    """Profile what runs in the block, for tools of the driver."""
    profile_start()
    yield
    profile_stop()


def profile_start() -> None:
    """Return at once: profilers of CUDA find kerneldsl's launches without a mark."""


def profile_stop() -> None:
    """Return at once, as `profile_start` does."""
