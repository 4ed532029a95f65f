"""Geometry of an array: its place, its shape, and the access to its memory.

Copies, protocols of other libraries and the readers of arguments use :class:`ArrayGeometry`.
:class:`~kerneldsl.memory.arrays.DeviceArray` adds their methods.
"""

from __future__ import annotations

import math
import struct
import weakref
from typing import Any, Self

import numpy as np

from kerneldsl.contract import Device
from kerneldsl.contract.locations import BufferOffset, Location, address
from kerneldsl.contract.streams import is_recorded
from kerneldsl.errors import ClosedResourceError, ReadOnlyArrayError
from kerneldsl.language.kinds import Layout
from kerneldsl.memory.strided import host_view, layout_of
from kerneldsl.utilities.locks import ForkSafeLock

__all__ = ["OTHER_HOME", "READ_ONLY", "ArrayGeometry", "sealed_code"]

#: Flags of an array's block.
READ_ONLY, OTHER_HOME = 1, 2
#: Stands for owners that do not know the arrays over their memory.
_NO_FAMILY: Any = object()
#: Held while an array gets a family, so that two threads do not make two.
_family_lock = ForkSafeLock()
#: Codes of the kinds of sealed arrays, by dtype, rank and layout.
_codes: dict[tuple[np.dtype[Any], int, str], int] = {}


class ArrayGeometry:
    """An array in the memory of a device: its place, its shape, and the owner of the memory.

    - `location`: the location of the first element: an address, or a `BufferOffset` in memory
      without addresses.
    - `shape`, `strides`: extents, and steps in bytes along each axis.
    - `dtype`: the dtype of the elements.
    - `owner`: the object that keeps the memory alive.
    - `is_read_only`: whether kernels and copies may not write it.
    - `layout`: the contiguity, if it is known.
    """

    __slots__ = (
        "__weakref__",
        "_block",
        "_owner",
        "code",
        "device",
        "dtype",
        "is_closed",
        "is_read_only",
        "layout",
        "location",
        "packed",
        "shape",
        "size",
        "strides",
    )

    def __init__(
        self,
        device: Device,
        location: Location,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype[Any],
        owner: Any,
        is_read_only: bool = False,
        *,
        layout: Layout | None = None,
    ) -> None:
        self.device = device
        self.location = location
        self.shape = shape
        #: Stored, for ``kernel.forall(array.size)``.
        self.size = math.prod(shape)
        self.strides = strides
        self.dtype = dtype
        self._owner = owner
        self.is_read_only = is_read_only
        self.is_closed = False
        self.layout: Layout = layout or layout_of(shape, strides, dtype.itemsize)
        #: Values that a launch passes: location, extents, and strides unless contiguous.
        self.packed = (location, *shape, *(strides if self.layout == "A" else ()))
        #: Code of the kind, filled in when it is first passed to a kernel.
        self.code = -1
        #: These values for native code, filled in with the code: see :meth:`seal`.
        self._block: bytes | None = None

    @classmethod
    def over(cls, array: ArrayGeometry) -> Self:
        """Return an array of this class over the same memory."""
        made = cls.__new__(cls)
        ArrayGeometry.__init__(
            made,
            array.device,
            array.location,
            array.shape,
            array.strides,
            array.dtype,
            array._owner,
            array.is_read_only,
            layout=array.layout,
        )
        return made

    @property
    def pointer(self) -> int:
        """Address of the first element on the device.

        Raises
        ------
        ArgumentTypeError
            If the device's memory has no addresses.
        """
        return address(self.location)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """The size of an element, in bytes."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The size of all elements, in bytes."""
        return self.size * self.dtype.itemsize

    @property
    def is_managed(self) -> bool:
        """True if it is in managed memory, which migrates between host and device."""
        return getattr(self._owner, "is_managed", False)

    def as_numpy(self, owner: Any, pointer: int | None = None) -> np.ndarray[Any, Any]:
        """Return a NumPy array over the same memory, which the host must be able to access.

        Parameters
        ----------
        owner : object
            The object that the NumPy array keeps alive.
        pointer : int, optional
            Host address of the first element; by default the address on the device.
        """
        start = self.pointer if pointer is None else pointer
        return host_view(start, self.shape, self.strides, self.dtype, owner, self.is_read_only)

    def _over(
        self,
        location: Location,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        is_read_only: bool,
        dtype: np.dtype[Any] | None = None,
    ) -> Self:
        """Return an array over the same memory, which is closed with this one."""
        self.check_open()
        owner, dtype = self._owner, self.dtype if dtype is None else dtype
        view = type(self).__new__(type(self))
        ArrayGeometry.__init__(
            view, self.device, location, shape, strides, dtype, owner, is_read_only
        )
        family = getattr(owner, "family", _NO_FAMILY)
        if family is None:
            with _family_lock:
                if owner.family is None:
                    # The key is the identity: arrays have no hash.
                    owner.family = weakref.WeakValueDictionary({id(self): self})
                family = owner.family
        if family is not _NO_FAMILY:
            family[id(view)] = view
        return view

    # ------------------------------------------------------------------ the memory

    def note_use(self, stream: Any) -> None:
        """Note that work in a stream uses the memory, which is not reused until it is done.

        - `stream`: as :func:`~kerneldsl.streams.current.stream_of` returns it. Launches and copies
          call this method themselves.
        """
        note_use = getattr(self._owner, "note_use", None)
        if note_use is not None and (stream is None or not is_recorded(stream)):
            note_use(stream)

    def mark_foreign_use(self) -> None:
        """Note that another library uses the memory, in streams that kerneldsl does not know."""
        self.check_open()
        if hasattr(self._owner, "is_shared"):
            self._owner.is_shared = True

    def close(self) -> None:
        """Free the memory now, in the order of the streams that used it.

        This array and every other array over the same memory cannot be used any more. Memory of
        another library, memory shared with one, and memory recorded into a graph is not freed, only
        released. Twice is harmless.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> x = kd.zeros(3)
        >>> x.close()
        >>> x.is_closed
        True
        """
        owner = self._owner
        is_lent = getattr(owner, "is_shared", False) or getattr(owner, "is_recorded", False)
        family = getattr(owner, "family", None)
        for array in (self, *(() if family is None else family.values())):
            array.is_closed = True
            array.code = -1  # so that a launch looks
            array._block = None
            if not is_lent:
                array._owner = None
        if hasattr(owner, "family") and not is_lent:
            owner.close()

    def check_open(self) -> None:
        """Raise `ClosedResourceError` if the memory has been freed."""
        if self.is_closed:
            raise ClosedResourceError.after_close(
                f"an array of shape {self.shape} and dtype {self.dtype} on {self.device}",
                self,
                given_back="the memory of an array and of its views",
                instead="Leave it to Python",
            )

    def check_writable(self) -> None:
        """Raise `ClosedResourceError` or `ReadOnlyArrayError` if it cannot be written."""
        self.check_open()
        if self.is_read_only:
            raise ReadOnlyArrayError(
                f"an array of shape {self.shape} and dtype {self.dtype} on {self.device} is "
                "read-only",
                value=self,
                remedy="Write to the array it is a view of, or to a copy",
            )

    def seal(self, code: int) -> None:
        """Note the code of the kind, and lay out what native code passes to a kernel.

        The block has the device's identity, the code, flags, the address, extents and strides, all
        int64. Flags are 1 for read-only, and 2 for memory from another stream than the default one.
        """
        self.code = code
        if self.dtype.names is None:  # aligned records equal packed ones
            _codes[self.dtype, len(self.shape), self.layout] = code
        if isinstance(self.location, BufferOffset):
            return  # no native code passes it
        home = getattr(self._owner, "_home", None)
        flags = READ_ONLY * self.is_read_only | OTHER_HOME * (home is not None)
        self._block = struct.pack(
            f"=qqqQ{2 * len(self.shape)}q",
            *(id(self.device), code, flags, self.location, *self.shape, *self.strides),
        )


def sealed_code(array: ArrayGeometry) -> int:
    """Return the code of an array's kind if an array of this kind was sealed before, else -1."""
    return _codes.get((array.dtype, len(array.shape), array.layout), -1)
