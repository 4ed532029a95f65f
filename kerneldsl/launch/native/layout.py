"""Memory layout of CPython's and NumPy's objects that the launcher reads, looked up and tried out.

These layouts are from the documentation and headers of CPython 3.11 to 3.14 and NumPy 2. The first
use checks them on live objects. If one does not hold, it raises :class:`UnknownLayout`, and every
launch goes through Python.

References
----------
Python/C API, "Common Object Structures"; NumPy C API, "Python Types and C-Structures",
``PyArrayObject`` and the scalars of ``arrayscalars.h``; PEP 590, "Vectorcall".
"""

from __future__ import annotations

import ctypes
import struct
import sys
import time
from types import BuiltinMethodType, MappingProxyType, ModuleType, WrapperDescriptorType
from typing import Any

import numpy as np

from kerneldsl.language.element_types import NUMPY_NAMES, numpy_dtype
from kerneldsl.launch.native.vectorcall import Member

__all__ = [
    "ARRAY_DATA",
    "ARRAY_DESCR",
    "ARRAY_DIMENSIONS",
    "ARRAY_FLAGS",
    "ARRAY_NDIM",
    "ARRAY_STRIDES",
    "BYTES_DATA",
    "CDATA_POINTER",
    "CELL_VALUE",
    "DESCRIPTOR_FIELDS",
    "HEAD",
    "LIST_SIZE",
    "METH_O",
    "TUPLE_ITEMS",
    "TUPLE_SIZE",
    "TYPE",
    "WRITEABLE",
    "UnknownLayout",
    "UnknownPlatform",
    "builtin_method",
    "check_layout",
    "dict_version_offset",
    "function_address",
    "put_subscript",
    "signed_word",
    "slot_offset",
    "subscript_of",
]


#: Offsets in an object, in bytes: of its type, and of the end of its header.
TYPE, HEAD = 8, 16
TUPLE_SIZE = 16
#: From Python 3.14 on, the hash of a tuple is before its items.
TUPLE_ITEMS = 24 if sys.version_info < (3, 14) else 32
LIST_SIZE = 16
BYTES_DATA = 32
CELL_VALUE = 16
#: Offset in a ctypes array of the address of its memory.
CDATA_POINTER = 16
ARRAY_DATA, ARRAY_NDIM, ARRAY_DIMENSIONS, ARRAY_STRIDES = 16, 24, 32, 40
ARRAY_DESCR, ARRAY_FLAGS = 56, 64
#: Flag of a writable array (NumPy C API, "Array flags").
WRITEABLE = 0x400

#: The flags of a method of one argument (Python/C API, "Common Object Structures").
METH_O = 0x8
_flags_of = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object)(
    ("PyCFunction_GetFlags", ctypes.pythonapi)
)
_c_function_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(
    ("PyCFunction_GetFunction", ctypes.pythonapi)
)

#: Offset in a dictionary of its version, and the versions of Python that have it. The version is a
#: number unique to each state of a dictionary (PEP 509).
_DICT_VERSION, _HAVE_DICT_VERSION = 24, ((3, 11), (3, 12))

#: Versions of CPython with headers that were read, and which the tests were run with.
_KNOWN_VERSIONS = ((3, 11), (3, 12), (3, 13), (3, 14))
#: Platforms on which native code that calls the interpreter was tested.
_KNOWN_PLATFORMS = ("linux", "darwin")


class UnknownLayout(Exception):
    """The layout of objects in this interpreter, or in NumPy, is another one."""


class UnknownPlatform(UnknownLayout):
    """On this system native code was never tried; nothing is wrong with the interpreter."""


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _expect(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise UnknownLayout(what)


def function_address(name: str) -> int:
    """Address of a function or object of the Python/C API.

    Raises `UnknownLayout` where the interpreter has none of that name.
    """
    try:
        found = getattr(ctypes.pythonapi, name)
    except AttributeError as error:
        raise UnknownLayout(f"the interpreter has no {name}") from error
    address = ctypes.cast(found, ctypes.c_void_p).value
    assert address is not None
    return address


def host_clock() -> tuple[int, int] | None:
    """Address of ``clock_gettime``, and the clock of :func:`time.perf_counter_ns`.

    ``None`` where the system has none (POSIX.1-2024, "clock_getres").
    """
    number = getattr(time, "CLOCK_MONOTONIC", None)
    if number is None:
        return None
    try:
        found = ctypes.CDLL(None).clock_gettime
    except (AttributeError, OSError):
        return None
    address = ctypes.cast(found, ctypes.c_void_p).value
    return None if address is None else (address, number)


def builtin_method(method: Any) -> tuple[int, int]:
    """Address of the C function of a built-in method of one argument, and of its object.

    Calling it needs neither an argument's vector nor a look at the method.

    Raises `UnknownLayout` if it is another kind of callable.
    """
    if type(method) is not BuiltinMethodType or _flags_of(method) != METH_O:
        raise UnknownLayout(f"{method!r} is not a built-in method of one argument")
    address: int = _c_function_of(method)
    return address, id(method.__self__)


#: Fields at the start of every descriptor: ``PyDescr_COMMON``.
DESCRIPTOR_FIELDS = (
    ("references", ctypes.c_ssize_t),
    ("type", ctypes.c_void_p),
    ("owner", ctypes.c_void_p),
    ("name", ctypes.c_void_p),
    ("qualname", ctypes.c_void_p),
)


class _MemberDescriptor(ctypes.Structure):
    _fields_ = (*DESCRIPTOR_FIELDS, ("member", ctypes.POINTER(Member)))


def slot_offset(owner: type, name: str, trial: Any, value: Any) -> int:
    """Return where a slot is in the instances of a class.

    The slot of `trial`, an instance of the class, is set to `value` to try the offset out.

    Raises `UnknownLayout` where the slot is not where its descriptor seems to say.
    """
    descriptor = owner.__dict__[name]
    _expect(type(descriptor).__name__, "member_descriptor", f"{name} is not a slot")
    offset = _MemberDescriptor.from_address(id(descriptor)).member.contents.offset
    _expect(HEAD <= offset <= owner.__basicsize__ - 8, True, f"offset of the slot {name}")
    setattr(trial, name, value)
    _expect(_word(id(trial) + offset), id(value), f"offset of the slot {name}")
    return int(offset)


def dict_version_offset() -> int | None:
    """Return the offset of a dictionary's version, which every change renews, or ``None``.

    It is tried out on dictionaries of modules, of objects and of neither.
    """
    if sys.version_info[:2] not in _HAVE_DICT_VERSION:
        return None

    class Plain:
        pass

    module: Any = ModuleType("trial")
    plain: Any = Plain()
    plain.a = 0
    seen: set[int] = set()
    for names in ({}, {"a": 1, 2: 3}, vars(module), vars(plain)):
        for change in (
            lambda names: None,
            lambda names: names.update(a=object()),
            lambda names: names.update(a=None),
            lambda names: names.update(a=None, b=1),
            lambda names: names.pop("b"),
            lambda names: names.setdefault("c", 2),
            lambda names: names.clear(),
        ):
            change(names)
            found = _word(id(names) + _DICT_VERSION)
            names.get("a")
            if found in seen or found != _word(id(names) + _DICT_VERSION):
                return None
            seen.add(found)
    for owner in (module, plain):
        before = _word(id(vars(owner)) + _DICT_VERSION)
        owner.a = 1
        if _word(id(vars(owner)) + _DICT_VERSION) == before:
            return None
    return _DICT_VERSION


def check_layout() -> None:
    """Try every offset out.

    Raises `UnknownLayout` naming the first that is not as it should be.
    """
    _check_interpreter()
    _check_objects()
    _check_arrays()
    _check_scalars()


def _check_interpreter() -> None:
    """Refuse what was never tried, before anything is read from memory."""
    _expect(sys.implementation.name, "cpython", f"the interpreter is {sys.implementation.name}")
    if sys.version_info[:2] not in _KNOWN_VERSIONS:
        raise UnknownLayout(f"Python {sys.version_info[0]}.{sys.version_info[1]} is not known")
    if sys.platform not in _KNOWN_PLATFORMS:
        raise UnknownPlatform(f"{sys.platform} is not known")
    _expect(struct.calcsize("P"), 8, "addresses have not 64 bits")
    _expect(sys.byteorder, "little", "the byte order is not little-endian")
    states = []
    for name in ("PyInterpreterState_Get", "PyInterpreterState_Main"):
        state = getattr(ctypes.pythonapi, name)
        state.restype = ctypes.c_void_p
        states.append(state())
    _expect(states[0], states[1], "this is a sub-interpreter")


def _check_objects() -> None:
    _expect(object.__basicsize__, HEAD, "size of an object's head")
    for value in (1.5, (), b"", object(), np.float32(1)):
        _expect(_word(id(value) + TYPE), id(type(value)), "place of an object's type")
    number = 1.2345e67
    _expect(ctypes.c_double.from_address(id(number) + HEAD).value, number, "value of a float")
    pair = (number, number + 1)
    _expect(_word(id(pair) + TUPLE_SIZE), 2, "size of a tuple")
    _expect(_word(id(pair) + TUPLE_ITEMS + 8), id(pair[1]), "items of a tuple")
    _expect(_word(id([number] * 5) + LIST_SIZE), 5, "size of a list")
    text = b"0123456789abcdef"
    _expect(ctypes.string_at(id(text) + BYTES_DATA, 17), text + b"\0", "contents of bytes")

    def outer() -> Any:
        return lambda: number

    (cell,) = outer().__closure__
    _expect(_word(id(cell) + CELL_VALUE), id(cell.cell_contents), "contents of a cell")
    words = (ctypes.c_int64 * 3)()
    _expect(_word(id(words) + CDATA_POINTER), ctypes.addressof(words), "memory of a ctypes array")
    value = 1.5 - 2.25j
    found = (ctypes.c_double * 2).from_address(id(value) + HEAD)
    _expect(tuple(found), (value.real, value.imag), "value of a complex")


def _check_arrays() -> None:
    base = np.zeros((4, 5, 6), np.int32)
    read_only = base[1:]
    read_only.flags.writeable = False
    for array in (
        base,
        base[::2, 1:3, ::-1],
        base.T,
        base[0, 0, 0:0],
        base[1, 2, 3:4][0:1],
        np.array(7, np.int32),
        read_only,
    ):
        start, rank = id(array), array.ndim
        where = array.__array_interface__["data"][0]
        _expect(_word(start + ARRAY_DATA), where, "data of an ndarray")
        _expect(ctypes.c_int.from_address(start + ARRAY_NDIM).value, rank, "rank of an ndarray")
        _expect(_word(start + ARRAY_DESCR), id(array.dtype), "dtype of an ndarray")
        flags = ctypes.c_int.from_address(start + ARRAY_FLAGS).value
        _expect(flags & 0xFFF, array.flags.num & 0xFFF, "flags of an ndarray")
        if rank == 0:
            continue
        # NumPy allocates both at once; so neither address is followed before it makes sense.
        gap = _word(start + ARRAY_STRIDES) - _word(start + ARRAY_DIMENSIONS)
        _expect(gap, 8 * rank, "place of an ndarray's strides")
        words = ctypes.c_ssize_t * rank
        shape = words.from_address(_word(start + ARRAY_DIMENSIONS))
        _expect(tuple(shape), array.shape, "extents of an ndarray")
        strides = words.from_address(_word(start + ARRAY_STRIDES))
        _expect(tuple(strides), array.strides, "strides of an ndarray")


def _check_scalars() -> None:
    for name in NUMPY_NAMES:
        dtype = numpy_dtype(name)
        scalar = np.ones((), dtype)[()] * dtype.type(1 if name == "bool" else 113)
        raw = ctypes.string_at(id(scalar) + HEAD, dtype.itemsize)
        _expect(raw, scalar.tobytes(), f"value of an np.{name}")


# A function that is in a class's dictionary is found by name, and called with an argument vector,
# at each ``object[key]``. What is there as the class's slot is called at once. CPython takes the
# function of a slot wrapper for the slot, where the wrapper is of the same kind as that of a
# builtin class. So one is made after the pattern of such a wrapper.
#
# References: CPython, ``Objects/typeobject.c``, ``update_one_slot``;
# ``Include/descrobject.h``.

#: Offset in a class of its table of mapping functions; offset there of ``object[key]`` (Python/C
#: API, "Type Objects").
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


#: Objects that wrappers refer to by address until the process ends.
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


def signed_word(number: int) -> int:
    """Return an address or a driver's handle, which may be any 64 bits, as a word of a table."""
    return ctypes.c_int64(number).value
