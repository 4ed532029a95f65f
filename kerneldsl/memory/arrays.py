"""Arrays in the memory of a device."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from kerneldsl.contract import Device, DeviceLike
from kerneldsl.contract.locations import Location
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, KernelError
from kerneldsl.errors.values import safe_repr
from kerneldsl.language.kinds import Layout
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.operators import ArrayOperators
from kerneldsl.memory.pools import allocate
from kerneldsl.memory.protocols import ArrayProtocols, library_function
from kerneldsl.memory.strided import Order, checked_order, contiguous_strides, read_host_array
from kerneldsl.memory.transfer import fill_array, read_array, write_array
from kerneldsl.memory.views import ArrayViews, BasicIndex, holds_array
from kerneldsl.placement.devices import device_of
from kerneldsl.streams.current import stream_of
from kerneldsl.utilities.flags import read_flag
from kerneldsl.utilities.process_owned import public_names
from kerneldsl.utilities.shown import Shown
from kerneldsl.utilities.tracebacks import shorten, shorten_errors_of

__all__ = ["DeviceArray", "make_array", "new_array"]

#: Names that kerneldsl itself uses; interpreters do not complete these.
_INTERNAL = frozenset(
    {
        "as_numpy",
        "check_open",
        "check_writable",
        "code",
        "mark_foreign_use",
        "location",
        "note_use",
        "over",
        "packed",
        "seal",
    }
)


@shorten_errors_of("fill", *_INTERNAL)
class DeviceArray(ArrayViews, ArrayProtocols, ArrayOperators, Shown):
    """An array in the memory of one device.

    Made by :func:`kerneldsl.to_device`, :func:`kerneldsl.empty` and similar functions. Pass it to
    kernels; in plain Python, take views of it and copy it.

    Attributes
    ----------
    shape : tuple of int
        Extents.
    size : int
        Number of elements.
    strides : tuple of int
        Steps in bytes along each axis.
    dtype : numpy.dtype
        The dtype of the elements.
    pointer : int
        Address of the first element, on devices with addressable memory.
    device : Device
        The device.
    is_read_only : bool
        Whether kernels and copies may not write it.
    is_closed : bool
        Whether its memory was freed by :meth:`close`.

    Notes
    -----
    Indexing with ints, slices, ``...``, ``None`` or the name of a record's field gives views, never
    elements. To read elements, use :meth:`copy_to_host` or :meth:`item`. Indexing with device
    arrays of booleans or integers gives copies. Operators are the library's, and give device
    arrays.

    References
    ----------
    NumPy, "The array interface protocol", version 3; Numba, "CUDA Array Interface", version 3.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> x = kd.to_device(np.arange(6.0).reshape(2, 3))
    >>> x.shape, x.dtype
    ((2, 3), dtype('float64'))
    >>> x[1] = 7
    >>> x[:, 0].copy_to_host()
    array([0., 7.])
    """

    __slots__ = ()

    def __init__(self, *args: Any, **named: Any) -> None:
        """Refuse: an array over an arbitrary address would end the process at its first use."""
        raise ArgumentTypeError(
            "DeviceArray was called",
            value=args,
            limit="Device arrays are made where their memory comes from",
            remedy="Write kd.empty(shape, dtype), kd.to_device(array) or kd.as_array(object)",
        )

    def __setitem__(self, index: BasicIndex | str, value: Any) -> None:
        if holds_array(index):
            self.check_writable()
            library_function("assign")(self, index, value)
            return
        view = self[index]
        if isinstance(value, DeviceArray):
            if value.shape == view.shape and value.dtype == view.dtype:
                from kerneldsl.memory.copies import copy_between

                copy_between(view, value)
                return
            if value.device is view.device:
                view.check_writable()
                library_function("assign")(view, ..., value)
                return
            value = DeviceArray.copy_to_host(value)
        is_of_records = view.dtype.names is not None and isinstance(value, list | tuple)
        source = read_host_array(value, view.dtype if is_of_records else None)
        if source.ndim == 0:
            view.fill(source if is_of_records else value)
            return
        try:
            source = np.broadcast_to(source, view.shape)
        except ValueError as error:
            raise ArgumentValueError(
                f"a value of shape {source.shape} was assigned to a view of shape {view.shape}",
                value=value,
                limit="Shapes are equal, or NumPy broadcasts the value's to the view's",
                remedy="Assign to a slice of the value's shape, as in array[:n] = value",
            ) from error
        view.copy_from_host(source)

    def copy_to_host(
        self,
        out: np.ndarray[Any, Any] | None = None,
        stream: Any = None,
        *,
        blocking: bool = True,
    ) -> np.ndarray[Any, Any]:
        """Copy the elements into a NumPy array, after earlier work has finished.

        Parameters
        ----------
        out : ndarray, optional
            Array of the same shape and dtype to copy into; by default a new one.
        stream : optional
            Stream of that work; by default the current one.
        blocking : bool, optional
            Whether to wait for the copy. With ``False`` the elements are valid once the stream has
            reached the copy. A new array is then in page-locked memory, since only such copies are
            asynchronous. A copy between arrays with different orders of elements always waits.

        Returns
        -------
        ndarray
            `out`, or a new array: in Fortran order if this array is, else in C order.

        Examples
        --------
        >>> import numpy as np
        >>> import kerneldsl as kd
        >>> kd.to_device(np.arange(3)).copy_to_host()
        array([0, 1, 2])
        """
        self.check_open()
        blocking = read_flag("blocking", blocking)
        if out is None:
            order: Order = "F" if self.layout == "F" else "C"
            if blocking or self.device.is_synchronous:
                out = np.empty(self.shape, self.dtype, order=order)
            else:
                from kerneldsl.memory.host_memory import pinned_empty

                out = pinned_empty(self.shape, self.dtype, order=order, device=self.device)
        read_array(self, out, stream_of(self.device, stream), blocking=blocking)
        return out

    def copy_from_host(
        self, array: np.ndarray[Any, Any], stream: Any = None, *, blocking: bool = True
    ) -> None:
        """Overwrite the elements with those of a NumPy array of the same shape and dtype.

        Parameters
        ----------
        array : ndarray
            The array to copy.
        stream : optional
            Stream that orders the copy; by default the current one.
        blocking : bool, optional
            Whether to return only when `array` may be changed. With ``False`` it must not be
            changed until the stream has reached the copy; it is kept alive until then. Only copies
            from page-locked memory (`kerneldsl.pinned_empty`) are asynchronous.

        Examples
        --------
        >>> import numpy as np
        >>> import kerneldsl as kd
        >>> x = kd.empty(3)
        >>> x.copy_from_host(np.array([1.0, 2.0, 3.0]))
        >>> x.copy_to_host()
        array([1., 2., 3.])
        """
        blocking = read_flag("blocking", blocking)
        write_array(self, array, stream_of(self.device, stream), blocking=blocking)

    def fill(self, value: Any, stream: Any = None) -> None:
        """Set every element to a value, converted to the dtype, in the order of the stream.

        Parameters
        ----------
        value : number
            The value.
        stream : optional
            Stream that orders the work; by default the current one.

        Raises
        ------
        ArgumentValueError
            If the dtype cannot hold the value. As in NumPy, a Python int does not wrap around.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> x = kd.empty(3, "int32")
        >>> x.fill(7)
        >>> x.copy_to_host()
        array([7, 7, 7], dtype=int32)
        """
        try:
            self.check_writable()
            element = np.empty((), self.dtype)
            try:
                element[...] = value
            except KernelError:  # of a device array that is not converted by itself
                raise
            except Exception as error:
                raise ArgumentValueError(
                    f"an array of dtype {self.dtype} cannot be filled with {safe_repr(value)}",
                    value=value,
                    limit=f"NumPy says: {error}",
                    remedy="Pass one number that the dtype holds",
                ) from error
            fill_array(self, element, stream_of(self.device, stream))
        except KernelError as error:
            shorten(error)
            raise

    def item(self) -> Any:
        """Return the only element as a Python number; needs a transfer from the device.

        Raises
        ------
        ArgumentValueError
            If the array has more elements, or none.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> kd.ones(3)[1].item()
        1.0
        """
        if self.size != 1:
            raise ArgumentValueError(
                f"item() reads arrays of one element; this one has {self.size}",
                value=self.shape,
                remedy="Take a view of one element, or copy_to_host()",
            )
        return DeviceArray.copy_to_host(self).item()

    def to_device(self, device: DeviceLike, /, *, stream: Any = None) -> DeviceArray:
        """Return this array if it is on the device, or else a copy there.

        Parameters
        ----------
        device : str or Device
            The device.
        stream : optional
            Stream that orders the copy; by default the current one.

        Returns
        -------
        DeviceArray
            An array of the same shape and dtype.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> with kd.use("cpu"):
        ...     x = kd.zeros(3)
        >>> x.to_device("cpu") is x
        True
        """
        self.check_open()
        found = device_of(device)
        if found is self.device:
            return self
        from kerneldsl.memory.copies import copy_between

        made = new_array(found, self.shape, self.dtype, "F" if self.layout == "F" else "C")
        copy_between(made, self, stream)
        return made

    def copy(self, order: Order | Literal["A", "K"] = "C") -> DeviceArray:
        """Return a new array with the same elements on the same device, as NumPy does.

        Parameters
        ----------
        order : {"C", "F", "A", "K"}, optional
            Which axis is contiguous: the last or the first. With "A" or "K" it is the first if this
            array is in Fortran order.

        Returns
        -------
        DeviceArray
            A contiguous array of the same shape and dtype.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> x = kd.zeros(3)
        >>> y = x[::2].copy()
        >>> y.fill(1)
        >>> x.tolist(), y.tolist()
        ([0.0, 0.0, 0.0], [1.0, 1.0])
        """
        self.check_open()
        if isinstance(order, str) and order in ("A", "K"):
            order = "F" if self.layout == "F" else "C"
        made = new_array(self.device, self.shape, self.dtype, checked_order(order))
        device = self.device
        is_whole = made.strides == self.strides or self.dtype.names is not None
        if is_whole or device.shares_host_memory or device.is_simulated:
            from kerneldsl.memory.copies import copy_between

            copy_between(made, self)
        else:  # in pieces, many of them would be copied over the host
            library_function("copy_elements")(self, made)
        return made

    def __copy__(self) -> DeviceArray:
        return self.copy("K")

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceArray:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the elements, copied to the host, and the name of the device."""
        return _arrived, (self.copy_to_host(), str(self.device))

    def __dir__(self) -> list[str]:
        return public_names(super().__dir__(), _INTERNAL)

    def __repr__(self) -> str:
        from kerneldsl.memory.display import format_array

        return format_array(self)


def make_array(
    device: Device,
    location: Location,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[Any],
    owner: Any,
    is_read_only: bool = False,
    *,
    layout: Layout | None = None,
) -> DeviceArray:
    """Return an array over memory; the parameters are those of `ArrayGeometry`."""
    made = DeviceArray.__new__(DeviceArray)
    ArrayGeometry.__init__(
        made, device, location, shape, strides, dtype, owner, is_read_only, layout=layout
    )
    return made


def new_array(
    device: Device,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    order: Order = "C",
    stream: Any = None,
) -> DeviceArray:
    """Allocate a contiguous array from the active pool; see :func:`kerneldsl.empty`."""
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    strides = contiguous_strides(shape, dtype.itemsize, order)
    buffer = allocate(device, size, stream, (shape, strides, dtype))
    layout: Layout | None = "C" if order == "C" else None
    return make_array(device, buffer.pointer, shape, strides, dtype, buffer, layout=layout)


def _arrived(elements: np.ndarray[Any, Any], device: str) -> DeviceArray:
    """Return the unpickled array, on the device of that name."""
    order: Order = "F" if elements.flags.fnc else "C"
    made = new_array(device_of(device), elements.shape, elements.dtype, order)
    made.copy_from_host(elements)
    return made
