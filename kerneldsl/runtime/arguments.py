"""From the arguments of a launch to their kinds and the flat values that are passed.

Each type has a *reader*, found once and then by its type in a table: it appends the values of an
argument, in the order of :mod:`kerneldsl.abi`, to a :class:`Binding` and returns the *code* of its
kind. Codes are small ints that stand for interned kinds, because hashing a tuple of ints costs a
launch a tenth of what hashing kinds costs. Readers are short; whatever is unusual raises
:class:`Refused`, which :func:`bind` turns into an error that names the parameter.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from ctypes import c_size_t
from typing import Any, TypeAlias

import numpy as np

from kerneldsl.abi import ParameterLayout
from kerneldsl.errors import (
    ArgumentError,
    ArgumentTypeError,
    ArgumentValueError,
    DeviceMismatchError,
    ReadOnlyArrayError,
)
from kerneldsl.language.kinds import DTYPE_NAMES, ArrayKind, Kind, Layout, ScalarKind, TupleKind
from kerneldsl.locks import ForkSafeLock
from kerneldsl.runtime.arrays import DeviceArray
from kerneldsl.runtime.placement import Place
from kerneldsl.runtime.transfer import byte_bounds

__all__ = [
    "MAX_NDIM",
    "Binding",
    "Reader",
    "Refused",
    "bind",
    "check_writable",
    "code_of",
    "kinds_of",
    "overlap",
    "positions_of",
    "read_device_array",
    "read_ndarray",
]

#: Largest rank of an array argument.
MAX_NDIM = 8

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
# numpy.ndarray.flags.num: NPY_ARRAY_C_CONTIGUOUS and so on, NumPy C API, "Array flags".
_C, _F, _ALIGNED, _WRITEABLE = 0x1, 0x2, 0x100, 0x400

_kinds: list[Kind] = []
_codes: dict[Kind, int] = {}
_kinds_lock = ForkSafeLock()


def code_of(kind: Kind) -> int:
    """The code that stands for a kind in this process."""
    code = _codes.get(kind)
    if code is None:
        with _kinds_lock:
            code = _codes.get(kind)
            if code is None:
                code = len(_kinds)
                _kinds.append(kind)
                _codes[kind] = code
    return code


def kinds_of(codes: tuple[int, ...]) -> tuple[Kind, ...]:
    """The kinds that codes stand for."""
    return tuple(_kinds[code] for code in codes)


class Refused(Exception):
    """An argument that cannot be taken, before it is known which one it is."""

    def __init__(
        self,
        what: str,
        *,
        limit: str | None = None,
        remedy: str | None = None,
        kind: type[ArgumentError] = ArgumentTypeError,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.limit = limit
        self.remedy = remedy
        self.kind = kind
        self.path = ""


class Binding:
    """The arguments of one launch, read.

    Attributes
    ----------
    codes : tuple of int
        Codes of their kinds.
    values : list
        The flat values, as `ParameterLayout.packer` takes them.
    place : Place or None
        Where the device arrays live.
    host : list of (int, ndarray)
        Arrays in host memory, with the index of their pointer in `values`.
    read_only : tuple of int
        Indices of the pointers of arrays that must not be written.
    streams : tuple of int
        Handles of the streams in which other libraries' arguments were made.
    keep : tuple
        What must live until the launch has been made.
    """

    # Most launches have none of these, and five empty objects would cost a sixth of a launch.
    codes: tuple[int, ...] = ()
    place: Place | None = None
    read_only: tuple[int, ...] = ()
    streams: tuple[int, ...] = ()
    keep: tuple[Any, ...] = ()

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.host: list[tuple[int, np.ndarray[Any, Any]]] = []


Reader: TypeAlias = Callable[[Any, Binding], int]

_readers: dict[type, Reader] = {}


def bind(names: tuple[str, ...], args: tuple[Any, ...]) -> Binding:
    """Read the arguments of a launch; there must be as many as names.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If one of them cannot be passed to a kernel.
    DeviceMismatchError
        If they live on two devices.
    """
    binding = Binding()
    codes: list[int] = []
    try:
        for value in args:
            codes.append((_readers.get(value.__class__) or _find_reader(value))(value, binding))
    except Refused as refused:
        position = len(codes)
        raise _explain(refused, names[position], position, args) from refused.__cause__
    binding.codes = tuple(codes)
    return binding


def _explain(refused: Refused, name: str, position: int, args: tuple[Any, ...]) -> ArgumentError:
    return refused.kind(
        f"parameter {name + refused.path!r} (argument {position + 1} of {len(args)}): "
        f"{refused.what}",
        value=args[position],
        limit=refused.limit,
        remedy=refused.remedy,
    )


def check_writable(
    binding: Binding, names: tuple[str, ...], args: tuple[Any, ...], written: frozenset[int]
) -> None:
    """Refuse read-only arrays among the arguments that the kernel writes.

    Raises
    ------
    ReadOnlyArrayError
        Naming the first of them.
    """
    positions = positions_of(binding)
    for index in binding.read_only:
        position = positions[index]
        if position in written:
            raise ReadOnlyArrayError(
                f"parameter {names[position]!r} (argument {position + 1} of {len(args)}) is "
                "written by the kernel, and the array is read-only",
                value=args[position],
                remedy="Pass a writable array, such as a copy",
            )


def overlap(args: tuple[Any, ...], written: frozenset[int]) -> bool:
    """Whether two array arguments share memory, one of which the kernel writes."""
    ranges: list[tuple[int, int, bool]] = []
    for position, value in enumerate(args):
        for leaf in _leaves(value):
            low, high = _memory_range(leaf)
            if low < high:
                ranges.append((low, high, position in written))
    return any(
        (a[2] or b[2]) and a[0] < b[1] and b[0] < a[1]
        for i, a in enumerate(ranges)
        for b in ranges[:i]
    )


def _memory_range(value: Any) -> tuple[int, int]:
    """First and past-the-last address; two equal ones for an empty array or a scalar."""
    binding = Binding()
    kind = _kinds[(_readers.get(value.__class__) or _find_reader(value))(value, binding)]
    if not isinstance(kind, ArrayKind):
        return 0, 0
    pointer, *rest = binding.values
    itemsize = np.dtype(kind.dtype).itemsize
    shape = tuple(rest[: kind.ndim])
    if kind.layout == "A":
        return byte_bounds(pointer, shape, tuple(rest[kind.ndim :]), itemsize)
    return pointer, pointer + itemsize * math.prod(shape)


def positions_of(binding: Binding) -> list[int]:
    """The position of the argument that each flat value belongs to."""
    return [
        position
        for position, kind in enumerate(kinds_of(binding.codes))
        for _ in ParameterLayout(("",), (kind,)).parameters
    ]


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for element in value:
            yield from _leaves(element)
    else:
        yield value


# --------------------------------------------------------------------------- scalars


_BOOL = code_of(ScalarKind("bool"))
_INT64 = code_of(ScalarKind("int64"))
_FLOAT64 = code_of(ScalarKind("float64"))
_COMPLEX128 = code_of(ScalarKind("complex128"))


def _read_bool(value: Any, binding: Binding) -> int:
    binding.values.append(1 if value else 0)
    return _BOOL


def _read_int(value: int, binding: Binding) -> int:
    if not _INT64_MIN <= value <= _INT64_MAX:
        fits = 0 <= value < 2**64
        raise Refused(
            f"the Python int {value} does not fit int64",
            limit="Python ints are passed as int64",
            remedy=f"Pass np.uint64({value})" if fits else "Pass a float, or split the number",
            kind=ArgumentValueError,
        )
    binding.values.append(value)
    return _INT64


def _read_float(value: float, binding: Binding) -> int:
    binding.values.append(value)
    return _FLOAT64


def _read_complex(value: complex, binding: Binding) -> int:
    binding.values += (value.real, value.imag)
    return _COMPLEX128


def _numpy_scalar_reader(dtype: str) -> Reader:
    code = code_of(ScalarKind(dtype))
    if dtype.startswith("complex"):

        def read_parts(value: Any, binding: Binding) -> int:
            binding.values += (value.real, value.imag)
            return code

        return read_parts

    def read(value: Any, binding: Binding) -> int:
        binding.values.append(value)
        return code

    return read


# --------------------------------------------------------------------------- tuples


_tuple_codes: dict[tuple[int, ...], int] = {}


def _read_tuple(value: tuple[Any, ...], binding: Binding) -> int:
    codes = []
    for i, element in enumerate(value):
        try:
            reader = _readers.get(element.__class__) or _find_reader(element)
            codes.append(reader(element, binding))
        except Refused as refused:
            refused.path = f"[{i}]{refused.path}"
            raise
    key = tuple(codes)
    code = _tuple_codes.get(key)
    if code is None:
        code = _tuple_codes[key] = code_of(TupleKind(kinds_of(key)))
    return code


# --------------------------------------------------------------------------- arrays


_array_codes: dict[tuple[np.dtype[Any], int, int], int] = {}


def read_ndarray(value: np.ndarray[Any, Any], binding: Binding) -> int:
    """Read an array in host memory."""
    shape = value.shape
    flags = value.flags.num
    key = (value.dtype, len(shape), flags & (_C | _F | _ALIGNED))
    code = _array_codes.get(key)
    if code is None:
        code = _array_codes[key] = _classify(*key)
    values = binding.values
    binding.host.append((len(values), value))
    values.append(_address(value))
    values += shape
    if not flags & (_C | _F):
        values += value.strides
    if not flags & _WRITEABLE:
        binding.read_only += (binding.host[-1][0],)
    return code


def _classify(dtype: np.dtype[Any], ndim: int, flags: int) -> int:
    check_dtype(dtype)
    if ndim > MAX_NDIM:
        raise Refused(
            f"the array has {ndim} dimensions",
            limit=f"Kernels take arrays of up to {MAX_NDIM} dimensions",
            remedy="Reshape it",
        )
    if not flags & _ALIGNED:
        raise Refused(
            f"the {dtype} array's elements do not lie at multiples of {dtype.alignment} bytes",
            limit="Kernels take aligned arrays",
            remedy="Pass array.copy()",
            kind=ArgumentValueError,
        )
    layout: Layout = "C" if flags & _C else "F" if flags & _F else "A"
    return code_of(ArrayKind(dtype.name, ndim, layout))


def check_dtype(dtype: np.dtype[Any]) -> None:
    """Refuse a dtype that kernels do not take.

    Raises
    ------
    Refused
        Saying what to do instead.
    """
    if dtype.name in DTYPE_NAMES and dtype.isnative:
        return
    if not dtype.isnative:
        remedy = f"Convert it with array.astype({dtype.newbyteorder('=').name!r})"
    elif dtype.kind == "f":
        remedy = "Convert it with array.astype(np.float32) or array.astype(np.float64)"
    elif dtype.kind in "Mm":
        remedy = "Pass array.view(np.int64)"
    elif dtype.names is not None:
        remedy = "Pass each field as an array of its own: " + ", ".join(
            f"array[{n!r}]" for n in dtype.names[:4]
        )
    else:
        remedy = "Convert it to a numeric dtype"
    shown = f"{dtype} of foreign byte order" if not dtype.isnative else str(dtype)
    raise Refused(
        f"an array of dtype {shown} cannot be passed to a kernel",
        limit=f"dtypes are {', '.join(DTYPE_NAMES)}",
        remedy=remedy,
    )


def _interface_address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


_DATA_OFFSET = object.__basicsize__
_from_address = c_size_t.from_address


def _member_address(array: np.ndarray[Any, Any]) -> int:
    # PyArrayObject begins with the object's head, then ``char *data`` (NumPy C API, "Python Types
    # and C-Structures"); reading it there takes a tenth of the time of array.ctypes.data.
    return _from_address(id(array) + _DATA_OFFSET).value


def _choose_address() -> Callable[[np.ndarray[Any, Any]], int]:
    probe = np.zeros((3, 3))[1:, 2]
    if sys.implementation.name == "cpython" and _member_address(probe) == _interface_address(probe):
        return _member_address
    return _interface_address


_address = _choose_address()


def read_device_array(value: DeviceArray, binding: Binding) -> int:
    """Read an array in device memory."""
    place = value.place
    if binding.place is not place:
        claim(binding, place)
    code = value.code
    if code < 0:
        check_dtype(value.dtype)
        code = value.code = code_of(ArrayKind(value.dtype.name, value.ndim, value.layout))
    if value.is_read_only:
        binding.read_only += (len(binding.values),)
    binding.values += value.packed
    return code


def claim(binding: Binding, place: Place) -> None:
    """Note that an argument lives at a place.

    Raises
    ------
    Refused
        If another one lives elsewhere.
    """
    if binding.place is None:
        binding.place = place
    elif binding.place is not place:
        raise Refused(
            f"it lives on {place.name}, and an argument before it on {binding.place.name}",
            limit="Every device array of a launch lives on one device",
            remedy="Copy it over the host: kd.to_device(array.copy_to_host())",
            kind=DeviceMismatchError,
        )


# --------------------------------------------------------------------------- finding a reader


def _find_reader(value: Any) -> Reader:
    from kerneldsl.runtime import foreign

    kind = type(value)
    reader = _reader_of_type(kind)
    if reader is None and not isinstance(value, (np.ndarray, np.generic)):
        reader = foreign.find_reader(value)
    if reader is None:
        raise _unknown(value)
    _readers[kind] = reader
    return reader


def _reader_of_type(kind: type) -> Reader | None:
    if issubclass(kind, np.ndarray) and not issubclass(kind, np.ma.MaskedArray):
        return read_ndarray
    if issubclass(kind, np.generic):
        return None
    if issubclass(kind, int):
        return _read_int
    if issubclass(kind, float):
        return _read_float
    if issubclass(kind, complex):
        return _read_complex
    return None


def _unknown(value: Any) -> Refused:
    name = type(value).__qualname__
    what = f"a {name} cannot be passed to a kernel"
    limit = "Kernels take NumPy and device arrays, numbers, and tuples of those"
    if isinstance(value, np.ma.MaskedArray):
        return Refused(what, limit=limit, remedy="Pass array.filled(value), or .data and .mask")
    if isinstance(value, tuple):
        return Refused(what, limit=limit, remedy="Pass a plain tuple: tuple(value)")
    if isinstance(value, np.generic):
        return Refused(
            f"a NumPy scalar of dtype {value.dtype} cannot be passed to a kernel",
            limit=f"dtypes are {', '.join(DTYPE_NAMES)}",
            remedy="Convert it, to np.float32(value) for instance",
        )
    if isinstance(value, list):
        return Refused(
            what, limit=limit, remedy="Pass np.array(value), or tuple(value) if it is short"
        )
    if isinstance(value, str):
        return Refused(
            what, limit=limit, remedy="Use a global constant of the kernel's module instead"
        )
    return Refused(what, limit=limit)


def _fill_table() -> None:
    _readers.update(
        {
            bool: _read_bool,
            np.bool_: _read_bool,
            int: _read_int,
            float: _read_float,
            complex: _read_complex,
            tuple: _read_tuple,
            np.ndarray: read_ndarray,
            DeviceArray: read_device_array,
        }
    )
    for dtype in DTYPE_NAMES[1:]:
        _readers[np.dtype(dtype).type] = _numpy_scalar_reader(dtype)
    for char in "qQlL":  # two C types have 64 bits; NumPy has a scalar class for each
        scalar = np.dtype(char)
        _readers[scalar.type] = _numpy_scalar_reader(scalar.name)


_fill_table()
