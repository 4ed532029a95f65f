"""Classes whose instances native code can take the calls of, once there is some.

Calling an instance of a Python class looks its ``__call__`` up and packs the arguments into a
tuple, which takes as long as all that native code then does. An instance of a class made here
carries the address of a C function that is called instead; while it is 0, ``__call__`` is.

References
----------
PEP 590, "Vectorcall"; Python/C API, "The Vectorcall Protocol" and "Creating Heap-Allocated Types".
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, TypeVar

__all__ = ["callable_by_entry", "set_entry"]

T = TypeVar("T")

# Python/C API: type flags, slots (typeslots.h) and kinds of members (structmember.h).
_HAVE_VECTORCALL = 1 << 11
_TP_MEMBERS = 72
_UNSIGNED_LONG_LONG, _SSIZE, _READONLY = 18, 19, 1


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("pointer", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


#: What the interpreter refers to by address as long as it lives.
_kept: list[Any] = []


def callable_by_entry(base: type[T]) -> type[T]:
    """Make a class like `base` whose instances may be given an entry, see :func:`set_entry`.

    Parameters
    ----------
    base : type
        A class with ``__slots__`` and ``__call__``.

    Returns
    -------
    type
        A subclass of the same name, whose attribute ``_entry`` is the address of the function that
        an instance's calls go to; `base` itself on interpreters where that is not done.
    """
    is_known = (
        sys.implementation.name == "cpython"
        # Interpreters for debugging want a function for calls where there is only an inherited one.
        and not hasattr(sys, "gettotalrefcount")
    )
    if not is_known:
        return base
    offset = base.__basicsize__
    members = (_Member * 3)(
        _Member(b"__vectorcalloffset__", _SSIZE, offset, _READONLY, None),
        _Member(b"_entry", _UNSIGNED_LONG_LONG, offset, 0, None),
        _Member(),
    )
    slots = (_Slot * 2)(_Slot(_TP_MEMBERS, ctypes.addressof(members)), _Slot())
    name = f"{base.__module__}.{base.__qualname__}".encode()
    spec = _Spec(name, offset + 8, 0, _HAVE_VECTORCALL, slots)
    _kept.extend((members, slots, name, spec))
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object)(
        ("PyType_FromSpecWithBases", ctypes.pythonapi)
    )
    made: type[T] = make(ctypes.addressof(spec), (base,))
    made.__doc__ = base.__doc__
    return made


def set_entry(instance: Any, address: int) -> None:
    """Let a C function take the calls of an instance of such a class."""
    instance._entry = address
