"""Arguments as the explanation needs them: extents, strides, and the elements if they are known.

What a signature leaves open is assumed, and said.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import as_int, safe_repr
from kerneldsl.explain.lane_memory import ARRAY_GAP
from kerneldsl.explain.subscripts import view_of
from kerneldsl.explain.values import UNKNOWN, Memory, Space, Value, as_dtype
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind, TupleKind
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import format_count

__all__ = ["ASSUMED_EXTENT", "Given", "read_given"]

#: Elements along each axis of an array if only its type is known, and the value of integers.
ASSUMED_EXTENT = 1024
#: Device memory is allocated at multiples of it.
_ALIGNMENT = 256


@dataclass(eq=False)
class Given:
    """Values and arrays that a kernel is given."""

    #: Values of the parameters, one each.
    values: tuple[Value, ...] = ()
    #: Arrays among these values, those in tuples included.
    arrays: list[Memory] = field(default_factory=list)
    #: Assumed values by name: the shape of an array, the value of an integer.
    assumed: dict[str, Any] = field(default_factory=dict)
    #: Extent of the launch; empty for a launch with grid and block.
    extent: tuple[int, ...] = ()

    def assume(self, name: str, ndim: int) -> tuple[int, ...]:
        """Return, and note, the shape that an array is assumed to have."""
        shape = self.extent if len(self.extent) == ndim else (ASSUMED_EXTENT,) * ndim
        self.assumed[name] = shape
        return shape


class _Layout(NamedTuple):
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int = 0


def read_given(
    names: Sequence[str],
    kinds: Sequence[Kind],
    arguments: Sequence[Any] | None,
    written: Collection[int],
    sizes: Mapping[str, Any] | None,
    extent: tuple[int, ...] | None = None,
) -> Given:
    """Read arguments, or what `sizes` says of a signature's.

    - `names`: names of the parameters.
    - `kinds`: kinds of the arguments.
    - `arguments`: the arguments themselves; ``None`` for a signature.
    - `written`: positions of the parameters that the kernel writes.
    - `sizes`: value of an integer or shape of an array, by parameter, for a signature.
    - `extent`: of a launch over one; arrays of its rank, and integers beside one axis, are assumed
      to have it.
    - raises `ArgumentTypeError` if `sizes` is no mapping, or has a value or a shape that is no
      number.
    - raises `ArgumentValueError` if `sizes` names no parameter, has a shape of another rank or a
      value that the parameter's type does not have, or is given together with arguments.
    """
    if sizes is not None and not isinstance(sizes, Mapping):
        raise ArgumentTypeError(
            f"sizes is {safe_repr(sizes)}",
            value=sizes,
            limit="It must be a mapping from names of parameters to numbers and shapes",
            remedy=f"Write sizes={{{names[0]!r}: …}}" if names else None,
        )
    if sizes and arguments is not None:
        raise ArgumentValueError(
            f"sizes {safe_repr(dict(sizes))} is given together with arguments",
            value=sizes,
            limit="Sizes are for a signature; arguments have shapes and values",
            remedy="Leave sizes out, or give a signature instead of the arguments",
        )
    sizes = sizes or {}
    for name in sizes:
        if name not in names:
            raise ArgumentValueError(
                f"sizes has {safe_repr(name)}",
                value=name,
                limit=f"The kernel's parameters are {', '.join(names)}",
            )
    given = Given(extent=extent or ())
    values = []
    for position, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        argument = sizes.get(name) if arguments is None else arguments[position]
        if arguments is None and argument is not None:
            _check_size(name, kind, argument)
        is_written = position in written
        values.append(_read(given, name, kind, argument, is_written=is_written))
    given.values = tuple(values)
    return given


def _check_size(name: str, kind: Kind, size: Any) -> None:
    """Refuse what is neither the value of a number nor the shape of an array."""
    given = f"sizes[{name!r}] is {safe_repr(size)}"
    if isinstance(kind, TupleKind):
        if not isinstance(size, tuple) or len(size) != len(kind.elements):
            limit = f"It must have {format_count(len(kind.elements), 'item')}, None for open ones"
            raise ArgumentTypeError(given, value=size, limit=limit)
        for place, (each, part) in enumerate(zip(kind.elements, size, strict=True)):
            if part is not None:
                _check_size(f"{name}.{place}", each, part)
    elif isinstance(kind, ScalarKind):
        number = as_int(size)
        is_number = isinstance(size, bool | int | float | complex | np.generic)
        if number is None and (kind.element.is_integer or not is_number):
            raise ArgumentTypeError(given, value=size, limit=f"The parameter is {kind}")
        if number is not None and kind.element.is_integer:
            low, high = kind.element.integer_range
            if not low <= number <= high:
                limit = f"{kind} has the values {low} to {high}"
                raise ArgumentValueError(given, value=size, limit=limit)
    else:
        shape = getattr(size, "shape", size)
        extents = [
            as_int(each) for each in (shape if isinstance(shape, tuple | list) else (shape,))
        ]
        limit = f"It must be the shape of {kind}, an int or a tuple of ints that are not negative"
        if None in extents:
            raise ArgumentTypeError(given, value=size, limit=limit)
        if any(each is not None and each < 0 for each in extents):
            raise ArgumentValueError(given, value=size, limit=limit)


def _read(given: Given, name: str, kind: Kind, argument: Any, *, is_written: bool) -> Value:
    if isinstance(kind, TupleKind):
        parts = argument if isinstance(argument, tuple) else (None,) * len(kind.elements)
        labels = kind.names or tuple(map(str, range(len(kind.elements))))
        return tuple(
            _read(given, f"{name}.{label}", each, part, is_written=is_written)
            for label, each, part in zip(labels, kind.elements, parts, strict=True)
        )
    if isinstance(kind, ScalarKind):
        if argument is None and kind.element.is_integer and kind.dtype != "bool":
            (argument,) = given.assume(name, 1)
            given.assumed[name] = argument
        is_number = isinstance(argument, bool | int | float | complex | np.generic)
        return as_dtype(argument, kind) if is_number else UNKNOWN
    return view_of(_array(given, name, kind, argument, is_written=is_written))


def _array(given: Given, name: str, kind: ArrayKind, argument: Any, *, is_written: bool) -> Memory:
    itemsize = kind.element.nbytes
    if argument is None:
        argument = given.assume(name, kind.ndim)
    layout = _layout_of(argument, kind)
    is_known = isinstance(argument, np.ndarray) and not is_written
    memory = Memory(
        name,
        Space.GLOBAL,
        kind.dtype,
        layout.shape,
        layout.strides,
        itemsize,
        base=(len(given.arrays) + 1) * ARRAY_GAP + layout.address % _ALIGNMENT,
        contents=argument if is_known else None,
    )
    given.arrays.append(memory)
    return memory


def _layout_of(argument: Any, kind: ArrayKind) -> _Layout:
    """Return the shape and the strides of an array, or of a shape."""
    itemsize = kind.element.nbytes
    described = getattr(argument, "__cuda_array_interface__", None)
    address = int(described["data"][0]) if described else 0
    if described or isinstance(argument, np.ndarray):
        shape = tuple(map(int, described["shape"] if described else argument.shape))
        strides = described.get("strides") if described else argument.strides
        if strides is not None:
            return _Layout(shape, tuple(map(int, strides)), address)
    else:
        shape = getattr(argument, "shape", argument)
        shape = tuple(map(int, shape)) if isinstance(shape, tuple | list) else (int(shape),)
    if len(shape) != kind.ndim:
        raise ArgumentValueError(
            f"the shape {shape} has {format_count(len(shape), 'axis', 'axes')}",
            value=shape,
            limit=f"The type is {kind}",
        )
    order = shape[::-1] if kind.layout != "F" else shape
    strides = [itemsize * math.prod(order[:axis]) for axis in range(len(order))]
    return _Layout(shape, tuple(strides[::-1] if kind.layout != "F" else strides), address)
