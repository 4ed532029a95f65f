"""DLPack in and out: capsules with a ``DLManagedTensor``, written and read through ctypes.

References
----------
DLPack, ``dlpack.h`` 1.1 (structures, flags, device types); Python array API standard 2024.12,
``__dlpack__`` (capsule names, stream numbers, versions).
"""

from __future__ import annotations

import ctypes
import operator
from typing import Any

import numpy as np

from kerneldsl.contract import Device, MemoryType
from kerneldsl.contract.streams import is_recorded
from kerneldsl.errors import ArgumentTypeError, KernelError
from kerneldsl.errors.values import a_type, safe_repr
from kerneldsl.language.element_types import DTYPE_NAMES, ELEMENT_TYPES, numpy_dtype
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.strided import contiguous_strides
from kerneldsl.memory.transfer import read_array
from kerneldsl.placement.devices import device_of_memory
from kerneldsl.streams.current import stream_of

__all__ = ["dlpack_device", "export", "import_array", "protocol_error"]

_MEMORY = frozenset(MemoryType)

_FLAG_READ_ONLY = 1
#: The legacy default stream in the array API standard's numbers.
_DEFAULT_STREAM = 1
_VERSION = (1, 0)
_NAME, _USED = b"dltensor", b"used_dltensor"
_NAME_VERSIONED, _USED_VERSIONED = b"dltensor_versioned", b"used_dltensor_versioned"

#: Element types by DLDataTypeCode and bits.
_ELEMENTS = {(row.dlpack_code, 8 * row.nbytes): row.name for row in ELEMENT_TYPES.values()}

_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", _DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _DLManagedTensor(ctypes.Structure):
    _fields_ = [
        ("dl_tensor", _DLTensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", _DLTensor),
    ]


def _capsule_function(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_void, _text, _object = ctypes.c_void_p, ctypes.c_char_p, ctypes.py_object
_capsule_new = _capsule_function("PyCapsule_New", _object, _void, _text, _void)
_capsule_is_valid = _capsule_function("PyCapsule_IsValid", ctypes.c_int, _object, _text)
_capsule_pointer = _capsule_function("PyCapsule_GetPointer", _void, _object, _text)
_capsule_rename = _capsule_function("PyCapsule_SetName", ctypes.c_int, _object, _text)
# Functions for a capsule that is being destroyed. It is passed as an address, because a Python
# reference to it would bring it back to life.
_dying_is_valid = _capsule_function("PyCapsule_IsValid", ctypes.c_int, _void, _text)
_dying_pointer = _capsule_function("PyCapsule_GetPointer", _void, _void, _text)

#: Objects that exported structures keep alive, by address; the deleter removes them.
_exported: dict[int, tuple[Any, ...]] = {}


def _on_delete(address: int, exported: dict[int, tuple[Any, ...]] = _exported) -> None:
    exported.pop(address, None)


def _on_capsule_end(
    capsule: int,
    is_valid: Any = _dying_is_valid,
    pointer: Any = _dying_pointer,
    exported: dict[int, tuple[Any, ...]] = _exported,
    names: tuple[bytes, bytes] = (_NAME, _NAME_VERSIONED),
) -> None:
    for name in names:  # a consumed capsule has another name, and its consumer deletes
        if is_valid(capsule, name):
            exported.pop(pointer(capsule, name), None)


_delete_callback = _Deleter(_on_delete)
_capsule_end_callback = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_on_capsule_end)
# Other libraries may call these callbacks while the interpreter ends and modules are torn down, so
# they are never freed. For the same reason they hold what they use in their default arguments.
for _callback in (_delete_callback, _capsule_end_callback):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_callback))


def _address_of(callback: Any) -> int | None:
    return ctypes.cast(callback, ctypes.c_void_p).value


# --------------------------------------------------------------------------- out


def dlpack_device(array: ArrayGeometry) -> tuple[int, int]:
    """Return DLPack's device type and index of an array.

    Raises `BufferError` if DLPack has no name for the device.
    """
    device = array.device
    if device.memory_type is None:
        raise BufferError(f"DLPack has no name for memory of {device}")
    return int(device.memory_type), device.index


def export(
    array: ArrayGeometry,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Make the capsule that ``array.__dlpack__`` returns; see the array API standard.

    Raises `BufferError` if the request cannot be met without a copy, or the consumer cannot see
    that the array is read-only.
    """
    device = dlpack_device(array)
    if dl_device is not None and tuple(map(int, dl_device)) != device:
        if int(dl_device[0]) == MemoryType.CPU and copy is not False:
            array.check_open()
            host = np.empty(array.shape, array.dtype, order="F" if array.layout == "F" else "C")
            read_array(array, host, stream_of(array.device, None))
            return host.__dlpack__(max_version=max_version)
        raise BufferError(f"an array on {array.device} is not exported to device {dl_device}")
    if copy:
        raise BufferError("kerneldsl exports without a copy; copy first, with to_device")
    is_versioned = max_version is not None and max_version[0] >= 1
    if array.is_read_only and not is_versioned:
        raise BufferError("a read-only array needs a consumer of DLPack 1.0 or later")
    element = ELEMENT_TYPES.get(array.dtype.name)
    if element is None:
        raise BufferError(f"arrays of dtype {array.dtype} are not exported by DLPack")
    item = element.nbytes
    if any(stride % item for stride in array.strides):
        raise BufferError(f"strides {array.strides} are not multiples of {item} bytes")
    # Numbers of the standard: None and 1 are the legacy default stream, -1 is without order. Our
    # work is in the current stream.
    if not array.device.is_synchronous and stream != -1:
        consumer = None if stream == _DEFAULT_STREAM else stream
        current = stream_of(array.device, None)
        if consumer is not current:
            array.device.wait_stream(consumer, current)

    extents = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    steps = (ctypes.c_int64 * max(array.ndim, 1))(*(s // item for s in array.strides))
    managed: _DLManagedTensor | _DLManagedTensorVersioned
    if is_versioned:
        managed = _DLManagedTensorVersioned()
        managed.major, managed.minor = _VERSION
        managed.flags = _FLAG_READ_ONLY if array.is_read_only else 0
    else:
        managed = _DLManagedTensor()
    managed.deleter = _address_of(_delete_callback)
    tensor = managed.dl_tensor
    tensor.data = array.pointer
    tensor.device.device_type, tensor.device.device_id = device
    tensor.ndim = array.ndim
    tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = element.dlpack_code, item * 8, 1
    tensor.shape = ctypes.cast(extents, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64))
    array.mark_foreign_use()
    address = ctypes.addressof(managed)
    _exported[address] = (managed, extents, steps, array)
    return _capsule_new(
        address,
        _NAME_VERSIONED if is_versioned else _NAME,
        _address_of(_capsule_end_callback),
    )


# --------------------------------------------------------------------------- in


class _Imported:
    """A structure taken over from a capsule; its deleter is called when this object goes."""

    def __init__(self, address: int, deleter: int | None) -> None:
        self._address = address
        self._deleter = _Deleter(deleter) if deleter else None

    def __del__(self) -> None:
        if self._deleter is not None:
            self._deleter(self._address)


def import_array(obj: Any, stream: int | None = _DEFAULT_STREAM) -> ArrayGeometry:
    """Take over an object with ``__dlpack__``, without a copy.

    The memory will be used in the stream of this number of the array API standard: by default the
    legacy default stream, ``None`` for the current one. Raises `ArgumentTypeError` if it is no such
    object, or if its device, dtype or version is not supported.
    """
    try:
        device_type, device_id = map(operator.index, obj.__dlpack_device__())
        method = obj.__dlpack__
    except AttributeError:
        raise ArgumentTypeError(
            f"{a_type(obj)} does not share its memory by DLPack",
            value=obj,
            limit="It has no __dlpack__ and __dlpack_device__",
        ) from None
    except KernelError:
        raise
    except Exception as error:
        raise protocol_error(obj, "__dlpack_device__", error) from error
    if device_type not in _MEMORY:
        raise ArgumentTypeError(
            f"{a_type(obj)} is in memory of DLPack device type {int(device_type)}",
            value=obj,
            limit="Kernels run on host memory (1, 3) and CUDA memory (2, 13)",
        )
    options = {}
    if device_type in (MemoryType.CUDA, MemoryType.CUDA_MANAGED):
        device = device_of_memory(device_type, device_id)
        options["stream"] = _current_number(device) if stream is None else stream
    try:
        try:
            capsule = method(max_version=_VERSION, **options)
        except TypeError:  # a producer from before DLPack 1.0
            capsule = method(**options)
    except KernelError:
        raise
    except Exception as error:
        raise protocol_error(obj, "__dlpack__", error) from error
    return _take(capsule, obj)


def protocol_error(obj: Any, name: str, error: Exception) -> ArgumentTypeError:
    """Return the error for an object of another library with a failing protocol."""
    return ArgumentTypeError(
        f"{name} of {a_type(obj)} fails: {type(error).__name__}: {error}",
        value=obj,
        limit="kerneldsl takes over the memory of other libraries' arrays by it",
        remedy="Pass the tensor without its gradient, tensor.detach()"
        if "gradient" in str(error)
        else "Copy the array into a NumPy array, or report it to the library that made it",
    )


def _current_number(device: Device) -> int:
    """Return the standard's number for the current stream of a device."""
    current = stream_of(device, None)
    # A stream that is being recorded would record the work of a producer, too.
    return _DEFAULT_STREAM if current is None or is_recorded(current) else current.handle


def _take(capsule: Any, obj: Any) -> ArrayGeometry:
    managed: _DLManagedTensor | _DLManagedTensorVersioned
    if _capsule_is_valid(capsule, _NAME_VERSIONED):
        address = _capsule_pointer(capsule, _NAME_VERSIONED)
        managed = _DLManagedTensorVersioned.from_address(address)
        _capsule_rename(capsule, _USED_VERSIONED)
        is_read_only = bool(managed.flags & _FLAG_READ_ONLY)
        major = managed.major
    elif _capsule_is_valid(capsule, _NAME):
        address = _capsule_pointer(capsule, _NAME)
        managed = _DLManagedTensor.from_address(address)
        _capsule_rename(capsule, _USED)
        is_read_only, major = False, 1
    else:
        raise ArgumentTypeError(
            f"{type(obj).__qualname__}.__dlpack__ returned {safe_repr(capsule)}",
            value=obj,
            limit="It must be a capsule named dltensor or dltensor_versioned, not yet consumed",
        )
    owner = _Imported(address, managed.deleter)
    if major > _VERSION[0]:
        raise ArgumentTypeError(
            f"{type(obj).__qualname__} uses DLPack {major}.x", limit="kerneldsl supports DLPack 1.x"
        )
    tensor = managed.dl_tensor
    dtype = _dtype(tensor.dtype)
    shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    if tensor.ndim and tensor.strides:
        strides = tuple(step * dtype.itemsize for step in tensor.strides[: tensor.ndim])
    else:
        strides = contiguous_strides(shape, dtype.itemsize)
    pointer = (tensor.data or 0) + tensor.byte_offset
    device = device_of_memory(tensor.device.device_type, tensor.device.device_id)
    return ArrayGeometry(device, pointer, shape, strides, dtype, owner, is_read_only)


def _dtype(found: _DLDataType) -> np.dtype[Any]:
    name = _ELEMENTS.get((found.code, found.bits))
    if name is None or found.lanes != 1:
        raise ArgumentTypeError(
            f"an array of DLPack dtype code {found.code}, {found.bits} bits, {found.lanes} lanes "
            "cannot be passed to a kernel",
            limit=f"dtypes are {', '.join(DTYPE_NAMES)}, of one lane",
        )
    return numpy_dtype(name)
