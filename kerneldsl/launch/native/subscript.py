"""Putting a C function in the place of a class's ``__getitem__``.

A function that is in a class's dictionary is found by name, and called with an argument vector,
at each ``object[key]``. What is there as the class's slot is called at once. CPython takes the
function of a slot wrapper for the slot, where the wrapper is of the same kind as that of a builtin
class. So one is made after the pattern of such a wrapper.

References
----------
CPython, ``Objects/typeobject.c``, ``update_one_slot``; ``Include/descrobject.h``.
"""

from __future__ import annotations

import ctypes
from types import MappingProxyType, WrapperDescriptorType
from typing import Any

from kerneldsl.launch.native.layout import DESCRIPTOR_FIELDS, UnknownLayout, function_address

__all__ = ["put_subscript", "subscript_of"]

#: Of a class: its functions for mappings; of those: ``object[key]`` (Python/C API, "Type Objects").
_AS_MAPPING, _SUBSCRIPT = 112, 8


class _Base(ctypes.Structure):
    """``struct wrapperbase``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("offset", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("wrapper", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("flags", ctypes.c_int),
        ("name_object", ctypes.c_void_p),
    )


class _Wrapper(ctypes.Structure):
    """``PyWrapperDescrObject``."""

    _fields_ = (*DESCRIPTOR_FIELDS, ("base", ctypes.POINTER(_Base)), ("wrapped", ctypes.c_void_p))


#: What wrappers refer to by address as long as the process lives.
_keep_alive: list[Any] = []


def subscript_of(owner: type) -> int:
    """Address of the C function that ``object[key]`` calls for a class's instances."""
    functions = ctypes.c_uint64.from_address(id(owner) + _AS_MAPPING).value
    return ctypes.c_uint64.from_address(functions + _SUBSCRIPT).value


def put_subscript(owner: type, address: int, document: bytes) -> None:
    """Let a C function answer ``object[key]`` for a class and its subclasses.

    Raises `UnknownLayout` where CPython has not taken the function for the slot, and the class is
    as it was.

    The class has a ``__getitem__`` of Python's, its own or an inherited one. The function is
    ``PyObject *(PyObject *self, PyObject *key)``; `document` is signature and text, as CPython's
    own functions carry them.
    """
    pattern = MappingProxyType.__dict__["__getitem__"]
    known = _Wrapper.from_address(id(pattern))
    if (
        type(pattern) is not WrapperDescriptorType
        or type(pattern).__basicsize__ != ctypes.sizeof(_Wrapper)
        or known.owner != id(MappingProxyType)
        or known.name != id(pattern.__name__)
        or known.wrapped != subscript_of(MappingProxyType)
        or known.base.contents.name != b"__getitem__"
        or known.base.contents.name_object != known.name
    ):
        raise UnknownLayout("a slot wrapper")
    base = _Base()
    ctypes.pointer(base)[0] = known.base.contents
    base.doc = document
    _keep_alive.append((base, document))
    new_wrapper = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p
    )(function_address("PyDescr_NewWrapper"))
    name = pattern.__name__
    before = owner.__dict__.get(name)
    setattr(owner, name, new_wrapper(owner, ctypes.addressof(base), address))
    if subscript_of(owner) != address:
        if before is None:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
        raise UnknownLayout("the slot of a subscript")
