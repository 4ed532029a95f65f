"""The arguments of a launch: read, checked, compared with each other, and copied so far."""

from __future__ import annotations

from enum import Enum
from itertools import combinations
from typing import Any

import numpy as np

from kerneldsl.contract.abi import RECORD_WORD_BYTES
from kerneldsl.errors import ArgumentError, ArgumentValueError, ReadOnlyArrayError
from kerneldsl.errors.values import a_type, safe_repr
from kerneldsl.language.element_types import DTYPE_NAMES, ELEMENT_TYPES, element_name
from kerneldsl.language.kinds import ScalarKind, TupleKind
from kerneldsl.launch.arguments.array_readers import name_of, read_device_array, read_ndarray
from kerneldsl.launch.arguments.binding import Binding, Reader, Refused, bits_of, code_of, kinds_of
from kerneldsl.utilities.modules import imported, is_masked_array

__all__ = ["READERS", "Progress", "bind", "check_writable", "find_reader", "overlap"]


def bind(names: tuple[str, ...], args: tuple[Any, ...]) -> Binding:
    """Read the arguments of a launch; there must be as many as names.

    - raises `ArgumentTypeError`, `ArgumentValueError` if one of them cannot be passed to a kernel.
    - raises `DeviceMismatchError` if they live on two devices.
    """
    binding = Binding()
    codes: list[int] = []
    try:
        for value in args:
            codes.append((READERS.get(value.__class__) or find_reader(value))(value, binding))
    except Refused as refused:
        position = len(codes)
        raise _explain(refused, names[position], position, args) from refused.__cause__
    binding.codes = binding.given = tuple(codes)
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

    - raises `ReadOnlyArrayError` naming the first of them.
    """
    for array in binding.arrays:
        position = array.position
        if position in written and array.pointer in binding.read_only:
            raise ReadOnlyArrayError(
                f"parameter {names[position]!r} (argument {position + 1} of {len(args)}) is "
                "written by the kernel, and the array is read-only",
                value=args[position],
                remedy="Pass a writable array, such as a copy",
            )


def overlap(binding: Binding, written: frozenset[int]) -> bool:
    """Return whether an array argument that the kernel writes shares memory with another."""
    ranges = [(*each.byte_range(), each.position in written) for each in binding.passed_arrays()]
    return any(
        (a[2] or b[2]) and max(a[0], b[0]) < min(a[1], b[1]) for a, b in combinations(ranges, 2)
    )


class Progress:
    """Progress of a launch.

    - `has_begun`: whether the kernel may have begun on the device.
    - `touched`: indices, among the flat values, of the arrays in host memory that may have been
      changed.
    """

    __slots__ = ("has_begun", "touched")

    def __init__(self) -> None:
        self.has_begun = False
        self.touched: set[int] = set()


#: Type of an argument to its reader; filled below, and as types are met. A reader appends the
#: values of an argument to a binding, in the order of :mod:`kerneldsl.contract.abi`, and returns
#: the code of its kind. Whatever is unusual raises `Refused`.
READERS: dict[type, Reader] = {}

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

# --------------------------------------------------------------------------- scalars


_BOOL = code_of(ScalarKind("bool"))
_INT64 = code_of(ScalarKind("int64"))
_FLOAT64 = code_of(ScalarKind("float64"))
_COMPLEX128 = code_of(ScalarKind("complex128"))

#: A GPU takes 4096 bytes of parameters, and a record is copied to each launch.
_MAX_BYTES = 1024

_codes: dict[tuple[np.dtype[Any], bool], int] = {}


def _read_bool(value: Any, binding: Binding) -> int:
    binding.values.append(1 if value else 0)
    return _BOOL


def _read_int(value: int, binding: Binding) -> int:
    if not _INT64_MIN <= value <= _INT64_MAX:
        fits = 0 <= value < 2**64
        raise Refused(
            f"the Python int {safe_repr(value)} does not fit int64",
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
    if dtype == "bool":
        return _read_bool
    code = code_of(ScalarKind(dtype))
    if ELEMENT_TYPES[dtype].is_complex:

        def read_parts(value: Any, binding: Binding) -> int:
            binding.values += (value.real, value.imag)
            return code

        return read_parts
    if ELEMENT_TYPES[dtype].is_passed_as_bits:

        def read_bits(value: Any, binding: Binding) -> int:
            binding.values.append(bits_of(value))
            return code

        return read_bits

    def read(value: Any, binding: Binding) -> int:
        binding.values.append(value)
        return code

    return read


def _read_time(value: np.datetime64 | np.timedelta64, binding: Binding) -> int:
    name = name_of(value.dtype, "a NumPy scalar")
    binding.values.append(int(value.view(np.int64)))
    return code_of(ScalarKind(name))


# --------------------------------------------------------------------------- tuples


#: The names of the members, and the codes of their kinds, to the tuple's.
_tuple_codes: dict[tuple[Any, ...], int] = {}


def _read_tuple(value: tuple[Any, ...], binding: Binding) -> int:
    return _read_members(value, (), binding)


def _read_members(value: tuple[Any, ...], names: tuple[str, ...], binding: Binding) -> int:
    codes = []
    for i, element in enumerate(value):
        try:
            reader = READERS.get(element.__class__) or find_reader(element)
            codes.append(reader(element, binding))
        except Refused as refused:
            refused.path = f".{names[i]}{refused.path}" if names else f"[{i}]{refused.path}"
            raise
    key = (names, *codes)
    code = _tuple_codes.get(key)
    if code is None:
        code = _tuple_codes[key] = code_of(TupleKind(kinds_of(tuple(codes)), names))
    return code


def _named_tuple_reader(names: tuple[str, ...]) -> Reader:
    def read(value: tuple[Any, ...], binding: Binding) -> int:
        return _read_members(value, names, binding)

    return read


# --------------------------------------------------------------------------- finding a reader


def find_reader(value: Any) -> Reader:
    """Return the reader of a value of a new type, and add it to the table.

    - raises `Refused` if kernels do not take such a thing.
    """
    kind = type(value)
    reader = _reader_of_type(kind)
    if reader is None and not isinstance(value, (np.ndarray, np.generic)):
        from kerneldsl.launch.arguments import foreign

        reader = foreign.find_reader(value)
    if reader is None:
        raise _unknown(value)
    READERS[kind] = reader
    return reader


def _reader_of_type(kind: type) -> Reader | None:
    if issubclass(kind, np.ndarray) and not is_masked_array(kind):
        return read_ndarray
    if issubclass(kind, np.void):
        return _read_record
    if issubclass(kind, np.datetime64 | np.timedelta64):
        return _read_time
    if issubclass(kind, np.generic):
        dtype = np.dtype(kind)
        is_own = dtype.type is kind and dtype.name in ELEMENT_TYPES
        return _numpy_scalar_reader(dtype.name) if is_own else None
    arrays = imported("kerneldsl.memory.arrays")  # where it is not, there are no device arrays
    if arrays is not None and issubclass(kind, arrays.DeviceArray):
        return read_device_array
    if issubclass(kind, tuple) and (names := getattr(kind, "_fields", ())):
        return _named_tuple_reader(names)
    if issubclass(kind, int):
        return _read_int
    if issubclass(kind, float):
        return _read_float
    if issubclass(kind, complex):
        return _read_complex
    return None


def _unknown(value: Any) -> Refused:
    what = "None" if value is None else a_type(value)
    if type(value).__module__ == "array":  # a name that NumPy's have, too
        what = "an array.array"
    what += " cannot be passed to a kernel"
    limit = "Kernels take NumPy and device arrays, numbers, and tuples of those, named ones too"
    if is_masked_array(type(value)):
        return Refused(what, limit=limit, remedy="Pass array.filled(value), or .data and .mask")
    if isinstance(value, tuple):
        return Refused(what, limit=limit, remedy="Pass a plain tuple: tuple(value)")
    if isinstance(value, Enum):
        return Refused(what, limit=limit, remedy="Pass its .value, or make it an IntEnum")
    if isinstance(value, np.generic):
        return Refused(
            f"a NumPy scalar of dtype {value.dtype} cannot be passed to a kernel",
            limit=f"Kernels take the dtypes {', '.join(DTYPE_NAMES)}",
            remedy="Convert it, to np.float32(value) for instance",
        )
    if isinstance(value, list):
        return Refused(
            what, limit=limit, remedy="Pass np.array(value), or tuple(value) if it is short"
        )
    if isinstance(value, str):
        return Refused(
            what,
            limit=limit,
            remedy="Pass a number, such as float(value); the kernel reads text from globals alone",
        )
    if value is None:
        return Refused(
            what,
            limit=limit,
            remedy="Pass a number that stands for it, or write a kernel for that case",
        )
    if isinstance(value, bytes):
        return Refused(what, limit=limit, remedy="Pass np.frombuffer(value, np.uint8)")
    if hasattr(type(value), "to_numpy"):  # of pandas and Polars
        return Refused(what, limit=limit, remedy="Pass value.to_numpy()")
    if _has_buffer(value):
        return Refused(what, limit=limit, remedy="Pass np.asarray(value), which shares its memory")
    return Refused(
        what, limit=limit, remedy="Pass the numbers and arrays in it as arguments of their own"
    )


def _has_buffer(value: Any) -> bool:
    """Return whether NumPy can make an array of the memory of an object, such as array.array."""
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


def _fill_table() -> None:
    READERS.update(
        {
            bool: _read_bool,
            np.bool_: _read_bool,
            int: _read_int,
            float: _read_float,
            complex: _read_complex,
            tuple: _read_tuple,
            np.ndarray: read_ndarray,
        }
    )


_fill_table()


def _read_record(value: np.void, binding: Binding) -> int:
    """Read an element of a structured array, as ``array[0]`` gives it."""
    dtype = value.dtype
    # A dtype of aligned records equals one of packed records at the same places.
    code = _codes.get((dtype, dtype.isalignedstruct))
    if code is None:
        code = _codes[dtype, dtype.isalignedstruct] = _classify(dtype)
    data = value.tobytes()
    padded = data + bytes(-len(data) % RECORD_WORD_BYTES)
    binding.values += np.frombuffer(padded, np.uint64).tolist()
    return code


def _classify(dtype: np.dtype[Any]) -> int:
    name = element_name(dtype)
    if name is None:
        names = dtype.names or ()
        raise Refused(
            f"a record of dtype {dtype} cannot be passed to a kernel",
            limit="Fields of records are numbers, bools, records, or arrays of those, at places "
            "that do not overlap",
            remedy="Pass the fields that are needed: "
            + ", ".join(f"record[{each!r}]" for each in names[:4])
            if names
            else "Give its array a structured dtype, array.view([('x', np.float32), …])",
        )
    if dtype.itemsize > _MAX_BYTES:
        raise Refused(
            f"a record of {dtype.itemsize} bytes cannot be passed by value",
            limit=f"Records of up to {_MAX_BYTES} bytes are",
            remedy="Pass an array of one record: array[:1], and read array[0] in the kernel",
            kind=ArgumentValueError,
        )
    return code_of(ScalarKind(name))
