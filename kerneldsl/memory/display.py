"""Device arrays as an interpreter shows them: with their values, as NumPy shows its own.

Of a large array only the elements at the edges are copied. A repr never fails and never disturbs a
capture: where the values cannot be read, it says why.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from kerneldsl.errors import KernelError
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.strided import byte_bounds
from kerneldsl.streams.order import is_capturing

__all__ = ["ShownValues", "format_array", "shown_values"]

#: Most bytes that a view may span to be copied with the gaps between its elements.
_MAX_SPAN_BYTES = 1 << 16
#: Most axes of an array with shown values: at more, the edges alone need thousands of copies.
_MAX_AXES = 5


def format_array(array: ArrayGeometry) -> str:
    """Return the repr of a device array."""
    name = type(array).__name__
    found = shown_values(array, f"{name}(")
    if found.text is not None:
        shape = f", shape={array.shape}" if found.is_summary or not array.size else ""
        return f"{name}({found.text}{shape}, dtype={array.dtype}, device={array.device})"
    strides = "" if array.layout == "C" else f", strides={array.strides}"
    return (
        f"{name}(shape={array.shape}, dtype={array.dtype}{strides}, device={array.device}, "
        f"{found.problem})"
    )


class ShownValues(NamedTuple):
    """The values of an array as a person reads them."""

    #: NumPy's text of them; ``None`` if they cannot be read.
    text: str | None
    #: Whether only the values at the edges are shown.
    is_summary: bool
    #: Reason why there is no text.
    problem: str = ""


def shown_values(array: ArrayGeometry, prefix: str = "") -> ShownValues:
    """Return the values to show of an array, after `prefix` in a line; never raises."""
    problem = _why_unreadable(array)
    if problem is None:
        try:
            values, is_summary = _values_to_show(array)
            with np.printoptions(threshold=0 if is_summary else values.size + 1):
                text = np.array2string(values, separator=", ", prefix=prefix)
            return ShownValues(text, is_summary)
        except Exception as error:  # noqa: BLE001 -- an interpreter shows it while it debugs
            what = error.what if isinstance(error, KernelError) else type(error).__name__
            problem = f"values not shown: {what}"
    return ShownValues(None, False, problem)


def _why_unreadable(array: ArrayGeometry) -> str | None:
    if array.is_closed:
        return "closed"
    device = array.device
    reason = device.unusable_reason()
    if reason is not None:
        return f"values not shown: {reason}"
    if is_capturing(device):
        return "values not shown: a stream of the device is being captured"
    if array.ndim > _MAX_AXES and array.size > int(np.get_printoptions()["threshold"]):
        return f"values not shown: more than {_MAX_AXES} axes"
    return None


def _values_to_show(array: Any) -> tuple[np.ndarray[Any, Any], bool]:
    """Return an array that NumPy shows like this one, and whether edges stand for all of it.

    An axis that is cut has one more element than its two edges; NumPy shows dots in its place.
    """
    options = np.get_printoptions()
    if array.size <= int(options["threshold"]):
        return _read(array), False
    edge = int(options["edgeitems"])
    parts, shape = [], []
    for extent in array.shape:
        if extent <= 2 * edge:
            parts.append([(slice(None), slice(None))])
            shape.append(extent)
        else:
            first, last = slice(0, edge), slice(extent - edge, extent)
            parts.append([(first, first), (last, slice(edge + 1, 2 * edge + 1))])
            shape.append(2 * edge + 1)
    values = np.zeros(shape, array.dtype)
    for chosen in itertools.product(*parts):
        source, target = zip(*chosen, strict=True)
        values[target] = _read(array[source])
    return values, True


def _read(view: Any) -> np.ndarray[Any, Any]:
    """Copy a small view to the host, without what is between its elements if that is much."""
    low, high = byte_bounds(0, view.shape, view.strides, view.itemsize)
    if view.ndim == 0 or high - low <= _MAX_SPAN_BYTES:
        copied: np.ndarray[Any, Any] = view.copy_to_host()
        return copied
    axis = max(range(view.ndim), key=lambda n: abs(view.strides[n]) * (view.shape[n] - 1))
    before: tuple[Any, ...] = (slice(None),) * axis
    values = np.empty(view.shape, view.dtype)
    for i in range(view.shape[axis]):
        values[(*before, i)] = _read(view[(*before, i)])
    return values
