"""Calls of instances and methods that native code replaces.

Calling an instance of a Python class looks its ``__call__`` up and packs the arguments into a
tuple, which takes as long as all that native code then does. An instance of a class made here
carries the address of a C function that is called instead; while it is 0, ``__call__`` is. A
method gets its native form in an empty class below the one that has it, so that the Python one,
which the native one goes back to, stays where it is.

Classes say here what there is; :mod:`~kerneldsl.launch.native.machine` makes it when it is worth
while.

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


#: Symbol of a native function to the class whose instances' calls it takes.
ENTRIES: dict[str, type] = {}
#: Symbol of a native function to the class and the name of the method that it is a form of.
METHODS: dict[str, tuple[type, str]] = {}
#: Name of what native code reads to the class that has the slot, the slot's name, and a class whose
#: instances it is tried out on.
SLOTS: dict[str, tuple[type, str, type]] = {}

#: What the interpreter refers to by address as long as it lives.
_keep_alive: list[Any] = []


def callable_by_entry(base: type[T], symbol: str, **slots: str) -> type[T]:
    """Make a class like `base` whose instances may be given an entry, see :func:`set_entry`.

    The base has ``__slots__`` and ``__call__``; `symbol` is of the native function that takes the
    calls, and `slots` are slots of the base by the names under which native code reads them. The
    result is a subclass of the same name, whose attribute ``_entry`` is the address of the function
    that an instance's calls go to, and the base itself on interpreters where that is not done.
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
        # Interpreters for debugging want a function for calls where there is only an inherited one.
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
