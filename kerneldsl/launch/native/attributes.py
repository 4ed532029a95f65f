"""Arrays of CuPy, read by the attributes that CuPy documents.

CuPy publishes no C functions; its attributes are C members behind Python's protocol, so asking for
them by native code costs a few hundred nanoseconds an array: less than making any object of
kerneldsl, more than a tensor's description.

References
----------
CuPy, ``cupy.ndarray``, ``cupy.cuda.MemoryPointer`` and ``cupy.cuda.get_current_stream``.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import field
from enum import IntEnum
from typing import Any

from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Attribute", "AttributeNames", "attribute_names_of"]


class Attribute(IntEnum):
    """Index of a name in the table of names, in words."""

    DATA = 0
    PTR = 1
    DEVICE_ID = 2
    DTYPE = 3
    SHAPE = 4
    STRIDES = 5


@dataclass(frozen=True)
class AttributeNames:
    """Attributes by which arrays of one class are read."""

    #: Address of the names.
    names: int
    #: Returns the current stream, whose ``ptr`` is the handle.
    current_stream: Any
    #: What the addresses belong to.
    keep: tuple[Any, ...] = field(repr=False)


def attribute_names_of(kind: type) -> AttributeNames | None:
    """Return the attributes of objects of exactly this class; ``None`` if it is not CuPy's."""
    cupy = sys.modules.get("cupy")
    if cupy is None or kind is not getattr(cupy, "ndarray", None):
        return None
    names = [sys.intern(each.name.lower()) for each in Attribute]
    words = (ctypes.c_int64 * len(names))(*map(id, names))
    get_stream = cupy.cuda.get_current_stream
    return AttributeNames(ctypes.addressof(words), get_stream, (kind, words, names, get_stream))
