"""Have NumPy allocate arrays at multiples of 64 bytes, so that addresses differ in nothing else.

NumPy's own arrays begin at any multiple of 16 bytes. Vectors of 64 bytes then cross cache lines in
one process and not in the other: the same code takes up to 1.8 times as long.
"""

from __future__ import annotations

import ctypes

from numpy._core import multiarray

__all__ = ["align_arrays"]

_BYTES = 64
#: Index of ``PyDataMem_SetHandler`` in the table of NumPy's C API.
_SET_HANDLER = 304
_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_LIBC = ctypes.CDLL(None)
_LIBC.aligned_alloc.restype = _POINTER
_LIBC.aligned_alloc.argtypes = (_SIZE, _SIZE)
_LIBC.malloc_usable_size.restype = _SIZE
_LIBC.malloc_usable_size.argtypes = (_POINTER,)
_LIBC.free.argtypes = (_POINTER,)
_Malloc = ctypes.CFUNCTYPE(_POINTER, _POINTER, _SIZE)
_Calloc = ctypes.CFUNCTYPE(_POINTER, _POINTER, _SIZE, _SIZE)
_Realloc = ctypes.CFUNCTYPE(_POINTER, _POINTER, _POINTER, _SIZE)
_Free = ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _SIZE)


class _Handler(ctypes.Structure):
    """``PyDataMem_Handler`` of NumPy's C API, with the ``PyDataMemAllocator`` in it."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", _POINTER),
        ("malloc", _Malloc),
        ("calloc", _Calloc),
        ("realloc", _Realloc),
        ("free", _Free),
    )


def _allocate(_context: int | None, size: int) -> int:
    return _LIBC.aligned_alloc(_BYTES, max(-(-size // _BYTES), 1) * _BYTES)


def _allocate_zeros(context: int | None, count: int, size: int) -> int:
    found = _allocate(context, count * size)
    ctypes.memset(found, 0, count * size)
    return found


def _reallocate(context: int | None, old: int | None, size: int) -> int:
    found = _allocate(context, size)
    if old:
        ctypes.memmove(found, old, min(size, _LIBC.malloc_usable_size(old)))
        _LIBC.free(old)
    return found


def _free(_context: int | None, memory: int, _size: int) -> None:
    _LIBC.free(memory)


_HANDLER = _Handler(
    b"aligned",
    1,
    None,
    _Malloc(_allocate),
    _Calloc(_allocate_zeros),
    _Realloc(_reallocate),
    _Free(_free),
)


def align_arrays() -> None:
    """Align all arrays that this process makes from now on; it must end by ``os._exit``."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = _POINTER, (ctypes.py_object, ctypes.c_char_p)
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype = ctypes.py_object
    capsule.argtypes = (_POINTER, ctypes.c_char_p, _POINTER)
    table = ctypes.cast(pointer(multiarray._ARRAY_API, None), ctypes.POINTER(_POINTER))
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER])
    set_handler(capsule(ctypes.addressof(_HANDLER), b"mem_handler", None))
