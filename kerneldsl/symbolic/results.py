"""The results of a call of a kernel of expressions: their dtypes, and the arrays they go to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.language.element_types import ELEMENT_TYPES, ElementKind
from kerneldsl.memory.array_interface import has_protocol
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.creation import as_array, empty
from kerneldsl.memory.strided import byte_bounds, host_view, same_memory_order
from kerneldsl.symbolic.dtypes import computing_dtype, dtype_name
from kerneldsl.symbolic.printing import is_condition, needs_floats
from kerneldsl.symbolic.systems import System

__all__ = ["outputs_of", "taken_over"]

#: How long NumPy looks for an element that two arrays share before it takes them to share one.
_MAX_WORK = 1000


def taken_over(name: str, value: Any) -> Any:
    """Return an array of NumPy or ours as it is, and one of another library as ours.

    Raises
    ------
    ArgumentTypeError
        If it is no array.
    """
    if isinstance(value, np.ndarray | DeviceArray):
        return value
    if not (has_protocol(value, "__dlpack__") or has_protocol(value, "__cuda_array_interface__")):
        raise ArgumentTypeError(
            f"{name} is {safe_repr(value)}",
            value=value,
            limit="Expressions take real numbers, and arrays of NumPy, on a device, or of another "
            "library",
            remedy="Make an array of it: np.asarray(…)",
        )
    return as_array(value)


def outputs_of(
    system: System, values: Mapping[str, Any], out: Any, shape: tuple[int, ...]
) -> list[Any]:
    """Return the arrays that results are stored in: those of `out`, or new ones.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        Where `out` does not fit.
    """
    given = (
        out if isinstance(out, tuple) else (out,) * (1 if out is not None else len(system.outputs))
    )
    if len(given) != len(system.outputs):
        raise ArgumentValueError(
            f"out has {len(given)} arrays",
            value=len(given),
            limit=f"There are {len(system.outputs)} results",
            remedy="Give a tuple of as many",
        )
    like = next((each for each in values.values() if np.shape(each)), None)
    found = []
    for output, array in zip(system.outputs, given, strict=True):
        dtype = _result_dtype(output.value, values)
        if output.name in values:
            if array is not None and array is not values[output.name]:
                raise ArgumentValueError(
                    f"out is given, but {output.name} is written in place",
                    value=output.name,
                    limit=f"The expression stores {output.name} where it is read",
                    remedy="Omit out, or give the result another name in the expression",
                )
            array = values[output.name]
        if array is None:
            array = (
                empty(shape, dtype, device=like.device)
                if isinstance(like, DeviceArray)
                else np.empty(shape, dtype)
            )
        array = taken_over("out", array)
        if tuple(array.shape) != shape:
            raise ArgumentValueError(
                f"{output.name} has the shape {tuple(array.shape)}",
                value=tuple(array.shape),
                limit=f"The arrays are broadcast to {shape}",
            )
        for name in system.arrays:
            is_own = all(each.is_element(len(system.axes)) for each in system.reads(name))
            _refuse_shared(name, values[name], array, is_own=is_own)
        found.append(array)
    return found


def _refuse_shared(name: str, value: Any, array: Any, *, is_own: bool) -> None:
    """Refuse a result in memory that is read where other elements are computed.

    `is_own` says whether of the array `name` an element reads its own alone: the result may be that
    array then.
    """
    if not np.shape(value) or _memory_of(value) != _memory_of(array):
        return
    (low, high), (begin, end) = (_bounds(each) for each in (value, array))
    if not max(low, begin) < min(high, end):
        return
    is_same = value.shape == array.shape and _start(value) == _start(array)
    if is_own and is_same and same_memory_order(array.shape, value.strides, array.strides):
        return
    # The elements of one may lie between those of the other.
    both = _described(value), _described(array)
    if not np.may_share_memory(*both, max_work=_MAX_WORK):  # type: ignore[arg-type]  # any int
        return
    raise ArgumentValueError(
        f"out shares memory with {name}",
        value=name,
        limit=f"Elements of {name} are read for other results than the one in their place",
        remedy="Write to another array, and exchange the two after each step",
    )


def _memory_of(array: Any) -> Any:
    """Return what distinguishes the memory of an array from that of others."""
    is_host = isinstance(array, np.ndarray) or array.device.shares_host_memory
    return "host" if is_host else array.device


def _start(array: Any) -> Any:
    return array.location if isinstance(array, DeviceArray) else array.ctypes.data


def _bounds(array: Any) -> tuple[Any, Any]:
    return byte_bounds(_start(array), array.shape, array.strides, array.dtype.itemsize)


def _described(array: Any) -> Any:
    """Return an array of NumPy with the same addresses; its elements cannot be read."""
    if isinstance(array, np.ndarray):
        return array
    return host_view(array.pointer, array.shape, array.strides, array.dtype, array)


def _result_dtype(value: Any, values: Mapping[str, Any]) -> Any:
    """Return NumPy's dtype for a result."""
    if is_condition(value):
        return np.dtype(bool)
    arrays = [each for each in values.values() if np.shape(each)]
    computed = np.dtype(computing_dtype(values.values(), needs_floats=needs_floats(value)))
    kinds = {ELEMENT_TYPES[dtype_name(each)].kind for each in arrays}
    if computed.kind == "f" and ElementKind.FLOAT not in kinds:
        return computed
    found = np.result_type(*(each.dtype for each in arrays)) if arrays else computed
    return computed if found == np.dtype(bool) else found
