"""Arrays of functions that run over further axes, as NumPy's ufuncs and generalized ufuncs do.

References
----------
NumPy, "Broadcasting"; NumPy, C API, "Generalized universal function API".
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.creation import to_device

__all__ = ["Axes", "broadcast_shapes", "loop_axes", "parse_axes", "spread"]

#: The names of the axes of each array.
Axes: TypeAlias = Sequence[tuple[str, ...]]


def spread(array: Any, shape: tuple[int, ...], stream: Any = None) -> DeviceArray:
    """Return an array of a shape on the device, contiguous in C order; repeated if it is smaller.

    A device array that is so already is returned itself.
    """
    if not isinstance(array, DeviceArray):
        return to_device(np.ascontiguousarray(np.broadcast_to(array, shape)), stream=stream)
    if array.shape == shape and array.layout == "C":
        return array
    return DeviceArray.copy(array.broadcast_to(shape))


def broadcast_shapes(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape to which all are broadcast.

    - raises `ValueError` with the number of the first that cannot be.

    Examples
    --------
    >>> broadcast_shapes([(2, 1), (3,)])
    (2, 3)
    """
    found: tuple[int, ...] = ()
    for number, shape in enumerate(shapes):
        try:
            found = np.broadcast_shapes(found, shape)
        except ValueError:
            raise ValueError(f"failed to broadcast argument #{number}") from None
    return found


def parse_axes(signature: str) -> tuple[Axes, Axes]:
    """Return the axes of the inputs, and those of the outputs.

    Examples
    --------
    >>> parse_axes("(m,n),(n)->(m)")
    ([('m', 'n'), ('n',)], [('m',)])
    """
    sides = signature.replace(" ", "").split("->")
    group = re.compile(r"\(([A-Za-z_0-9,]*)\)")
    if len(sides) != 2 or any(re.sub(group, "", side).strip(",") for side in sides):
        raise ValueError(f"bad token in signature {signature!r}")
    inputs, outputs = (
        [tuple(name for name in each.split(",") if name) for each in group.findall(side)]
        for side in sides
    )
    undefined = {n for each in outputs for n in each} - {n for each in inputs for n in each}
    if undefined:
        raise NameError(f"undefined output symbols: {','.join(sorted(undefined))}")
    return inputs, outputs


def loop_axes(
    shapes: Sequence[tuple[int, ...]], inputs: Axes
) -> tuple[tuple[int, ...], dict[str, int]]:
    """Return the further axes of the inputs, and the extents of the named ones.

    An input has the further axes of the others, or none.

    Examples
    --------
    >>> loop_axes([(5, 2, 3), (3,)], [("m", "n"), ("n",)])
    ((5,), {'m': 2, 'n': 3})
    """
    sizes: dict[str, int] = {}
    outer: list[tuple[int, ...]] = []
    for number, (shape, axes) in enumerate(zip(shapes, inputs, strict=True), 1):
        if len(shape) < len(axes):
            raise ValueError(f"arg #{number}: insufficient inner dimension")
        split = len(shape) - len(axes)
        outer.append(tuple(shape[:split]))
        for axis, (name, extent) in enumerate(zip(axes, shape[split:], strict=True), split):
            if sizes.setdefault(name, extent) != extent:
                raise ValueError(f"arg #{number}: shape[{axis}] mismatch argument")
    largest = max(outer, key=math.prod)  # the first of several
    for number, each in enumerate(outer, 1):
        if each not in (largest, (), (1,)):
            raise ValueError(f"arg #{number}: outer dimension mismatch")
    return largest, sizes
