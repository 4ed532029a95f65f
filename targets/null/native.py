"""A driver of the null target for native code, which records launches instead of making them.

Its functions have the signatures of the CUDA driver's. So what a native launcher passes to a driver
(context, grid, packed parameters) is checked on every machine. They return a status for launches
that a driver would refuse or a test has planned to fail. Python then repeats the launch and raises
the error.
"""

from __future__ import annotations

import ctypes
import struct
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import LaunchConfig
from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.contract.tensor_maps import (
    L2_PROMOTION,
    MAP_DTYPES,
    MAP_SWIZZLES,
    MAX_MAP_EXTENT,
    MAX_MAP_RANK,
    MAX_MAP_STRIDE,
    TENSOR_MAP_BYTES,
    TensorMap,
    map_geometry,
    pad_for_maps,
)
from kerneldsl.errors import KernelError
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.device.streams import stream_handle
from targets.null.faults import FaultPlan

if TYPE_CHECKING:
    from kerneldsl.contract import DriverEntry
    from targets.null.executable import LaunchRecord, NullExecutable

__all__ = ["NativeDriver", "with_maps"]

# Statuses, and the tags of the launch function's `extra` argument (CUDA Driver API).
_SUCCESS, _INVALID_VALUE, _INVALID_CONTEXT, _UNKNOWN = 0, 1, 201, 999
_PARAM_END, _PARAM_BUFFER_POINTER, _PARAM_BUFFER_SIZE = 0, 1, 2

_U32, _ADDRESS = ctypes.c_uint, ctypes.c_size_t
_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, *(_U32,) * 7, _ADDRESS, _ADDRESS, _ADDRESS)
_LAUNCH_EX = ctypes.CFUNCTYPE(ctypes.c_int, *(_ADDRESS,) * 4)
_GET_CONTEXT = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS)
_SET_CONTEXT = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS)

#: A context's handle is this plus the device's index.
_FIRST_CONTEXT = 0xC0DE_0000


#: ``CUlaunchConfig``: grid, block, shared memory, stream, attributes and their number.
_CONFIG = struct.Struct("=7I4xQQI")
#: ``CUlaunchAttribute`` of a launch that may begin before the one before it ends.
_IS_EARLY = struct.pack("=QI", 6, 1)


@dataclass(frozen=True, eq=False)
class _Kernel:
    """Kernel of a function's handle."""

    executable: NullExecutable
    config: LaunchConfig


class NativeDriver:
    """The functions, and what they know.

    `faults` says what is planned to fail; `record` takes the record of each launch.
    """

    def __init__(self, faults: FaultPlan, record: Callable[[LaunchRecord], None]) -> None:
        self._faults = faults
        self._record = record
        self._thread = threading.local()
        self._kernels: weakref.WeakValueDictionary[int, _Kernel] = weakref.WeakValueDictionary()
        self._launch = _LAUNCH(self._take_launch)
        self._launch_early = _LAUNCH_EX(self._take_early_launch)
        self._get = _GET_CONTEXT(self._take_get)
        self._set = _SET_CONTEXT(self._take_set)
        self._encode = _ENCODE(_encode)

    @property
    def context(self) -> int:
        """Handle of the context that is current in this thread, or 0. It can be set."""
        return getattr(self._thread, "context", 0)

    @context.setter
    def context(self, handle: int) -> None:
        self._thread.context = handle

    def context_of(self, index: int) -> int:
        """Handle of the context of a device."""
        return _FIRST_CONTEXT + index

    def entry(self, executable: NullExecutable, config: LaunchConfig) -> DriverEntry:
        """Return how native code launches a kernel in a configuration."""
        from kerneldsl.contract import DriverEntry, Holds

        artifact = executable.artifact
        assert isinstance(artifact, CudaArtifact)
        index, name = executable.device.index, artifact.specialization.unit.name
        watch, stream = self._faults.watch, stream_handle(config.stream)
        kernel = _Kernel(executable, config)
        self._kernels[id(kernel)] = kernel
        added = artifact.additions.added_to(config)
        is_early = artifact.additions.is_early
        return DriverEntry(
            launch=_address(self._launch_early if is_early else self._launch),
            get_context=_address(self._get),
            set_context=_address(self._set),
            context=self.context_of(index),
            may_stay=index == 0,
            function=id(kernel),
            grid_dim=added.grid_dim,
            block_dim=added.block_dim,
            shared_bytes=config.shared_bytes,
            stream=stream,
            note=watch.launches(index).append,
            noted=(name, config.grid_dim, config.block_dim, stream),
            holds=(
                Holds(vars(self._faults), "watch", watch),
                Holds(watch.lost, index, is_missing=True),
                Holds(watch.lost, None, is_missing=True),
            ),
            is_early=is_early,
            offsets=artifact.offsets if artifact.passes_addresses else (),
            encode=_address(self._encode) if artifact.tensor_maps else 0,
            keep=(self, kernel),
        )

    # ------------------------------------------------------------------ what native code calls

    def _take_get(self, out: int) -> int:
        _ADDRESS.from_address(out).value = self.context
        return _SUCCESS

    def _take_set(self, context: int) -> int:
        self.context = context
        return _SUCCESS

    def _take_early_launch(self, config: int, function: int, arrays: int, extra: int) -> int:
        *shape, stream, attributes, count = _CONFIG.unpack(ctypes.string_at(config, _CONFIG.size))
        if count != 1 or ctypes.string_at(attributes, len(_IS_EARLY)) != _IS_EARLY:
            return _INVALID_VALUE
        return self._take_launch(function, *shape, stream, arrays, extra)

    def _take_launch(self, function: int, *rest: int) -> int:
        gx, gy, gz, bx, by, bz, shared_bytes, stream, arrays, extra = rest
        kernel = self._kernels[function]
        executable, config = kernel.executable, kernel.config
        if self.context != self.context_of(executable.device.index):
            return _INVALID_CONTEXT
        if self._faults.is_planned("launch"):
            return _UNKNOWN
        if stream != stream_handle(config.stream):
            return _INVALID_VALUE
        given = _read_parameters(executable, arrays, extra)
        if given is None:
            return _INVALID_VALUE
        artifact = executable.artifact
        assert isinstance(artifact, CudaArtifact)
        parameters, added = given[: artifact.layout.nbytes], artifact.additions
        if given != with_maps(parameters, artifact.layout, artifact.tensor_maps):
            return _INVALID_VALUE
        config = replace(
            config,
            grid_dim=(gx, gy, gz),
            block_dim=(bx - added.threads, by, bz),
            shared_bytes=shared_bytes,
        )
        try:
            self._record(executable.examine(config, parameters))
        except KernelError as error:
            return int(getattr(error, "code", None) or _INVALID_VALUE)
        return _SUCCESS


def _address(function: Any) -> int:
    found = ctypes.cast(function, ctypes.c_void_p).value
    assert found is not None
    return found


def _read_parameters(executable: NullExecutable, arrays: int, extra: int) -> bytes | None:
    """Return the parameter buffer; ``None`` if it is not passed as a driver needs it."""
    artifact = executable.artifact
    assert isinstance(artifact, CudaArtifact)
    if bool(arrays) != artifact.passes_addresses or (arrays and extra):
        return None
    if not arrays:
        return _read_extra(extra) if extra else b""
    # A driver reads what the kernel declares; all of the buffer is looked at here.
    first = artifact.offsets[0]
    nbytes = artifact.layout.nbytes
    if artifact.tensor_maps:
        nbytes = artifact.offsets[-1] + TENSOR_MAP_BYTES
    addresses = (_ADDRESS * len(artifact.offsets)).from_address(arrays)
    start = addresses[0] - first
    if [address - start for address in addresses] != list(artifact.offsets):
        return None
    return ctypes.string_at(start, nbytes)


def _read_extra(extra: int) -> bytes | None:
    """Return the parameter buffer; ``None`` if it is not passed as a driver needs it."""
    tags = (_ADDRESS * 5).from_address(extra)
    if (tags[0], tags[2], tags[4]) != (_PARAM_BUFFER_POINTER, _PARAM_BUFFER_SIZE, _PARAM_END):
        return None
    return ctypes.string_at(tags[1], _ADDRESS.from_address(tags[3]).value)


#: Signature of ``cuTensorMapEncodeTiled``.
_ENCODE = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, _U32, _U32, *(_ADDRESS,) * 5, *(_U32,) * 4)
#: Address, dtype, rank and swizzle, extents, strides, box.
_WORDS = f"=Q3I{MAX_MAP_RANK}Q{MAX_MAP_RANK - 1}Q{MAX_MAP_RANK}I"
#: Addresses and strides are multiples of it.
_ALIGNMENT = 16


def _encode(
    out: int,
    dtype: int,
    rank: int,
    address: int,
    extents: int,
    strides: int,
    box: int,
    ones: int,
    interleave: int,
    swizzle: int,
    promotion: int,
    fill: int,
) -> int:
    """Write a map to an address, or answer a status, as a driver would."""
    lengths = list((ctypes.c_uint64 * rank).from_address(extents))
    steps = list((ctypes.c_uint64 * (rank - 1)).from_address(strides)) if rank > 1 else []
    boxes = list((ctypes.c_uint32 * rank).from_address(box))
    is_good = (
        out % TENSOR_MAP_BYTES == 0
        and address % _ALIGNMENT == 0
        and address > 0
        and all(1 <= each <= MAX_MAP_EXTENT for each in lengths)
        and all(0 < each <= MAX_MAP_STRIDE and each % _ALIGNMENT == 0 for each in steps)
        and list((ctypes.c_uint32 * rank).from_address(ones)) == [1] * rank
        and (interleave, promotion, fill) == (0, L2_PROMOTION, 0)
    )
    if not is_good:
        return _INVALID_VALUE
    found = _packed(address, dtype, rank, swizzle, lengths, steps, boxes)
    ctypes.memmove(out, found, TENSOR_MAP_BYTES)
    return _SUCCESS


def with_maps(parameters: bytes, layout: ParameterLayout, maps: Sequence[TensorMap]) -> bytes:
    """Return what a driver is given for packed parameters and the maps that a kernel takes."""
    if not maps:
        return parameters
    values, found = layout.packer.unpack(parameters), []
    for wanted in maps:
        array = layout.arrays[wanted.array]
        address, extents, strides = map_geometry(wanted, array, values)
        dtype, swizzle = MAP_DTYPES[array.kind.dtype], MAP_SWIZZLES[wanted.swizzle]
        rank, box = len(wanted.axes), wanted.box
        found.append(_packed(address, dtype, rank, swizzle, extents, strides, box))
    return pad_for_maps(parameters, found)


def _packed(
    address: int,
    dtype: int,
    rank: int,
    swizzle: int,
    extents: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
) -> bytes:
    rest = [0] * (MAX_MAP_RANK - rank)
    words = (address, dtype, rank, swizzle, *extents, *rest, *strides, *rest, *box, *rest)
    return struct.pack(_WORDS, *words).ljust(TENSOR_MAP_BYTES, b"\0")
