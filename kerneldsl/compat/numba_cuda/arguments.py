"""Arguments of launches as kerneldsl takes them, and numba.cuda's hints of copies."""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from kerneldsl.compat.numba_cuda.api import as_cuda_array, from_cuda_array_interface
from kerneldsl.compat.numba_cuda.arrays import DeviceRecord
from kerneldsl.compat.numba_cuda.shared_arrays import SharedNDArray
from kerneldsl.language.element_types import numpy_dtype
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind
from kerneldsl.memory.arrays import DeviceArray

__all__ = [
    "ArgHint",
    "In",
    "InOut",
    "Out",
    "adapt",
    "aligned",
    "at_address",
    "kinds_of_arguments",
    "members",
    "wrap_arg",
    "wrapped",
    "write_back",
]


class ArgHint:
    """An argument with the direction in which it is copied."""

    def __init__(self, value: Any) -> None:
        self.value = value


def wrap_arg(value: Any, default: Any = None) -> ArgHint:
    """Return an argument with a direction; the default one is both."""
    return value if isinstance(value, ArgHint) else (default or InOut)(value)


class In(ArgHint):
    """An array that is copied to the device alone."""


class Out(ArgHint):
    """An array that is copied from the device; what the kernel leaves out keeps its value."""


class InOut(ArgHint):
    """An array that is copied to the device and back."""


#: Types of values that need no conversion.
_PLAIN = frozenset({bool, int, float, complex, np.ndarray})


def adapt(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, DeviceArray):
        return value.copy_to_host()[()] if kind is DeviceRecord else value
    if isinstance(value, ArgHint):
        found = adapt(value.value)
        is_copied = isinstance(value, In) and isinstance(found, np.ndarray)
        return found.copy(order="K") if is_copied else found
    if isinstance(value, enum.Enum) and isinstance(value, int):
        return int(value)
    if isinstance(value, SharedNDArray):
        return value if value.whole is None else value.on_device
    if isinstance(value, tuple):
        made = [adapt(each) for each in value]
        if all(a is b for a, b in zip(made, value, strict=True)):
            return value
        return kind(*made) if hasattr(value, "_fields") else tuple(made)
    if not isinstance(value, np.generic) and hasattr(value, "__cuda_array_interface__"):
        return as_cuda_array(value)
    return value


def members(args: tuple[Any, ...], *, numbers: bool) -> dict[int, enum.Enum]:
    """Return the members of enumerations by their positions; with `numbers`, integers, too."""
    return {
        n: each
        for n, each in enumerate(args)
        if isinstance(each, enum.Enum) and (numbers or not isinstance(each, int | float | complex))
    }


def kinds_of_arguments(args: tuple[Any, ...]) -> tuple[Kind, ...]:
    """Return the kinds of arguments."""
    from kerneldsl.launch.arguments.arguments import bind
    from kerneldsl.launch.arguments.binding import kinds_of

    return kinds_of(bind(tuple(map(str, range(len(args)))), args).given)


def write_back(record: np.void, memory: np.ndarray[Any, Any]) -> None:
    """Give a record the values of its fields in memory."""
    for name in record.dtype.names or ():
        record[name] = memory[name]


def aligned(value: Any, after: list[Callable[[], Any]]) -> Any:
    """Return an array of the host that kernels take; one with odd addresses is copied and back.

    Strings are looked at as the numbers of their characters.
    """
    if type(value) is np.ndarray and value.dtype.char in "SUV":
        value = value.view(_with_numbers(value.dtype))
    if type(value) is not np.ndarray or value.flags.aligned:
        return value
    copy = value.copy(order="K")
    if value.flags.writeable:
        after.append(partial(np.copyto, value, copy))
    return copy


@cache
def _with_numbers(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype with arrays of integers in the places of strings; others are as they are."""
    if dtype.kind in "SU" and dtype.itemsize:
        size = 1 if dtype.kind == "S" else 4
        return np.dtype([("text", f"u{size}", (dtype.itemsize // size,))])
    if dtype.names is None:
        return dtype
    fields = [dtype.fields[name] for name in dtype.names]  # type: ignore[index]
    inner = [_with_numbers(each[0]) for each in fields]
    if all(made is each[0] for made, each in zip(inner, fields, strict=True)):
        return dtype
    texts = [m["text"] if e[0].kind in "SU" else m for m, e in zip(inner, fields, strict=True)]
    offsets = [each[1] for each in fields]
    form = {"names": dtype.names, "formats": texts, "offsets": offsets}
    return np.dtype({**form, "itemsize": dtype.itemsize})  # type: ignore[call-overload,no-any-return]


#: More elements than memory has: a pointer has no end.
_ENDLESS = 1 << 40


def at_address(value: Any, kind: Any) -> Any:
    """Return the array at an address, for a parameter that is a pointer."""
    if not isinstance(value, int | np.integer) or not isinstance(kind, ArrayKind):
        return value
    found = {"data": (int(value), False), "shape": (_ENDLESS,), "strides": None, "version": 3}
    return from_cuda_array_interface({**found, "typestr": numpy_dtype(kind.dtype).str})


def wrapped(value: Any, kind: Any) -> Any:
    """Return an argument with the signedness of its parameter, as numba.cuda reads it.

    An int becomes its lowest bits. An array of integers is one of others of the same size.
    """
    if isinstance(kind, ArrayKind) and isinstance(value, np.ndarray | DeviceArray):
        wanted, given = kind.element, value.dtype
        is_other = wanted.is_integer and given.kind in "iu" and given.name != wanted.name
        return value.view(wanted.name) if is_other and given.itemsize == wanted.nbytes else value
    if type(value) is not int or not isinstance(kind, ScalarKind):
        return value
    dtype = numpy_dtype(kind.dtype)
    if dtype.kind not in "iu" or np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        return value
    return np.uint64(value % 2**64).astype(dtype)
