"""Forms of device arrays, for cheap creation of many similar arrays.

To make an array, its shape is read, its layout found, and the parameters of launches are laid out.
A form does this once, for programs that repeat the same launches.
"""

from __future__ import annotations

import struct
from typing import Any

from kerneldsl.contract.locations import BufferOffset, Location
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, KernelError
from kerneldsl.errors.values import a_type
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.geometry import OTHER_HOME, READ_ONLY, ArrayGeometry
from kerneldsl.memory.host_memory import FreeList, find_free_list
from kerneldsl.memory.pools import PooledBuffer, allocate
from kerneldsl.utilities.tracebacks import shorten

__all__ = ["ArrayForm", "FormMethods", "NativeForms"]

_new = DeviceArray.__new__
#: Bytes of a block before its flags and the address, and before the extents; see `seal`.
_FLAGS_AT, _EXTENTS_AT = 16, 32
_placed = struct.Struct("=qQ").pack


class FormMethods:
    """Methods that make arrays of a form, from a model without memory and an offset in bytes."""

    __slots__ = ("_free_list", "_model", "_offset")

    _model: DeviceArray
    _offset: int
    #: The free list from which native code takes memory, after the first allocation.
    _free_list: FreeList | None

    def empty(self) -> DeviceArray:
        """Allocate an array of this form from the active pool.

        Returns
        -------
        DeviceArray
            Its elements are undefined.

        Raises
        ------
        ArgumentValueError
            If the form is not contiguous.
        OutOfMemoryError
            If there is no memory left.
        """
        try:
            model = self._model
            if model.layout == "A":
                raise ArgumentValueError(
                    f"an array of shape {model.shape} and strides {model.strides} cannot be "
                    "allocated",
                    value=model.strides,
                    limit="Arrays are made in C or Fortran order",
                    remedy="Take over(…) of an array like the base",
                )
            form = model.shape, model.strides, model.dtype
            buffer = allocate(model.device, model.nbytes, None, form)
            if type(buffer) is PooledBuffer and buffer._home is None:
                buffer.free_list = find_free_list(buffer._pool, model.nbytes)
                self._free_list = buffer.free_list or self._free_list
        except KernelError as error:
            shorten(error)
            raise
        return self._at(buffer.pointer, buffer, False)

    def view(self, array: DeviceArray) -> DeviceArray:
        """Return the result of `ArrayForm.over` for an array that is known to be like the base."""
        return self._at(array.location + self._offset, array._owner, array.is_read_only)

    def _at(self, location: Location, owner: Any, is_read_only: bool) -> DeviceArray:
        """Return an array like the model in an owner's memory."""
        model = self._model
        made: DeviceArray = _new(DeviceArray)
        made.device = model.device
        made.location = location
        made.shape = model.shape
        made.size = model.size
        made.strides = model.strides
        made.dtype = model.dtype
        made._owner = owner
        made.is_read_only = is_read_only
        made.is_closed = False
        made.layout = model.layout
        made.packed = (location, *model.packed[1:])
        made.code = model.code
        block = made._block = model._block
        if block is not None:
            is_elsewhere = getattr(owner, "_home", None) is not None
            flags = READ_ONLY * is_read_only | OTHER_HOME * is_elsewhere
            made._block = block[:_FLAGS_AT] + _placed(flags, location) + block[_EXTENTS_AT:]
        return made


class NativeForms(FormMethods):
    """Native versions of the methods; see :mod:`kerneldsl.launch.native.emit_forms`."""

    __slots__ = ()


class ArrayForm(NativeForms):
    """Device, shape, strides and dtype of an array, and its place in the memory of another one.

    Parameters
    ----------
    array : DeviceArray
        The array with the form; it is not kept alive.
    base : DeviceArray, optional
        The array that `array` is a view of; by default `array` itself. Only its form is kept.

    Raises
    ------
    ArgumentTypeError
        If one of them is not a device array.
    ClosedResourceError
        If one of them has been closed.

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

    __slots__ = ("_base",)

    def __init__(self, array: DeviceArray, base: DeviceArray | None = None) -> None:
        base = array if base is None else base
        for each in (array, base):
            if not isinstance(each, DeviceArray):
                raise ArgumentTypeError(
                    f"a form cannot be made of {a_type(each)}",
                    value=each,
                    limit="A form describes a device array",
                    remedy="Make one with kd.to_device(…) or kd.as_array(…)",
                )
            each.check_open()
        self._base = (base.shape, base.strides, base.dtype, base.device)
        self._offset = array.location - base.location
        self._model = _new(DeviceArray)
        geometry = array.device, 0, array.shape, array.strides, array.dtype
        ArrayGeometry.__init__(self._model, *geometry, None, layout=array.layout)
        if array.code >= 0 and not isinstance(array.location, BufferOffset):
            self._model.seal(array.code)
        self._free_list = None

    def over(self, array: DeviceArray) -> DeviceArray:
        """Return an array of this form in the memory of another array, at the place of the form.

        Parameters
        ----------
        array : DeviceArray
            An array with the shape, strides, dtype and device of the form's base.

        Returns
        -------
        DeviceArray
            An array for launches, valid while `array` is open. `DeviceArray.close` of `array` does
            not mark it as closed, as it does with views.

        Raises
        ------
        ArgumentValueError
            If `array` is not like the base.
        ClosedResourceError
            If it has been closed.
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
