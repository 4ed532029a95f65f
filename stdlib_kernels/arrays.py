"""Array handling of library functions: check, bring to a device, allocate, return.

A function takes NumPy arrays or device arrays and returns the same kind. NumPy arrays are used
where they are on a target whose memory is the host's; for another target they are copied there
once, so that a function of several kernels does not copy at each launch.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias, cast

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, ReadOnlyArrayError
from stdlib_kernels.copying import copy_elements
from stdlib_kernels.overlap import may_overlap
from stdlib_kernels.parameters import NARROW, names_of
from stdlib_kernels.repeating import note_made, note_scalar, refuse_to_repeat

__all__ = [
    "Array",
    "Out",
    "accumulator_dtype",
    "allocate",
    "around_axis",
    "check_array",
    "check_out",
    "check_same_kind",
    "computing_dtype",
    "contiguous",
    "contiguous_1d",
    "destination",
    "finish",
    "is_contiguous",
    "is_on_host",
    "on_device",
    "to_like",
]

#: What the functions of the library take.
Array: TypeAlias = np.ndarray[Any, Any] | kd.DeviceArray
#: Where they put a result; ``None`` makes an array.
Out: TypeAlias = Array | None


def check_array(
    name: str,
    value: Any,
    *,
    kinds: str = "biufc",
    dtypes: tuple[str, ...] | None = None,
    ndim: int | None = None,
    halves: bool = False,
) -> None:
    """Refuse what is no array, or one of another dtype or rank.

    `kinds` are characters of NumPy's dtype kinds that are taken, with `halves` float16 and bfloat16
    beside them; `dtypes` are names of dtypes instead. Any rank by default.
    """
    is_array = isinstance(value, (np.ndarray, kd.DeviceArray))
    if not is_array or isinstance(value, np.ma.MaskedArray):
        raise ArgumentTypeError(
            f"{name} is a {type(value).__qualname__}",
            value=value,
            limit="Library functions take NumPy arrays and device arrays",
            remedy="Make one with np.asarray(…), or take another library's array over with "
            "kd.as_array(…)",
        )
    dtype = value.dtype
    wanted = dtypes or names_of(kinds, halves=halves)
    if not (dtype.name in wanted and dtype.isnative):
        raise ArgumentTypeError(
            f"{name} has the dtype {dtype}",
            value=dtype,
            limit=f"Taken are {', '.join(wanted)}, in this machine's byte order",
            remedy=f"Convert it, with {name}.astype(np.{_nearest(dtype, wanted)}) for instance",
        )
    if ndim is not None and value.ndim != ndim:
        raise ArgumentTypeError(
            f"{name} has {value.ndim} dimensions",
            value=tuple(value.shape),
            limit=f"It must have {ndim}",
            remedy="Reshape it",
        )


def _nearest(dtype: np.dtype[Any], wanted: tuple[str, ...]) -> str:
    """Return the smallest of some dtypes that holds every value of another, if one does."""
    by_size = sorted(set(wanted) - {"bfloat16"}, key=lambda name: np.dtype(name).itemsize)
    fallback = "float64" if "float64" in wanted else wanted[-1]
    return next((name for name in by_size if np.can_cast(dtype, name)), fallback)


def check_same_kind(name: str, value: Array, other_name: str, other: Array) -> None:
    """Refuse a NumPy array and a device array together."""
    if isinstance(value, kd.DeviceArray) != isinstance(other, kd.DeviceArray):
        raise ArgumentTypeError(
            f"{name} is a {type(value).__name__}, and {other_name} a {type(other).__name__}",
            value=(value, other),
            limit="Either all arrays of a library function are NumPy's, or all are device arrays",
            remedy="Use kd.to_device(…) or .copy_to_host()",
        )


def check_out(out: Any, *, like: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse an `out` that cannot hold a result; ``None`` is fine."""
    if out is None:
        return
    check_array("out", out, dtypes=(dtype.name,))
    check_same_kind("out", out, "the input", like)
    if tuple(out.shape) != shape:
        raise ArgumentValueError(
            f"out has the shape {tuple(out.shape)}",
            value=tuple(out.shape),
            limit=f"The result has the shape {shape}",
            remedy="Leave out away, or make one of that shape",
        )
    read_only = out.is_read_only if isinstance(out, kd.DeviceArray) else not out.flags.writeable
    if read_only:
        raise ReadOnlyArrayError("out is a read-only array", value=out, remedy="Pass a copy of it")


def accumulator_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which NumPy adds up elements: at least 64 bits for integers."""
    if dtype.kind in "bi":
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" else dtype


def computing_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which numbers are combined: float32 for floats of 16 bits."""
    return np.dtype(np.float32) if dtype.name in NARROW else dtype


def on_device(array: Array) -> Array:
    """Return the array itself where kernels can reach it, else a copy on the current device."""
    if isinstance(array, kd.DeviceArray) or kd.current_target() == "cpu":
        return array
    return kd.to_device(array)


def contiguous_1d(array: Array) -> Array:
    """Return all elements in C order as a one-dimensional array: a view where one is possible."""
    if array.ndim == 1:
        return array
    return contiguous(array).reshape(-1)


def contiguous(array: Array) -> Array:
    """Return an array whose elements follow each other in C order: itself, or a copy."""
    if isinstance(array, np.ndarray):
        return np.ascontiguousarray(array)
    if array.layout == "C":
        return array
    copy = allocate(array, array.shape, array.dtype)
    copy_elements(array, cast("kd.DeviceArray", copy))
    return copy


def around_axis(array: Array, axis: int) -> Array:
    """Return an array as three axes: all before one, that one, all behind it; a view if possible.

    `axis` is from 0 on.
    """
    if array.ndim == 1:
        return array[None, :, None]
    before, after = math.prod(array.shape[:axis]), math.prod(array.shape[axis + 1 :])
    return contiguous_1d(array).reshape((before, array.shape[axis], after))


def is_contiguous(array: Array) -> bool:
    """Return whether elements follow each other in C order without gaps."""
    if isinstance(array, kd.DeviceArray):
        return array.layout == "C"
    return bool(array.flags.c_contiguous)


def allocate(
    like: Array, shape: tuple[int, ...], dtype: np.dtype[Any], *, zero: bool = False
) -> Array:
    """Make an array of the kind of `like` and on its device."""
    made: Array
    if isinstance(like, np.ndarray):
        made = np.zeros(shape, dtype) if zero else np.empty(shape, dtype)
    else:
        made = (kd.zeros if zero else kd.empty)(shape, dtype, device=like.device)
    note_made(made, is_zero=zero)
    return made


def destination(
    source: Array, shape: tuple[int, ...], dtype: np.dtype[Any], out: Array | None, *inputs: Array
) -> Array:
    """Return `out` where kernels can write to it directly, else a new array beside `source`.

    That is where it is of the kind of `source`, and shares no memory with an input.
    """
    reachable = isinstance(out, kd.DeviceArray) == isinstance(source, kd.DeviceArray)
    if out is None or not reachable or any(may_overlap(out, a) for a in (source, *inputs)):
        return allocate(source, shape, dtype)
    return out


def to_like(like: Array, array: np.ndarray[Any, Any]) -> Array:
    """Return a NumPy array's elements as an array of the kind of `like`, on its device."""
    return array if isinstance(like, np.ndarray) else kd.to_device(array, device=like.device)


def finish(result: Array, *, like: Array, out: Array | None) -> Any:
    """Return a result as the caller wants it: in `out`, or as an array of the kind of `like`.

    A result of rank 0 becomes a NumPy scalar where `like` is a NumPy array.
    """
    if out is None:
        host = isinstance(like, np.ndarray)
        found = result.copy_to_host() if host and isinstance(result, kd.DeviceArray) else result
        if host and found.ndim == 0:
            note_scalar(found)
            return found[()]
        return found
    if result is not out:
        if isinstance(result, kd.DeviceArray) and isinstance(out, kd.DeviceArray):
            copy_elements(result, out)
        else:
            refuse_to_repeat()
            out[...] = result.copy_to_host() if isinstance(result, kd.DeviceArray) else result
    return out


def is_on_host(array: Array) -> bool:
    """Return whether kernels of an array run on the host's cores."""
    return isinstance(array, np.ndarray) or array.device.shares_host_memory
