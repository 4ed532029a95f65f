"""Arrays that functions of the library take, and what is refused of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Set
from typing import Any, TypeAlias

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, ReadOnlyArrayError
from kerneldsl.errors.conversions import conversion
from kerneldsl.errors.values import a_type
from kerneldsl.utilities.formatting import format_count
from kerneldsl.utilities.modules import is_masked_array
from stdlib_kernels.parameters import axis_of, names_of

__all__ = [
    "Array",
    "Ints",
    "Out",
    "check_alike",
    "check_array",
    "check_matrices",
    "check_other_axes",
    "check_out",
    "check_same_kind",
    "check_shape",
    "check_writable",
    "checked_axis",
]

#: Arrays that the functions of the library accept.
Array: TypeAlias = np.ndarray[Any, Any] | kd.DeviceArray
#: One int for all axes, or one for each.
Ints: TypeAlias = int | tuple[int, ...]
#: The array for a result; ``None`` makes a new one.
Out: TypeAlias = Array | None


def check_array(
    name: str,
    value: Any,
    *,
    kinds: str = "biufc",
    dtypes: tuple[str, ...] | None = None,
    ndim: int | None = None,
    halves: bool = False,
    remedy: str = "Reshape it",
    dtype_remedy: str = "",
) -> None:
    """Refuse what is no array, or one of another dtype or rank.

    `kinds` are characters of NumPy's dtype kinds that are taken, with `halves` float16 and bfloat16
    beside them; `dtypes` are names of dtypes instead. Any rank by default. `dtype_remedy` is for
    arrays that a conversion alone does not mend.
    """
    is_odd = isinstance(value, np.matrix) or is_masked_array(type(value))
    if is_odd or not isinstance(value, np.ndarray | kd.DeviceArray):
        raise ArgumentTypeError(
            f"{name} is {a_type(value)}",
            value=value,
            limit="Library functions take NumPy arrays, device arrays, numbers, lists of numbers, "
            "and arrays of other libraries that share their memory",
            remedy=f"Replace masked elements, with {name}.filled(…)"
            if hasattr(type(value), "filled")
            else f"Pass list({name})"
            if isinstance(value, Set | Iterator)
            else f"Pass np.asarray({name}), if that is an array of numbers",
        )
    if ndim is not None and value.ndim != ndim:
        raise ArgumentValueError(
            f"{name} has {format_count(value.ndim, 'dimension')}",
            value=tuple(value.shape),
            limit=f"It must have {ndim}",
            remedy=remedy,
        )
    dtype = value.dtype
    wanted = dtypes or names_of(kinds, halves=halves)
    if not (dtype.name in wanted and dtype.isnative):
        raise ArgumentTypeError(
            f"{name} has the dtype {dtype}",
            value=dtype,
            limit=f"Accepted dtypes: {', '.join(wanted)}"
            + f", in {sys.byteorder}-endian byte order" * (not dtype.isnative),
            remedy="Omit out, or make one of such a dtype"  # a converted copy would be lost
            if name == "out"
            else dtype_remedy or conversion(name, dtype, wanted),
        )


def checked_axis(x: Any, axis: Any, *, kinds: str = "biuf") -> int:
    """Check the array `x` and an axis of it, and return the axis from 0 on."""
    check_array("x", x, kinds=kinds, halves=True)
    return axis_of(axis, x.ndim)


def check_same_kind(name: str, value: Array, other_name: str, other: Array) -> None:
    """Refuse a NumPy array and a device array together."""
    if isinstance(value, kd.DeviceArray) != isinstance(other, kd.DeviceArray):
        raise ArgumentTypeError(
            f"{name} is {a_type(value)}, and {other_name} {a_type(other)}",
            value=(value, other),
            limit="Either all arrays of a library function are NumPy's, or all are device arrays",
            remedy="Use kd.to_device(…) or .copy_to_host()",
        )


def check_alike(name: str, value: Array, other_name: str, other: Array) -> None:
    """Refuse arrays of two kinds, or of two shapes."""
    check_same_kind(name, value, other_name, other)
    shape = tuple(other.shape)
    limit = f"It must be that of {other_name}, {shape}"
    check_shape(name, value, shape, limit, "Reshape or broadcast it")


def check_shape(
    name: str, value: Array, shape: tuple[int, ...], limit: str, remedy: str = ""
) -> None:
    """Refuse an array of another shape."""
    found = tuple(value.shape)
    if found != shape:
        raise ArgumentValueError(
            f"{name} has the shape {found}", value=found, limit=limit, remedy=remedy
        )


def check_other_axes(name: str, value: Array, axis: int, other_name: str, other: Array) -> None:
    """Raise an error unless the shape of an array equals another one's except along one axis."""
    wanted = tuple(other.shape)
    limit = f"Except along axis {axis} it is that of {other_name}, {wanted}"
    if value.ndim == other.ndim:
        wanted = (*wanted[:axis], value.shape[axis], *wanted[axis + 1 :])
    check_shape(name, value, wanted, limit, "Reshape it, or take another axis")


def check_matrices(x: Any) -> None:
    """Refuse what is no array, or has fewer than two axes."""
    check_array("x", x, halves=True)
    if x.ndim < 2:
        raise ArgumentValueError(
            f"an array of shape {x.shape} has no matrices", value=x.shape, remedy="Add axes"
        )


def check_writable(name: str, array: Array) -> None:
    """Refuse an array that is read-only."""
    if array.is_read_only if isinstance(array, kd.DeviceArray) else not array.flags.writeable:
        is_changed = name != "out"
        raise ReadOnlyArrayError(
            f"{name} is a read-only array",
            value=array,
            limit="It is changed in place. Lists are read as such arrays" if is_changed else "",
            remedy="Pass a copy of it" + ", of a list np.array(…)" * is_changed,
        )


def check_out(out: Any, *, like: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse an `out` that cannot hold a result; ``None`` is fine."""
    if out is None:
        return
    check_array("out", out, dtypes=(dtype.name,))
    check_same_kind("out", out, "the input", like)
    remedy = "Omit out, or make one of that shape"
    check_shape("out", out, shape, f"The result has the shape {shape}", remedy)
    check_writable("out", out)
