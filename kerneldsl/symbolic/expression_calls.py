"""A call of a kernel of expressions, as of a function of NumPy: shapes, dtypes and results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import sympy

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.language.element_types import ELEMENT_TYPES, ElementKind
from kerneldsl.memory.array_interface import has_protocol
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.creation import as_array, empty
from kerneldsl.memory.strided import byte_bounds, host_view, same_memory_order
from kerneldsl.symbolic.dtypes import computing_dtype, dtype_name
from kerneldsl.symbolic.integers import check_numbers, with_decided_comparisons
from kerneldsl.symbolic.printing import is_condition, needs_floats
from kerneldsl.symbolic.shifts import Access
from kerneldsl.symbolic.systems import System
from kerneldsl.utilities.formatting import format_count

__all__ = ["as_kerneldsl_array", "called", "outputs_of"]

#: Axes of a launch.
_MAX_RANK = 3


def called(kernel: Any, args: Sequence[Any], named: Mapping[str, Any], out: Any) -> Any:
    """Launch an :class:`~kerneldsl.symbolic.expressions.ExpressionKernel` and return results."""
    system = kernel.system
    found = arguments_of(system, kernel.__qualname__, args, named)
    values = {name: _with_axis(value) for name, value in found.items()}
    if system.is_elementwise and _is_point(found.values()):
        # A launch has one axis at least; results are views without it.
        given = tuple(map(_with_axis, out)) if isinstance(out, tuple) else _with_axis(out)
        results = [each.reshape(()) for each in _computed(kernel, values, given)]
    else:
        results = _computed(kernel, values, out)
    return tuple(results) if len(results) > 1 else results[0]


def _is_point(values: Iterable[Any]) -> bool:
    """Return whether all arrays among values have no axes, and there is one."""
    arrays = [each for each in values if not _is_number(each)]
    return bool(arrays) and not any(each.shape for each in arrays)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.generic)


def _with_axis(value: Any) -> Any:
    is_array = isinstance(value, np.ndarray | DeviceArray)
    return value.reshape((1,)) if is_array and not value.shape else value


def _computed(kernel: Any, values: dict[str, Any], out: Any) -> list[Any]:
    """Launch a kernel over the extents of its arguments; return the arrays of the results."""
    system = kernel.system
    shape = extent_of(system, values, out)
    results = outputs_of(system, values, out, shape)
    stored = dict(zip((each.name for each in system.outputs), results, strict=True))
    given = {**values, **{n: a for n, a in stored.items() if n not in values}}
    if system.is_elementwise:
        arrays = [each for each in given.values() if np.shape(each)]
        if all(tuple(each.shape) == shape for each in arrays) and _are_in_c_order(arrays):
            given = {n: a.reshape((-1,)) if np.shape(a) else a for n, a in given.items()}
            shape = (given[system.outputs[0].name].size,)
    read = {name: given[name] for name in system.inputs}
    integers = computing_dtype(read.values(), needs_floats=False)
    check_numbers(system, kernel.__qualname__, integers, given)
    made = kernel.of_form(with_decided_comparisons(fitted(system, read, shape), integers))
    if results[0].size:
        made.forall(*shape)(*(given[name] for name in system.parameters))
    return results


def arguments_of(
    system: System, name: str, args: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arrays and numbers of a call by their names; arrays of others are taken over.

    - raises `ArgumentTypeError` where one is missing, unknown or given twice, or is no array or
      number.
    """
    given = dict(zip(system.inputs, args, strict=False))
    wrong = next((each for each in named if each in given or each not in system.inputs), None)
    missing = next((n for n in system.inputs if n not in given and n not in named), None)
    if len(args) > len(system.inputs) or wrong is not None or missing is not None:
        what = (
            f"{wrong!r} is not a parameter, or is given twice"
            if wrong is not None
            else f"{missing!r} is missing"
            if missing is not None
            else f"the call has {format_count(len(args), 'argument')}"
        )
        raise ArgumentTypeError(
            f"{name}: {what}",
            value=wrong or missing,
            limit=f"It is called as {name}({', '.join((*system.inputs, 'out=None'))})",
        )
    found = {}
    for each, value in {**given, **named}.items():
        if isinstance(value, Real) and not _is_number(value):  # as SymPy's and fractions are
            value = int(value) if isinstance(value, Integral) else float(value)
        is_number = _is_number(value)
        if not is_number:
            value = as_kerneldsl_array(f"{name}: {each}", value)
        if not system.is_elementwise and (each in system.arrays) == is_number:
            raise ArgumentTypeError(
                f"{name}: {each} is {safe_repr(value)}",
                value=value,
                limit=f"{each} is {'an array' if is_number else 'a number'} of the expression",
            )
        found[each] = value
    return found


def fitted(system: System, values: Mapping[str, Any], extent: tuple[int, ...]) -> System:
    """Return the system for the shapes of a call: what is a number, and repeated along an axis."""
    rank = len(extent)
    if rank > _MAX_RANK:
        raise ArgumentValueError(
            f"arrays are broadcast to {extent}",
            value=extent,
            limit=f"Arrays of more than {_MAX_RANK} axes are of one shape and in C order",
            remedy="Copy them by np.ascontiguousarray(…), or reshape them",
        )
    accesses, numbers = {}, dict(system.numbers)
    for symbol, access in system.accesses.items():
        shape, index = np.shape(values[access.array]), access.places
        if system.is_elementwise:
            index = tuple((rank - len(shape) + n, 0) for n in range(len(shape)))
            if not shape:
                numbers[symbol] = access.array
                continue
        accesses[symbol] = Access(
            access.array,
            tuple(
                (None, 0) if axis is not None and not shift and n == 1 != extent[axis] else place
                for place, n in zip(index, shape, strict=True)
                for axis, shift in [place]
            ),
        )
    axes, boundary = system.axes, system.boundary
    if system.is_elementwise:
        axes = tuple(sympy.Symbol(f"i{n}", integer=True) for n in range(rank))
        boundary = ("",) * rank
    made = replace(system, axes=axes, accesses=accesses, numbers=numbers, boundary=boundary)
    return system if made == system else made


def _broadcast(shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError as error:
        text = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ArgumentValueError(
            f"arrays of the shapes {text} cannot be broadcast together",
            value=dict(shapes),
            limit="Extents along an axis, counted from the last one, are equal or 1",
        ) from error


def extent_of(system: System, values: Mapping[str, Any], out: Any) -> tuple[int, ...]:
    """Return the extents of a launch: those of the arrays along each index.

    - raises `ArgumentValueError` where two arrays differ, one has another rank, or none shows an
      extent.
    """
    if system.is_elementwise:
        shape = _broadcast({name: np.shape(value) for name, value in values.items()})
        if shape == ():
            raise ArgumentTypeError(
                f"there is no array among {', '.join(values) or 'no arguments'}",
                limit="At least one argument is an array",
                remedy="Make one with np.asarray([…])",
            )
        return shape
    names = tuple(map(str, system.axes))
    found: list[dict[str, tuple[int, int]]] = [{} for _ in names]
    for access in sorted(set(system.accesses.values()), key=lambda each: each.key):
        shape = tuple(values[access.array].shape)
        if len(shape) != len(access.places):
            raise ArgumentValueError(
                f"{access.array} has the shape {shape}",
                value=shape,
                limit=f"It is read as {access.text(names)}, with "
                f"{format_count(len(access.places), 'index', 'indices')}",
                remedy="Reshape it",
            )
        for (axis, at), n in zip(access.places, shape, strict=True):
            if axis is not None:
                _, known = found[axis].get(access.array, (n, 0))
                found[axis][access.array] = n, known or at
            elif at >= n:
                raise ArgumentValueError(
                    f"{access.text(names)} is read, and {access.array} has the shape {shape}",
                    value=shape,
                    limit=f"The last index along that axis is {n - 1}",
                )
    given = np.shape(out[0] if isinstance(out, tuple) and out else out)
    extents = []
    for axis, arrays in enumerate(found):
        if not arrays and len(given) != len(names):
            raise ArgumentValueError(
                f"no array has an axis of the index {names[axis]}",
                value=names[axis],
                limit="The extents of the results are those of the arrays",
                remedy="Give out, an array of the results' shape",
            )
        # Arrays with reads of neighbours are not repeated, whatever their extents.
        wanted = [n for n, shift in arrays.values() if shift or n != 1]
        extent = wanted[0] if wanted else 1 if arrays else given[axis]
        for name, (n, shift) in arrays.items():
            if n != extent and (n != 1 or shift):
                raise ArgumentValueError(
                    f"{name} has {format_count(n, 'element')} along {names[axis]}, and others have "
                    f"{extent}",
                    value=tuple(values[name].shape),
                    limit="Arrays that are read by one index have the same extent there, or 1 where"
                    " no neighbours are read",
                    remedy="Pass parts of them that are of the same extent",
                )
        extents.append(extent)
    return tuple(extents)


def _are_in_c_order(values: Iterable[Any]) -> bool:
    """Return whether the elements of all arrays follow each other in C order without gaps."""
    return all(
        each.layout == "C" if isinstance(each, DeviceArray) else each.flags.c_contiguous
        for each in values
    )


# -- results --------------------------------------------------------------------------------------


#: Steps in which NumPy looks for an element that two arrays share; after these, they count as
#: sharing one.
_MAX_WORK = 1000


def as_kerneldsl_array(name: str, value: Any) -> Any:
    """Return an array of NumPy or kerneldsl as it is, and one of another library as kerneldsl's.

    - raises `ArgumentTypeError` if it is no array.
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

    - raises `ArgumentTypeError`, `ArgumentValueError` where `out` does not fit.
    """
    given = (
        out if isinstance(out, tuple) else (out,) * (1 if out is not None else len(system.outputs))
    )
    if len(given) != len(system.outputs):
        raise ArgumentValueError(
            f"out has {format_count(len(given), 'array')}",
            value=len(given),
            limit=f"The system has {format_count(len(system.outputs), 'result')}",
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
                    limit=f"The expression reads and stores {output.name}",
                    remedy="Omit out, or give the result another name in the expression",
                )
            array = values[output.name]
        if array is None:
            array = (
                empty(shape, dtype, device=like.device)
                if isinstance(like, DeviceArray)
                else np.empty(shape, dtype)
            )
        array = as_kerneldsl_array("out", array)
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
