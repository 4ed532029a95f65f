"""Pools of CUDA device memory: the driver's stream-ordered allocator.

The driver keeps what is freed and gives it out again without waiting for the device: in the same
stream at once, in another one after the work before the free. A few blocks of the default stream
do not go through the driver: :class:`ReadyBlocks`. Devices without such pools, and
``KERNELDSL_POOL=off``, take the plain allocator. Its free waits for the device.

References
----------
CUDA Driver API, section "Stream Ordered Memory Allocator", and ``cuCtxRecordEvent``; CUDA
Programming Guide, section "Stream-Ordered Memory Allocator".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import PoolBackend
from kerneldsl.contract.memory import WHOLE_DEVICE
from kerneldsl.errors import DriverError
from kerneldsl.utilities.environment import is_on
from targets.cuda.device import memory, peers
from targets.cuda.device.streams import LEGACY_DEFAULT_STREAM, stream_handle, synchronize_stream
from targets.cuda.driver.fork import fork_guard
from targets.cuda.driver.marks import Mark, is_recording

if TYPE_CHECKING:
    from kerneldsl.contract import Device
    from targets.cuda.driver.driver import Driver

__all__ = [
    "MAX_BLOCK_BYTES",
    "PlainPool",
    "ReadyBlocks",
    "ShareablePool",
    "StreamOrderedPool",
    "create_pool",
]


# -- blocks of the default stream that wait to be used there again ---------------------------------

# A block that was used in the default stream alone may be allocated again at once for the next work
# in that stream: the stream keeps the two uses apart. That needs no call of the driver, which takes
# longer. Few blocks are kept, and the driver can join neighbouring blocks and cut large ones.


#: Largest block that is kept; for larger ones the time of a call does not matter.
MAX_BLOCK_BYTES = 1 << 26
#: Most bytes, blocks and sizes that are kept. The next block makes room by freeing all.
_MAX_BYTES, _MAX_BLOCKS, _MAX_SIZES = 1 << 28, 64, 128


class ReadyBlocks:
    """Unused blocks by size.

    One method is called at a time, except for `take`, which a finalizer may call in the middle of
    another one.
    """

    __slots__ = ("_by_size", "_count", "nbytes")

    def __init__(self) -> None:
        self._by_size: dict[int, list[int]] = {}
        self._count = 0
        #: The bytes of all blocks.
        self.nbytes = 0

    def take(self, nbytes: int) -> int:
        """Return the block of this size that came back last; 0 if there is none."""
        blocks = self._by_size.get(nbytes)
        if not blocks:
            return 0
        try:
            pointer = blocks.pop()
        except IndexError:  # a finalizer was faster
            return 0
        self._count -= 1
        self.nbytes -= nbytes
        return pointer

    def keep(self, pointer: int, nbytes: int) -> bool:
        """Keep a block; say whether there is room for one more."""
        blocks = self._by_size.get(nbytes)
        if blocks is None:
            self._by_size[nbytes] = [pointer]
        else:
            blocks.append(pointer)
        self._count += 1
        self.nbytes += nbytes
        return (
            self._count < _MAX_BLOCKS
            and self.nbytes < _MAX_BYTES
            and len(self._by_size) < _MAX_SIZES
        )

    def give_up(self) -> list[tuple[int, int]]:
        """Return all blocks with their sizes, and keep none."""
        by_size, self._by_size = self._by_size, {}
        self._count = self.nbytes = 0
        return [(pointer, nbytes) for nbytes, blocks in by_size.items() for pointer in blocks]


#: More than any device has.
_EVERYTHING = 2**64 - 1

#: The driver's pools that were closed here, by device, to be used again. They are not destroyed:
#: after ``cuMemPoolDestroy`` of a pool with memory in use, the driver 580.159 ended the process in
#: the first allocation from the next pool.
_idle: defaultdict[int, list[Any]] = defaultdict(list)


def create_pool(driver: Driver, device: Device) -> PoolBackend:
    """Make a pool of the kind that the device and the environment allow."""
    attribute = driver.api.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
    doing = f"query whether {device} has memory pools"
    handle = driver.call(driver.api.cuDeviceGet, device.index, doing=doing)
    has_pools = driver.call(driver.api.cuDeviceGetAttribute, attribute, handle, doing=doing)
    if not int(has_pools) or not is_on("KERNELDSL_POOL", default=True):
        return PlainPool(driver, device)
    return StreamOrderedPool(driver, device)


class StreamOrderedPool(PoolBackend):
    """A pool of the driver's.

    Raises `DriverError` where the driver could not make a pool.

    - `driver`: the process's driver.
    - `device`: whose memory.
    """

    gives_out_at_once = True

    def __init__(self, driver: Driver, device: Device) -> None:
        self.device = device
        self._driver = driver
        #: Releases that would spoil a recording, until it has ended.
        self._postponed: list[tuple[int, int, Any, Sequence[Any]]] = []
        #: Allocations that are not back yet.
        self._outstanding = 0
        self._is_closed = False
        attributes = driver.api.CUmemPool_attribute
        self._reserved = attributes.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
        self._threshold = attributes.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        try:
            self.handle = _idle[device.index].pop()
        except IndexError:
            self.handle = self._create()
        self._keep(_EVERYTHING)
        #: Bytes that the pool held at the last query.
        self._held = self.reserved_bytes()
        #: Freed blocks that were used in the default stream only.
        self._ready = ReadyBlocks()
        peers.note_pool(self)
        for other in peers.with_access_to(device.index):
            self.let_in(other)

    def _create(self) -> Any:
        driver, api = self._driver, self._driver.api
        properties = api.CUmemPoolProps()
        properties.allocType = api.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = self.device.index
        with driver.current(self.device.index):
            doing = f"make a memory pool on {self.device}"
            return driver.call(api.cuMemPoolCreate, properties, doing=doing)

    def _keep(self, nbytes: int) -> None:
        """Let the driver keep so much that is not in use when somebody waits for the device."""
        api = self._driver.api
        self._driver.call(
            api.cuMemPoolSetAttribute,
            self.handle,
            self._threshold,
            api.cuuint64_t(nbytes),
            doing=f"set what a memory pool on {self.device} keeps",
        )

    def acquire(self, nbytes: int, stream: Any) -> tuple[int, bool]:
        if self._postponed:
            self._release_postponed()
        driver = self._driver
        if stream is None and self.device.index in driver.contexts:  # neither lost nor forked
            ready = self._ready.take(nbytes)
            if ready:
                self._outstanding += 1
                return ready, False
        handle = _own_handle(stream)
        with driver.current(self.device.index):
            status, pointer = driver.api.cuMemAllocFromPoolAsync(
                memory.whole_words(nbytes), self.handle, handle
            )
        if int(status):
            doing = f"allocate {nbytes} bytes on {self.device}"
            raise driver.failure(status, doing, index=self.device.index)
        self._outstanding += 1
        held, self._held = self._held, self.reserved_bytes()
        return int(pointer), self._held > held

    def release(self, pointer: int, nbytes: int, stream: Any, used_on: Sequence[Any]) -> None:
        driver, index = self._driver, self.device.index
        if fork_guard.has_forked or driver.watch.is_lost(index):
            return  # there is nothing to give it back to
        if WHOLE_DEVICE in used_on and is_recording(index):
            self._postponed.append((pointer, nbytes, stream, used_on))
            return
        self._outstanding -= 1
        try:
            if self._is_closed or stream is not None or used_on or nbytes > MAX_BLOCK_BYTES:
                self._free(pointer, _own_handle(stream), used_on)
            elif not self._ready.keep(pointer, nbytes):
                self._free_all(self._ready.give_up())
            if self._is_closed and not self._outstanding:
                self._retire()
        except DriverError as error:
            driver.watch.suppress(index, error)  # who releases memory writes it down at the most
            raise

    def _free(self, pointer: int, handle: int, used_on: Sequence[Any]) -> None:
        """Free memory in a stream's order, after the uses of it in others."""
        driver, index = self._driver, self.device.index
        with driver.current(index):
            for use in used_on:
                if not self._order_after(handle, use):
                    memory.free(driver, index, pointer)  # waits for the whole device
                    return
            status = driver.api.cuMemFreeAsync(pointer, handle)[0]
            if int(status):
                raise driver.failure(status, f"free {pointer:#x} on {self.device}")

    def _free_all(self, blocks: Sequence[tuple[int, int]]) -> None:
        """Leave blocks of the default stream's to the driver's pool."""
        _free_each(blocks, lambda pointer: self._free(pointer, LEGACY_DEFAULT_STREAM, ()))

    def _release_postponed(self) -> None:
        """Release what came back while a graph was recorded, and may be in use anywhere."""
        for _ in range(len(self._postponed)):
            if is_recording(self.device.index):
                return
            self.release(*self._postponed.pop())

    def _order_after(self, handle: int, use: Any) -> bool:
        """Let what is put into a stream from now on wait for a use; say whether that could be."""
        driver, index = self._driver, self.device.index
        if isinstance(use, Mark):
            mark = use
        elif use is WHOLE_DEVICE:
            mark = Mark(driver, index)
            if not mark.record_everything():
                return False
        else:  # a stream may be of another device, which has copied from here or to here
            mark = Mark(driver, index if use is None else use.device.index)
            mark.record(_own_handle(use))
        doing = f"order a free after the uses of the memory on {self.device}"
        driver.call(driver.api.cuStreamWaitEvent, handle, mark.event, 0, doing=doing)
        return True

    def mark(self, stream: Any, earlier: Any) -> Any:
        mark = earlier or Mark(self._driver, self.device.index)
        mark.record(stream_handle(stream))
        return mark

    def reserved_bytes(self) -> int:
        driver = self._driver
        fork_guard.check()
        status, reserved = driver.api.cuMemPoolGetAttribute(self.handle, self._reserved)
        if int(status):
            raise driver.failure(status, f"read what a pool on {self.device} holds")
        return int(reserved)

    def trim(self, keep_bytes: int) -> None:
        fork_guard.check()
        if self._postponed:
            self._release_postponed()
        ready = self._ready.give_up()
        if ready:
            is_idle = self._is_idle()
            self._free_all(ready)
            if is_idle:  # the driver trims what it has seen to be free; nothing else is waited for
                doing = f"wait for memory on {self.device} to be free"
                synchronize_stream(
                    self._driver, self.device.index, LEGACY_DEFAULT_STREAM, doing=doing
                )
        doing = f"trim a memory pool on {self.device}"
        self._driver.call(self._driver.api.cuMemPoolTrimTo, self.handle, keep_bytes, doing=doing)
        self._held = self.reserved_bytes()

    def _is_idle(self) -> bool:
        """Return whether nothing is in the default stream, if that can be asked."""
        if is_recording(self.device.index):
            return False
        with self._driver.current(self.device.index):
            return not int(self._driver.api.cuStreamQuery(LEGACY_DEFAULT_STREAM)[0])

    def let_in(self, index: int) -> None:
        """Let another device reach the memory of this pool."""
        api = self._driver.api
        access = api.CUmemAccessDesc()
        access.location.type = api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = index
        access.flags = api.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        self._driver.call(
            api.cuMemPoolSetAccess,
            self.handle,
            [access],
            1,
            doing=f"let cuda:{index} reach the memory of {self.device}",
        )

    def close(self) -> None:
        self._is_closed = True
        try:
            self._retire()
        except DriverError as error:
            self._driver.suppress(error, self.device.index)

    def _retire(self) -> None:
        """Give back what is not in use; once nothing is, the driver's pool is the next one's."""
        index = self.device.index
        if fork_guard.has_forked or self._driver.watch.is_lost(index):
            return
        # Memory in use by running work is released at the next synchronization of the device.
        self._keep(0)
        self.trim(0)
        if not self._outstanding:
            _idle[index].append(self.handle)


def _free_each(blocks: Sequence[tuple[int, int]], free: Callable[[int], None]) -> None:
    """Free blocks, those after a failure too, and then raise the first error."""
    failure: DriverError | None = None
    for pointer, _ in blocks:
        try:
            free(pointer)
        except DriverError as error:
            failure = failure or error
    if failure is not None:
        raise failure


def _own_handle(stream: Any) -> int:
    """Return the handle that orders acquire and release; ``None`` is the default stream."""
    return LEGACY_DEFAULT_STREAM if stream is None else int(stream.own_handle)


class PlainPool(PoolBackend):
    """No pool: every allocation is the driver's, and every free waits for the device.

    - `driver`: the process's driver.
    - `device`: whose memory.
    """

    def __init__(self, driver: Driver, device: Device) -> None:
        self.device = device
        self._driver = driver
        self._held = 0

    def acquire(self, nbytes: int, stream: Any) -> tuple[int, bool]:
        driver = self._driver
        with driver.current(self.device.index):
            status, pointer = driver.api.cuMemAlloc(memory.whole_words(nbytes))
        if int(status):
            doing = f"allocate {nbytes} bytes on {self.device}"
            raise driver.failure(status, doing, index=self.device.index)
        self._held += nbytes
        return int(pointer), True

    def release(self, pointer: int, nbytes: int, stream: Any, used_on: Sequence[Any]) -> None:
        driver, index = self._driver, self.device.index
        if fork_guard.has_forked or driver.watch.is_lost(index):
            return  # there is nothing to give it back to
        self._held -= nbytes
        try:
            memory.free(driver, index, pointer)
        except DriverError as error:
            driver.watch.suppress(index, error)  # who releases memory writes it down at the most
            raise

    def reserved_bytes(self) -> int:
        return self._held

    def trim(self, keep_bytes: int) -> None:
        """Do nothing: no memory is cached."""

    def close(self) -> None:
        """Do nothing: no memory is cached."""


class ShareablePool(PlainPool):
    """Memory that other processes can open, which a pool of the driver's is not.

    Blocks that were used in the default stream alone wait to be used there again.
    """

    def __init__(self, driver: Driver, device: Device) -> None:
        super().__init__(driver, device)
        self._ready = ReadyBlocks()

    def acquire(self, nbytes: int, stream: Any) -> tuple[int, bool]:
        if stream is None and self.device.index in self._driver.contexts:
            ready = self._ready.take(nbytes)
            if ready:
                return ready, False
        return super().acquire(nbytes, stream)

    def release(self, pointer: int, nbytes: int, stream: Any, used_on: Sequence[Any]) -> None:
        if stream is not None or used_on or nbytes > MAX_BLOCK_BYTES:
            super().release(pointer, nbytes, stream, used_on)
        elif not self._ready.keep(pointer, nbytes):
            self.trim(0)

    def trim(self, keep_bytes: int) -> None:
        driver, index, freed = self._driver, self.device.index, []
        for pointer, nbytes in self._ready.give_up():
            if self._held - nbytes < keep_bytes:  # as cuMemPoolTrimTo
                self._ready.keep(pointer, nbytes)
                continue
            self._held -= nbytes
            freed.append((pointer, nbytes))
        if not fork_guard.has_forked and not driver.watch.is_lost(index):
            _free_each(freed, lambda pointer: memory.free(driver, index, pointer))

    def close(self) -> None:
        """Do nothing: a device has one such pool."""
