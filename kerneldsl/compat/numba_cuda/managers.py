"""Memory managers of numba.cuda's contexts: plugins, and kerneldsl's pools."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from kerneldsl.compat.numba_cuda.api import managed_array, mapped_array, pinned_array
from kerneldsl.compat.numba_cuda.ipc import share
from kerneldsl.compat.numba_cuda.memory import AutoFreePointer, MemoryPointer, kept
from kerneldsl.compat.numba_cuda.shared_arrays import MappedNDArray
from kerneldsl.memory.arrays import make_array
from kerneldsl.memory.pools import MemoryPool, shareable_pool
from kerneldsl.memory.shared_arrays import locked_view
from kerneldsl.memory.strided import host_view
from kerneldsl.placement.devices import current_device

__all__ = [
    "BaseCUDAMemoryManager",
    "GetIpcHandleMixin",
    "HostOnlyCUDAMemoryManager",
    "MemoryInfo",
    "manager_for",
    "set_memory_manager",
]

_BYTE = np.dtype(np.uint8)


class MemoryInfo(NamedTuple):
    """Free and total memory of a device, in bytes."""

    free: int
    total: int


class PendingDeallocations:
    """Memory of a manager that waits to be freed."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[Any], Any], Any, int]] = deque()
        self._disabled = 0
        self.memory_capacity = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def _size(self) -> int:
        return sum(size for *_, size in tuple(self._waiting))

    @property
    def _max_pending_bytes(self) -> int:
        from numba import config

        return int(self.memory_capacity * config.CUDA_DEALLOCS_RATIO)

    def add_item(self, dtor: Callable[[Any], Any], handle: Any, size: int = 0) -> None:
        """Have ``dtor(handle)`` called later; now if much is waiting."""
        from numba import config

        self._waiting.append((dtor, handle, size))
        is_many = len(self._waiting) > config.CUDA_DEALLOCS_COUNT
        if is_many or self._size > self._max_pending_bytes:
            self.clear()

    def clear(self) -> None:
        """Free what is waiting, except inside of `disable`."""
        while self._waiting and not self._disabled:
            try:
                dtor, handle, _ = self._waiting.popleft()
            except IndexError:  # another thread has emptied the deque
                break
            dtor(handle)

    @contextmanager
    def disable(self) -> Iterator[None]:
        """Free nothing in the block."""
        self._disabled += 1
        try:
            yield
        finally:
            self._disabled -= 1


class BaseCUDAMemoryManager(ABC):
    """The base of plugins that allocate the memory of a context."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "context" not in kwargs:
            raise RuntimeError("Memory manager requires a context")
        self.context = kwargs.pop("context")

    @abstractmethod
    def memalloc(self, size: int) -> MemoryPointer:
        """Allocate bytes on the device."""

    @abstractmethod
    def memhostalloc(self, size: int, mapped: bool, portable: bool, wc: bool) -> Any:
        """Allocate page-locked memory on the host."""

    @abstractmethod
    def mempin(self, owner: Any, pointer: int, size: int, mapped: bool) -> Any:
        """Lock pages of the host."""

    @abstractmethod
    def initialize(self) -> None:
        """Prepare the memory; called when the context becomes the current one."""

    @abstractmethod
    def get_ipc_handle(self, memory: MemoryPointer) -> Any:
        """Return a handle by which other processes open memory."""

    @abstractmethod
    def get_memory_info(self) -> Any:
        """Return the free and the total bytes."""

    @abstractmethod
    def reset(self) -> None:
        """Free all memory."""

    @abstractmethod
    def defer_cleanup(self) -> Any:
        """Return a context manager for a block that frees no memory."""

    @property
    @abstractmethod
    def interface_version(self) -> int:
        """The version of these methods: 1."""


class HostOnlyCUDAMemoryManager(BaseCUDAMemoryManager):
    """The base of plugins that allocate on the device alone."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.allocations: dict[Any, Any] = {}
        self.deallocations = PendingDeallocations()

    def memhostalloc(
        self, size: int, mapped: bool = False, portable: bool = False, wc: bool = False
    ) -> Any:
        """Return an array of page-locked bytes."""
        return mapped_array(size, np.uint8, wc=wc) if mapped else pinned_array(size, np.uint8)

    def mempin(self, owner: Any, pointer: int, size: int, mapped: bool = False) -> Any:
        """Lock the pages of bytes of the host, and return an array over them."""
        host = host_view(pointer, (size,), (1,), _BYTE, owner)
        return MappedNDArray.over(locked_view(host), host)

    def memallocmanaged(self, size: int, attach_global: bool = True) -> Any:
        """Return an array of managed bytes."""
        return managed_array(size, np.uint8)

    def reset(self) -> None:
        """Free the memory that is waiting."""
        self.allocations.clear()
        self.deallocations.clear()

    @contextmanager
    def defer_cleanup(self) -> Iterator[None]:
        """Free no memory in the block."""
        with self.deallocations.disable():
            yield


class GetIpcHandleMixin:
    """The method of plugins with memory of the driver's."""

    def get_ipc_handle(self, memory: MemoryPointer) -> Any:
        """Return a handle by which other processes open memory of a GPU."""
        return share(memory, current_device())


class NumbaCUDAMemoryManager(GetIpcHandleMixin, HostOnlyCUDAMemoryManager):
    """The manager that there is without a plugin: kerneldsl's pools."""

    def initialize(self) -> None:
        """Let a fifth of the memory wait to be freed, or what Numba's setting says."""
        if not self.deallocations.memory_capacity:
            self.deallocations.memory_capacity = self.get_memory_info().total

    def memalloc(self, size: int) -> MemoryPointer:
        """Allocate bytes from the active pool."""
        buffer = kept(size, 0, self.deallocations)
        made = make_array(current_device(), buffer.pointer, (size,), (1,), _BYTE, buffer)
        return AutoFreePointer.of(made, self.context)

    def get_memory_info(self) -> Any:
        """Return the free and the total bytes."""
        info = self.context.device._info
        return MemoryInfo(int(info.free_memory_bytes), int(info.total_memory_bytes))

    def reset(self) -> None:
        """Free the unused memory of the pools."""
        super().reset()
        device = self.context.device._device
        for pool in {MemoryPool.default(device), shareable_pool(device)}:
            pool.trim()

    interface_version = 1
    #: Arrays then take their memory from the pools themselves.
    is_of_pools = True


#: The class of memory managers of new contexts; the last one counts.
_manager_classes: list[type[BaseCUDAMemoryManager]] = [NumbaCUDAMemoryManager]


def set_memory_manager(mm_plugin: type[BaseCUDAMemoryManager]) -> None:
    """Have a plugin allocate the memory of contexts that are made from now on."""
    version = mm_plugin(context=None).interface_version
    if version != 1:
        raise RuntimeError(f"EMM Plugin interface has version {version} - version 1 required")
    _manager_classes.append(mm_plugin)


def manager_for(context: Any) -> Any:
    """Return the memory manager of a new context."""
    return _manager_classes[-1](context=context)
