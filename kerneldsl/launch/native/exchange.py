"""Tensors of torch, read by the C functions that their class publishes for that.

A class may have DLPack's table of C functions. One describes an array without making any Python
object, another returns the current stream of the library. The description does not contain whether
a gradient must be recorded, and whether numbers must be negated or conjugated when they are read:
this is read from the tensor itself. Tensors of a torch without that table go through Python.

References
----------
DLPack 1.3, ``DLPackExchangeAPI``; Python array API standard, "Data interchange mechanisms".
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import field
from enum import IntEnum
from typing import Any

from kerneldsl.contract import Device
from kerneldsl.language.kinds import ArrayKind
from kerneldsl.launch.native.layout import signed_word
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "CheckKind",
    "Exchange",
    "LayoutCode",
    "device_word",
    "dtype_word",
    "exchange_of",
]

_CAPSULE = b"dlpack_exchange_api"
#: The major version with a known table.
_MAJOR = 1
# Words of the table: version, older table, three functions for owned tensors, and these two.
_DESCRIBE, _CURRENT_STREAM, _WORDS = 5, 6, 7


class CheckKind(IntEnum):
    """Property of a tensor that must be ``False``."""

    ATTRIBUTE = 0
    METHOD = 1


class LayoutCode(IntEnum):
    """Strides that a tensor must have."""

    C = 0
    F = 1
    #: Any but these two, and they are passed.
    A = 2


@dataclass(frozen=True)
class Exchange:
    """Protocol by which tensors of one class are read."""

    #: Address of ``int(PyObject *, DLTensor *)``.
    describe: int
    #: Address of ``int(int32 device_type, int32 device_id, void **stream)``.
    current_stream: int
    #: Address of the number of checks, then kind and name of each.
    checks: int
    #: Owners of the memory at these addresses.
    keep: tuple[Any, ...] = field(repr=False)


def _checks(kind: ArrayKind) -> list[tuple[CheckKind, str]]:
    """Return what a description leaves out; integers are never negated when they are read."""
    found = [(CheckKind.ATTRIBUTE, "requires_grad")]
    if kind.element.is_float or kind.element.is_complex:
        found.append((CheckKind.METHOD, "is_neg"))
    if kind.element.is_complex:
        found.append((CheckKind.METHOD, "is_conj"))
    return found


def exchange_of(kind: type, array: ArrayKind) -> Exchange | None:
    """Return how native code reads objects of exactly this class; ``None`` if it is not torch's."""
    torch = sys.modules.get("torch")
    if torch is None or kind is not getattr(torch, "Tensor", None):
        return None
    capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
    if type(capsule).__name__ != "PyCapsule":
        return None
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    try:
        table = (ctypes.c_uint64 * _WORDS).from_address(get_pointer(capsule, _CAPSULE))
    except ValueError:  # a capsule of another name
        return None
    if table[0] & 0xFFFFFFFF != _MAJOR or not table[_DESCRIBE] or not table[_CURRENT_STREAM]:
        return None
    asked = _checks(array)
    words = [len(asked)]
    for check, name in asked:
        words += [check, id(name)]
    checks = (ctypes.c_int64 * len(words))(*words)
    return Exchange(
        signed_word(table[_DESCRIBE]),
        signed_word(table[_CURRENT_STREAM]),
        ctypes.addressof(checks),
        (kind, capsule, checks, asked),
    )


def device_word(device: Device) -> int | None:
    """Return a ``DLDevice`` as one word: type, then index; ``None`` where torch has no such."""
    return None if device.memory_type is None else device.memory_type | device.index << 32


def dtype_word(kind: ArrayKind) -> int:
    """Rank and ``DLDataType`` as one word: rank, code, bits, lanes."""
    element = kind.element
    return kind.ndim | element.dlpack_code << 32 | 8 * element.nbytes << 40 | 1 << 48
