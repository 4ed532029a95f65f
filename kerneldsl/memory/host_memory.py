"""Page-locked host memory, which devices copy from and to by themselves.

A copy from or to page-locked memory is made by the device itself while the host goes on; ordinary
memory has to pass through such memory of the driver's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kerneldsl.contract import DeviceLike
from kerneldsl.memory.pools import allocate, checked_size
from kerneldsl.memory.shared_memory import SharedMemory
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

__all__ = ["pinned_copy", "pinned_empty"]


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
    """Make a NumPy array in page-locked memory, which devices copy from and to by themselves.

    Parameters
    ----------
    shape, dtype, order
        As for `kerneldsl.empty`.
    mapped : bool, optional
        Let kernels reach the memory where it is: `mapped_view` gives the array for them. Every
        access goes over the bus, so this is for little data, or for what is read or written once.
    write_combined : bool, optional
        Bypass the processor's caches: faster to be copied from, very slow for the host to read. A
        target without such memory takes no notice.
    device : str or Device, optional
        Whose copies it is for; by default where kernels run now.

    Returns
    -------
    ndarray
        At least 256-byte aligned, contents undefined. The memory is given back when the last view
        of it is gone. On the CPU, where nothing is copied, it is an ordinary aligned array, and the
        two flags change nothing.

    Raises
    ------
    OutOfMemoryError
        The system has no page-locked memory left.
    ArgumentTypeError, ArgumentValueError
        For a dtype that kernels do not take, or a shape that is not made of ints >= 0.

    Notes
    -----
    Page-locked memory is taken from the whole machine, and making it costs milliseconds: make few
    such arrays and use them again.
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
    """Make a copy of an array in page-locked memory; see `pinned_empty`."""
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
