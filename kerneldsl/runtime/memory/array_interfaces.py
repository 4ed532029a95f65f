"""How device arrays show their memory to NumPy and to libraries for CUDA: the array interfaces.

Whoever reads one gets the bare memory, so the array notes first that it was lent. DLPack, which
counts its references, is :mod:`~kerneldsl.runtime.memory.dlpack`.

References
----------
NumPy, "The array interface protocol", version 3; Numba, "CUDA Array Interface", version 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.errors import ArgumentTypeError
from kerneldsl.runtime.memory.geometry import ArrayGeometry
from kerneldsl.runtime.streams.current import stream_of
from kerneldsl.target import MemoryType

__all__ = ["as_numpy", "cuda_interface", "host_interface"]

#: The number by which the CUDA Array Interface names the legacy default stream.
_LEGACY_DEFAULT_STREAM = 1


def cuda_interface(array: ArrayGeometry) -> dict[str, Any]:
    """The value of ``__cuda_array_interface__``.

    Raises
    ------
    AttributeError
        If the array is not on a GPU of NVIDIA's.
    ClosedResourceError
        If it was closed.
    """
    if array.place.memory_type is not MemoryType.CUDA:
        raise AttributeError(f"an array on {array.place} has no __cuda_array_interface__")
    array.lend()
    current = stream_of(array.place, None)
    return {
        "shape": array.shape,
        "typestr": array.dtype.str,
        "data": (array.pointer if array.size else 0, array.is_read_only),
        "version": 3,
        "strides": None if array.layout == "C" else array.strides,
        # The stream that the consumer has to wait for.
        "stream": _LEGACY_DEFAULT_STREAM if current is None else current.handle,
    }


def host_interface(array: ArrayGeometry) -> dict[str, Any]:
    """The value of ``__array_interface__``.

    Raises
    ------
    AttributeError
        If the array is not in the host's memory.
    ClosedResourceError
        If it was closed.
    """
    if not array.place.is_host:
        raise AttributeError(f"an array on {array.place} has no __array_interface__")
    if np.dtype(array.dtype.str) != array.dtype:
        # NumPy then asks __array__, which has the dtype.
        raise AttributeError(f"the array interface has no name for {array.dtype}")
    array.lend()
    return {
        "shape": array.shape,
        "typestr": array.dtype.str,
        "data": (array.pointer, array.is_read_only),
        "version": 3,
        "strides": array.strides,
    }


def as_numpy(array: ArrayGeometry, dtype: Any, copy: bool | None) -> np.ndarray[Any, Any]:
    """What ``array.__array__`` returns: a NumPy array over the same memory, or a copy.

    Raises
    ------
    ClosedResourceError
        If the array was closed.
    ArgumentTypeError
        If it is not in the host's memory.
    ValueError
        If there has to be a copy, and must not.
    """
    array.check_open()
    if not array.place.is_host:
        raise ArgumentTypeError(
            f"an array on {array.place} is not converted to NumPy by itself",
            value=array,
            limit="The copy would be hidden",
            remedy="Use array.copy_to_host()",
        )
    array.lend()
    view = array.as_numpy(array)
    if dtype is not None and view.dtype != dtype:
        if copy is False:
            raise ValueError("a conversion to another dtype needs a copy")
        return view.astype(dtype)
    return view.copy() if copy else view
