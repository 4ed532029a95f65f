"""Calls with CUDA arrays of torch or CuPy: the stream and the memory in which their library works.

A launch takes that stream for such arguments, so it is in order with what the library does before
and after it. A call of several launches does so for all of them. Its results are arrays of that
library, in its memory and its statistics. Memory of our pool could be in use in any stream of the
library, and would wait for all of them before the next use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

from kerneldsl.contract import Device, MemoryType
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.pools import Form, active_pools, device_memory
from kerneldsl.memory.strided import contiguous_strides
from kerneldsl.memory.tensors import is_cupy, is_tensor, stream_of_cupy, stream_of_torch
from kerneldsl.placement.devices import device_of_memory
from kerneldsl.streams.current import active_stream

__all__ = ["device_arrays", "foreign_array", "working_with"]

#: Handles of the legacy default stream.
_DEFAULT_STREAMS = (0, 1)
_NO_BLOCK: AbstractContextManager[Any] = nullcontext()


def working_with(values: Iterable[Any]) -> AbstractContextManager[Any]:
    """Return a block in the stream and the memory of the library of a CUDA array among values.

    The block does nothing inside of a block of one of kerneldsl's streams. Memory is kerneldsl's
    inside of a block of one of its pools.
    """
    for value in values:
        if isinstance(value, tuple | list):
            block = working_with(value)
            if block is not _NO_BLOCK:
                return block
        elif is_tensor(value):
            if value.is_cuda:
                return _block("torch", value.device.index)
        elif is_cupy(value):
            return _block("cupy", value.data.device_id)
    return _NO_BLOCK


def _block(library: str, index: int) -> AbstractContextManager[Any]:
    device = device_of_memory(MemoryType.CUDA, index)
    active = active_stream(device)
    if active is not None and not active._is_default:
        return _NO_BLOCK
    cuda = sys.modules[library].cuda
    handle = stream_of_torch(index) if library == "torch" else stream_of_cupy()
    is_elsewhere = library == "cupy" and cuda.runtime.getDevice() != index
    pool = _NO_BLOCK if is_elsewhere or active_pools.get() else _pool(library, device)
    if handle in _DEFAULT_STREAMS:
        return pool
    from kerneldsl.streams.streams import Stream  # few programs bring streams along

    stream = cuda.current_stream(index) if library == "torch" else cuda.get_current_stream()
    return _both(Stream.from_foreign(stream, device), pool)


@contextmanager
def _both(stream: AbstractContextManager[Any], pool: AbstractContextManager[Any]) -> Iterator[None]:
    with stream, pool:
        yield


@cache
def _pool(library: str, device: Device) -> ForeignPool:
    return ForeignPool(library, device)


def device_arrays(values: Iterable[Any]) -> list[DeviceArray]:
    """Return what `kerneldsl.as_array` returns for each."""
    from kerneldsl.memory.array_interface import as_arrays  # many programs do without DLPack

    return as_arrays(values)


class ForeignPool:
    """Arrays of torch or CuPy as a source of memory, in the place of a `MemoryPool`.

    Inside of ``with pool:`` new arrays of the device are in that memory. All work must be in the
    stream in which the library works, because the library frees memory in the order of this stream.

    - `library`: ``"torch"`` or ``"cupy"``; of CuPy, the device must be the current one.
    - `device`: a CUDA device.
    """

    def __init__(self, library: str, device: Device) -> None:
        self.device = device
        self._memory = device_memory(device)
        self._empty = _empty_tensor if library == "torch" else _empty_of_cupy

    def __enter__(self) -> None:
        active_pools.set((*active_pools.get(), self))

    def __exit__(self, *exc: object) -> None:
        active_pools.set(tuple([each for each in active_pools.get() if each is not self]))

    def allocate(self, nbytes: int, stream: Any = None, form: Form | None = None) -> Any:
        """Return memory of the library; see :func:`kerneldsl.memory.pools.allocate`."""
        if stream is None and nbytes > 0 and form is not None:
            try:
                return _ForeignBuffer(form, *self._empty(self.device.index, *form))
            except Exception:  # noqa: BLE001 -- no such dtype, or no memory: ours says why
                pass
        return self._memory.default.allocate(nbytes, stream)


class _ForeignBuffer:
    """The memory of an array of another library, which is of a form."""

    __slots__ = ("array", "form", "pointer")

    def __init__(self, form: Form, array: Any, pointer: int) -> None:
        self.form, self.array, self.pointer = form, array, pointer


def foreign_array(array: DeviceArray) -> Any:
    """Return a device array in memory of a `ForeignPool` as an array of that library.

    ``None`` is for other memory, and for another dtype than the memory was made for.
    """
    owner, form = array._owner, (array.shape, array.strides, array.dtype)
    if type(owner) is not _ForeignBuffer or array.dtype != owner.form[2]:
        return None
    at = array.pointer - owner.pointer
    if form == owner.form and not at:
        return owner.array
    if hasattr(owner.array, "as_strided"):
        size = array.itemsize
        return owner.array.as_strided(array.shape, _steps(array.strides, size), at // size)
    return type(owner.array)(array.shape, array.dtype, owner.array.data + at, array.strides)


def _steps(strides: tuple[int, ...], size: int) -> list[int]:
    return [stride // size for stride in strides]


def _empty_tensor(
    index: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[Any, int]:
    make = _maker(index, shape, strides, dtype)
    made = make()
    return made, made.data_ptr()


@lru_cache(1024)
def _maker(
    index: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
) -> Callable[[], Any]:
    torch: Any = sys.modules["torch"]
    kind, place = getattr(torch, dtype.name), torch.device("cuda", index)
    steps = _steps(strides, dtype.itemsize)
    return partial(torch.empty_strided, shape, steps, dtype=kind, device=place)


def _empty_of_cupy(
    index: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[Any, int]:
    order = "C" if strides == contiguous_strides(shape, dtype.itemsize) else "F"
    made = sys.modules["cupy"].ndarray(shape, dtype, order=order)
    return made, made.data.ptr
