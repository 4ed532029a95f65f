"""Forms of device arrays: all of an array but its memory, so that more like it cost little.

Making an array reads its shape, finds its layout and lays out what launches pass; a form has done
so once. Whoever repeats the same launches makes arrays of forms.
"""

from __future__ import annotations

import struct
import sys
from typing import Any

from kerneldsl.contract.locations import BufferOffset, Location
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, KernelError
from kerneldsl.errors.values import a_type
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.geometry import OTHER_HOME, READ_ONLY
from kerneldsl.memory.pools import allocate
from kerneldsl.utilities.tracebacks import shorten

__all__ = ["ArrayForm"]

_new = DeviceArray.__new__


class ArrayForm:
    """Device, shape, strides and dtype of an array, and its place in the memory of another one.

    Parameters
    ----------
    array : DeviceArray
        What has the form; it is not kept alive.
    base : DeviceArray, optional
        What it is a view of, or a view of the same memory; by default the array itself. Of it the
        form is kept, too.

    Raises
    ------
    ArgumentTypeError
        Where one is no device array.
    ClosedResourceError
        Where one has been closed.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> with kd.use("cpu"):
    ...     x, y = kd.to_device(np.arange(4)), kd.to_device(np.arange(10, 14))
    >>> form = kd.ArrayForm(x[1:3], x)
    >>> form.over(y).copy_to_host()
    array([11, 12])
    >>> form.empty().shape
    (2,)
    """

    __slots__ = (
        "_base",
        "_code",
        "_device",
        "_dtype",
        "_heads",
        "_layout",
        "_nbytes",
        "_numbers",
        "_offset",
        "_passed",
        "_shape",
        "_size",
        "_strides",
    )

    def __init__(self, array: DeviceArray, base: DeviceArray | None = None) -> None:
        base = array if base is None else base
        for each in (array, base):
            if not isinstance(each, DeviceArray):
                raise ArgumentTypeError(
                    f"a form was asked for of {a_type(each)}",
                    value=each,
                    limit="Device arrays have forms",
                    remedy="Make one with kd.to_device(…) or kd.as_array(…)",
                )
            each.check_open()
        self._base = (base.shape, base.strides, base.dtype, base.device)
        self._device = array.device
        self._offset = array.location - base.location
        self._shape, self._strides, self._size = array.shape, array.strides, array.size
        self._dtype, self._layout, self._code = array.dtype, array.layout, array.code
        self._nbytes = array.nbytes
        self._passed = array.packed[1:]
        # As `ArrayGeometry.seal` lays it out, around the address, for each combination of flags.
        self._heads: tuple[bytes, ...] | None = None
        if self._code >= 0 and not isinstance(array.location, BufferOffset):
            every = range((READ_ONLY | OTHER_HOME) + 1)
            self._heads = tuple(
                struct.pack("=qqq", id(self._device), self._code, flags) for flags in every
            )
        self._numbers = struct.pack(f"={2 * array.ndim}q", *array.shape, *array.strides)

    def over(self, array: DeviceArray) -> DeviceArray:
        """Return an array of this form in the memory of another one, at the form's place.

        Parameters
        ----------
        array : DeviceArray
            Of the shape, strides, dtype and device of the form's base.

        Returns
        -------
        DeviceArray
            For launches, as long as `array` is open: `DeviceArray.close` does not reach it, as it
            reaches views.

        Raises
        ------
        ArgumentValueError
            Where `array` is not like the base.
        ClosedResourceError
            Where it has been closed.
        """
        try:
            if array.is_closed:
                array.check_open()
            if (array.shape, array.strides, array.dtype, array.device) != self._base:
                shape, strides, dtype, device = self._base
                raise ArgumentValueError(
                    f"an array of shape {array.shape}, strides {array.strides} and dtype "
                    f"{array.dtype} on {array.device} is not like a form's base",
                    value=array,
                    limit=f"The base has the shape {shape}, strides {strides} and dtype {dtype} on "
                    f"{device}",
                    remedy="Make a form of a view of this array",
                )
        except KernelError as error:
            shorten(error)
            raise
        return self.view(array)

    def view(self, array: DeviceArray) -> DeviceArray:
        """Return what `over` does, of an array that is known to be open and like the base."""
        return self._at(array.location + self._offset, array._owner, array.is_read_only)

    def empty(self) -> DeviceArray:
        """Return an array of this form in memory of its own, from the active pool.

        Returns
        -------
        DeviceArray
            Its elements have no particular value.

        Raises
        ------
        ArgumentValueError
            Where the form is not contiguous.
        OutOfMemoryError
            There is no room.
        """
        try:
            if self._layout == "A":
                raise ArgumentValueError(
                    f"an array of shape {self._shape} and strides {self._strides} has no memory of "
                    "its own",
                    value=self._strides,
                    limit="Arrays are made in C or Fortran order",
                    remedy="Take over(…) of an array like the base",
                )
            buffer = allocate(self._device, self._nbytes)
        except KernelError as error:
            shorten(error)
            raise
        return self._at(buffer.pointer, buffer, False)

    def _at(self, location: Location, owner: Any, is_read_only: bool) -> DeviceArray:
        made: DeviceArray = _new(DeviceArray)
        made.device = self._device
        made.location = location
        made.shape = self._shape
        made.size = self._size
        made.strides = self._strides
        made.dtype = self._dtype
        made._owner = owner
        made.is_read_only = is_read_only
        made.is_closed = False
        made.layout = self._layout
        made.packed = (location, *self._passed)
        made._block = None
        made.code = -1
        heads = self._heads
        if heads is not None:
            is_elsewhere = getattr(owner, "_home", None) is not None
            head = heads[READ_ONLY * is_read_only | OTHER_HOME * is_elsewhere]
            made._block = head + location.to_bytes(8, sys.byteorder) + self._numbers
            made.code = self._code
        return made
