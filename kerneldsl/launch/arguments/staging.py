"""Host arrays on a target with separate memory: copied in, and copied back if they were written.

Views that overlap in memory are staged as one buffer, so that they also overlap on the device. A
strided array is staged with all the memory between its first and last element. Only its elements
are copied back, because the memory between them may belong to other data. An array is packed
instead if it overlaps no other one and its elements are far apart, for example a column of a wide
matrix.

If something fails, :class:`Progress` has the last step of the launch. If no array in host memory
has been modified, the launch may run again on another device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kerneldsl.contract import Buffer, Device
from kerneldsl.contract.abi import ArrayParameters
from kerneldsl.language.kinds import Layout
from kerneldsl.launch.arguments.arguments import Progress
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.pools import allocate
from kerneldsl.memory.strided import byte_bounds, contiguous_strides, is_dense, overlapping
from kerneldsl.memory.transfer import host_copy, read_array, write_array
from kerneldsl.statistics.collect import note_copy
from kerneldsl.utilities.environment import logger

__all__ = ["HostArray", "launch_staged"]

#: Addresses keep their remainder by this many bytes, so that every element stays aligned.
_ALIGNMENT = 256
#: A strided array is packed if it spans this multiple of the bytes of its elements.
_SPARSE = 4


class HostArray:
    """One host array among the arguments of a launch.

    - `parameters`: its position among the flat values.
    - `is_written`: whether the kernel may write it.
    """

    __slots__ = ("array", "high", "index", "is_written", "low", "strides")

    def __init__(
        self, parameters: ArrayParameters, array: np.ndarray[Any, Any], is_written: bool
    ) -> None:
        self.index, self.strides = parameters.pointer, parameters.strides
        self.array = array
        self.is_written = is_written
        self.low, self.high = byte_bounds(
            array.ctypes.data, array.shape, array.strides, array.itemsize
        )


class _Region:
    """Host memory that is staged as one buffer."""

    __slots__ = ("arrays", "buffer", "high", "is_packed", "low")

    def __init__(self, low: int, high: int, arrays: list[HostArray]) -> None:
        self.low = low
        self.high = high
        self.arrays = arrays
        self.buffer: Buffer | None = None
        self.is_packed = False

    @property
    def is_written(self) -> bool:
        return any(a.is_written for a in self.arrays)

    @property
    def is_sparse(self) -> bool:
        """True if it is one array of elements that are far apart and do not overlap each other."""
        if len(self.arrays) > 1:
            return False
        array = self.arrays[0].array
        if self.high - self.low < _SPARSE * array.nbytes or array.nbytes == 0:
            return False
        reach = array.itemsize
        for stride, extent in sorted(
            (abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1
        ):
            if stride < reach:
                return False
            reach = stride * extent
        return True


def launch_staged(
    device: Device,
    arrays: list[HostArray],
    values: list[Any],
    launch: Callable[[list[Any]], None],
    stream: Any,
    progress: Progress,
) -> None:
    """Copy arrays in, launch, wait, and copy back those that the kernel can write.

    - `device`: device of the kernel.
    - `arrays`: the arguments in host memory.
    - `values`: the flat values of the launch; the pointers of `arrays` are replaced.
    - `launch`: a function that starts the kernel with the given values.
    - `stream`: the stream of the launch.
    - `progress`: records the steps of the launch.

    Notes
    -----
    If the kernel fails, nothing is copied back.
    """
    staged = list(values)
    groups = overlapping(arrays, lambda item: (item.low, item.high))
    regions = [_Region(*group) for group in groups]
    for region in regions:
        if region.is_sparse:
            _pack(device, region, staged, stream)
            continue
        size, lead = region.high - region.low, region.low % _ALIGNMENT
        region.buffer = allocate(device, size + lead, stream)
        start = region.buffer.pointer + lead
        if size:
            device.copy_from_host(start, region.low, size, stream)
            note_copy(device, "host_to_device", size)
        for item in region.arrays:
            staged[item.index] = start + (values[item.index] - region.low)
    logger.debug(
        "staged %d arrays in %d buffers, %d bytes, on %s",
        len(arrays),
        len(regions),
        sum(r.buffer.nbytes for r in regions if r.buffer is not None),
        str(device),
    )
    launch(staged)
    progress.has_begun = True
    for region in regions:
        if region.is_written:
            _copy_back(device, region, staged, stream, progress)
    device.synchronize()  # the buffers are freed now, and host errors belong to this launch


def _on_device(
    device: Device, region: _Region, item: HostArray, staged: list[Any]
) -> ArrayGeometry:
    """Return the staged array."""
    array, start = item.array, staged[item.index]
    shape, strides, dtype = array.shape, array.strides, array.dtype
    layout: Layout = "C" if region.is_packed or array.flags.c_contiguous else "A"
    if region.is_packed:
        strides = contiguous_strides(shape, dtype.itemsize)
    return ArrayGeometry(device, start, shape, strides, dtype, region.buffer, layout=layout)


def _pack(device: Device, region: _Region, staged: list[Any], stream: Any) -> None:
    """Stage a sparse array as a contiguous one; its strides are parameters, so the code serves."""
    (item,) = region.arrays
    region.is_packed = True
    region.buffer = allocate(device, item.array.nbytes, stream)
    staged[item.index] = region.buffer.pointer
    packed = _on_device(device, region, item, staged)
    staged[item.strides.start : item.strides.stop] = packed.strides
    write_array(packed, item.array, stream)


def _copy_back(
    device: Device, region: _Region, staged: list[Any], stream: Any, progress: Progress
) -> None:
    for item in region.arrays:
        array = item.array
        if not item.is_written or array.size == 0:
            continue
        touches = {a.index for a in region.arrays if a.low < item.high and item.low < a.high}
        found = _on_device(device, region, item, staged)
        if item.high - item.low == array.nbytes and is_dense(
            array.shape, array.strides, array.itemsize
        ):
            progress.touched |= touches
            read_array(found, array, stream)
        else:
            elements = host_copy(found, stream)
            progress.touched |= touches
            array[...] = elements
