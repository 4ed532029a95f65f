"""Calls of instances and methods that native code replaces.

A call of an instance of a Python class looks up its ``__call__`` and packs the arguments into a
tuple. This takes as long as all of the native code. An instance of a class made here has the
address of a C function, which is called instead. While the address is 0, ``__call__`` is called.
The native form of a method is in an empty subclass, so that the Python method, to which it falls
back, remains.

Classes register here; :mod:`~kerneldsl.launch.native.machine` makes the native functions when they
are needed.

References
----------
PEP 590, "Vectorcall"; Python/C API, "The Vectorcall Protocol" and "Creating Heap-Allocated Types".
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = [
    "ENTRIES",
    "METHODS",
    "SLOTS",
    "Member",
    "callable_by_entry",
    "native_methods",
    "set_entry",
]

T = TypeVar("T")

# Python/C API: type flags, slots (typeslots.h) and kinds of members (structmember.h).
_HAVE_VECTORCALL = 1 << 11
_TP_MEMBERS = 72
_UNSIGNED_LONG_LONG, _SSIZE, _READONLY = 18, 19, 1


class Member(ctypes.Structure):
    """``PyMemberDef``."""

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


#: Symbol of a native function to the class; the function takes the calls of its instances.
ENTRIES: dict[str, type] = {}
#: Symbol of a native function to the class and the name of its method.
METHODS: dict[str, tuple[type, str]] = {}
#: Name in native code to the class that has the slot, the slot's name, and a class with instances
#: for a trial.
SLOTS: dict[str, tuple[type, str, type]] = {}

#: Objects that the interpreter refers to by address until the process ends.
_keep_alive: list[Any] = []


def callable_by_entry(base: type[T], symbol: str, **slots: str) -> type[T]:
    """Make a class like `base` with instances that can have an entry, see :func:`set_entry`.

    The base has ``__slots__`` and ``__call__``. `symbol` is the symbol of the native function that
    takes the calls. `slots` are slots of the base by their names in native code. The result is a
    subclass of the same name; its attribute ``_entry`` is the address of the function for an
    instance's calls. On interpreters that do not support this, the result is the base.
    """
    made = _make_callable(base)
    ENTRIES[symbol] = made
    SLOTS.update({name: (base, slot, made) for name, slot in slots.items()})
    return made


def native_methods(methods: dict[str, str], **slots: str) -> Callable[[type[T]], type[T]]:
    """Declare an empty class for native forms of the methods of its base; a decorator.

    Names of methods are mapped to the symbols of their native forms; `slots` are as for
    :func:`callable_by_entry`.
    """

    def declare(owner: type[T]) -> type[T]:
        assert owner.__base__ is not None
        base: type = owner.__base__
        METHODS.update({symbol: (owner, name) for name, symbol in methods.items()})
        SLOTS.update({name: (base, slot, base) for name, slot in slots.items()})
        return owner

    return declare


def _make_callable(base: type[T]) -> type[T]:
    is_known = (
        sys.implementation.name == "cpython"
        # Debug builds need a function for calls, even if only an inherited one exists.
        and not hasattr(sys, "gettotalrefcount")
    )
    if not is_known:
        return base
    offset = base.__basicsize__
    members = (Member * 3)(
        Member(b"__vectorcalloffset__", _SSIZE, offset, _READONLY, None),
        Member(b"_entry", _UNSIGNED_LONG_LONG, offset, 0, None),
        Member(),
    )
    slots = (_Slot * 2)(_Slot(_TP_MEMBERS, ctypes.addressof(members)), _Slot())
    name = f"{base.__module__}.{base.__qualname__}".encode()
    spec = _Spec(name, offset + 8, 0, _HAVE_VECTORCALL, slots)
    _keep_alive.extend((members, slots, name, spec))
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object)(
        ("PyType_FromSpecWithBases", ctypes.pythonapi)
    )
    made: type[T] = make(ctypes.addressof(spec), (base,))
    made.__doc__ = base.__doc__
    return made


def set_entry(instance: Any, address: int) -> None:
    """Let a C function take the calls of an instance of such a class."""
    instance._entry = address
