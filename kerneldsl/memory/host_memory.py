"""Page-locked host memory for asynchronous copies, and free lists of small blocks.

A device copies from and to page-locked memory by itself, while the host continues. Ordinary memory
is copied through a page-locked buffer of the driver.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kerneldsl.contract import Device, DeviceLike, SharedBuffer
from kerneldsl.contract.locations import Location
from kerneldsl.errors import OutOfMemoryError
from kerneldsl.memory.pools import allocate, checked_size, device_memory
from kerneldsl.memory.strided import (
    Order,
    Shape,
    checked_dtype,
    checked_order,
    checked_shape,
    contiguous_strides,
    host_view,
    read_host_array,
)
from kerneldsl.placement.devices import chosen_device
from kerneldsl.utilities.flags import read_flag
from kerneldsl.utilities.tracebacks import shorten_errors

if TYPE_CHECKING:
    import numpy.typing as npt

    from kerneldsl.memory.device_memory import Counts
    from kerneldsl.memory.pools import MemoryPool

__all__ = [
    "MAX_BLOCKS",
    "MAX_LISTED_BYTES",
    "FreeList",
    "SharedMemory",
    "find_free_list",
    "pinned_copy",
    "pinned_empty",
]


@shorten_errors
def pinned_empty(
    shape: Shape,
    dtype: npt.DTypeLike = np.float64,
    *,
    order: Order = "C",
    mapped: bool = False,
    write_combined: bool = False,
    device: DeviceLike | None = None,
) -> np.ndarray[Any, Any]:
    """Make a NumPy array in page-locked memory, for asynchronous copies.

    Parameters
    ----------
    shape, dtype, order
        As for `kerneldsl.empty`.
    mapped : bool, optional
        Let kernels access the memory directly: `mapped_view` returns the array for them. Every
        access goes over the bus. Use it for little data, or for data that is accessed once.
    write_combined : bool, optional
        Bypass the processor's caches. Copies to the device are faster, and reads by the host very
        slow. A target without such memory ignores it.
    device : str or Device, optional
        The device of the copies; by default the current one.

    Returns
    -------
    ndarray
        At least 256-byte aligned, with undefined elements. The memory is freed with its last view.
        On the CPU nothing is copied, so that it is an ordinary aligned array and the two flags
        change nothing.

    Raises
    ------
    OutOfMemoryError
        If the system has no page-locked memory left.
    ArgumentTypeError, ArgumentValueError
        For a dtype that kernels do not support, or a shape that does not consist of ints >= 0.

    Notes
    -----
    Page-locked memory is scarce, and its allocation takes milliseconds. Make few such arrays and
    reuse them.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> staging = kd.pinned_empty((2, 3), "float32")
    >>> staging.shape, staging.ctypes.data % 256
    ((2, 3), 0)
    """
    device, extents, element = chosen_device(device), checked_shape(shape), checked_dtype(dtype)
    order = checked_order(order)
    mapped = read_flag("mapped", mapped)
    write_combined = read_flag("write_combined", write_combined)
    nbytes = checked_size(device, extents, element.itemsize)
    strides = contiguous_strides(extents, element.itemsize, order)
    if nbytes == 0:
        return np.empty(extents, element, order=order)
    if device.shares_host_memory:
        buffer = allocate(device, nbytes)
        buffer.is_shared = True  # closing a mapped view must leave the array its memory
        return host_view(buffer.pointer, extents, strides, element, buffer)
    owner = SharedMemory(
        device,
        "pinned",
        lambda: device.allocate_pinned(nbytes, is_mapped=mapped, is_write_combined=write_combined),
    )
    owner.is_shared = True
    return host_view(owner.buffer.host_pointer, extents, strides, element, owner)


@shorten_errors
def pinned_copy(
    array: npt.ArrayLike,
    *,
    mapped: bool = False,
    write_combined: bool = False,
    device: DeviceLike | None = None,
) -> np.ndarray[Any, Any]:
    """Make a copy of an array in page-locked memory; see `pinned_empty`.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> kd.pinned_copy([1.0, 2.0])
    array([1., 2.])
    """
    source = read_host_array(array)
    copy = pinned_empty(
        source.shape,
        source.dtype,
        order="F" if source.flags.fnc else "C",
        mapped=mapped,
        write_combined=write_combined,
        device=device,
    )
    copy[...] = source
    return copy


# The owner of page-locked and managed memory, which host and device both reach.


class SharedMemory:
    """Owns page-locked or managed memory; gives it back when the object goes.

    It is ``"pinned"`` or ``"managed"``; `allocate` makes the buffer.
    """

    __slots__ = (
        "__weakref__",
        "buffer",
        "device",
        "family",
        "is_closed",
        "is_managed",
        "is_recorded",
        "is_shared",
    )

    def __init__(self, device: Device, kind: str, allocate: Callable[[], SharedBuffer]) -> None:
        self.device = device
        self.is_managed = kind == "managed"
        self.is_closed = False
        #: Whether NumPy arrays over the memory may exist.
        self.is_shared = False
        #: Whether a graph uses the memory.
        self.is_recorded = False
        self.family: Any = None
        try:
            self.buffer = allocate()
        except OutOfMemoryError:
            gc.collect()
            self.buffer = allocate()
        device_memory(device).shared[id(self)] = (kind, self.buffer.nbytes)

    def close(self) -> None:
        """Give the memory back once nothing on the device uses it; twice is harmless."""
        if not self.is_closed:
            self.is_closed = True
            device_memory(self.device).shared.pop(id(self), None)
            self.buffer.close()

    def __del__(self, _is_finalizing: Any = sys.is_finalizing) -> None:
        if not _is_finalizing() and hasattr(self, "buffer"):
            self.close()


# A repeated call allocates and frees arrays of the same forms each time. A pool in Python, with its
# lock and its backend, takes longer for each than the launch. So forms of small arrays have a
# `FreeList` of their device's default pool: a few blocks of one size.
# Native code (`emit_forms`) takes blocks from it and puts them back, and counts as the pool does.
# For the pool's backend these blocks are in use. In statistics they are free, and
# `MemoryPool.trim` frees them.
#
# Native code runs under the interpreter's lock, and so do the methods here: each takes or puts one
# block at once.

#: Blocks of one list, bytes of each, and lists of a pool: 256 MiB at most.
MAX_BLOCKS, MAX_LISTED_BYTES, _MAX_LISTS = 8, 1 << 19, 64


class FreeList:
    """Free blocks of one size that only the default stream uses.

    - `blocks`: their addresses; the last one is taken first.
    - `nbytes`: size of each.
    - `pool`: the default pool of a device.
    - `counts`, `sums`: counts of the pool and of its device.
    - `is_open`: whether blocks may be taken and put: no if the pool has a limit.
    """

    __slots__ = ("blocks", "counts", "is_open", "nbytes", "pool", "sums")

    def __init__(self, pool: MemoryPool, nbytes: int) -> None:
        self.blocks: list[Location] = []
        self.nbytes = nbytes
        self.pool = pool
        self.counts: Counts = pool._counts
        self.sums: Counts = pool._memory.sums
        self.is_open = pool.limit is None

    def clear(self) -> None:
        """Give all blocks back to the backend; the caller holds the device's lock."""
        backend = self.pool._backend
        while True:
            try:
                location = self.blocks.pop()
            except IndexError:
                return
            backend.release(location, self.nbytes, None, ())


def find_free_list(pool: MemoryPool, nbytes: int) -> FreeList | None:
    """Return the free list for blocks of a size; ``None`` if the pool has none for them.

    The oldest list makes room for another size.
    """
    memory = pool._memory
    is_listed = 0 < nbytes <= MAX_LISTED_BYTES and pool._backend.gives_out_at_once
    if not is_listed or pool is not memory.default:
        return None
    free_lists = pool._free_lists
    found = free_lists.get(nbytes)
    if found is None:
        with memory.lock:
            found = free_lists.setdefault(nbytes, FreeList(pool, nbytes))
            while len(free_lists) > _MAX_LISTS:
                oldest = free_lists.pop(next(iter(free_lists)))
                oldest.is_open = False
                memory.clear_free_lists((oldest,))
    return found
