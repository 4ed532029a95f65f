"""Arrays surrounded by elements, one axis after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.values import safe_repr
from stdlib_kernels.arrays import Array, check_array, finish, on_device
from stdlib_kernels.functions import library_function
from stdlib_kernels.movement.along import around, fresh, moved_along
from stdlib_kernels.parameters import scalar_of

__all__ = ["pad"]


def _within(j: Any, n: Any, shift: Any) -> Any:
    return j - shift if j >= shift and j - shift < n else -1


def _nearest(j: Any, n: Any, shift: Any) -> Any:
    return min(max(j - shift, 0), n - 1)


def _mirrored(j: Any, n: Any, shift: Any) -> Any:
    if n == 1:
        return 0
    k = (j - shift) % (2 * n - 2)
    return k if k < n else 2 * n - 2 - k


def _mirrored_with_edges(j: Any, n: Any, shift: Any) -> Any:
    k = (j - shift) % (2 * n)
    return k if k < n else 2 * n - 1 - k


_MODES = {
    "constant": _within,
    "edge": _nearest,
    "reflect": _mirrored,
    "symmetric": _mirrored_with_edges,
    "wrap": around,
}


@library_function
def pad(
    x: Array,
    pad_width: Any,
    mode: str = "constant",
    *,
    constant_values: Any = 0,
) -> Any:
    """Surround an array with elements.

    {parameters: array}
    pad_width : int, or tuples of ints
        How many before and behind the elements along each axis: ``((before, behind), …)``, one such
        pair for all axes, or one number for all.
    mode : str
        What they are: ``"constant"``; ``"edge"``, the nearest element; ``"reflect"``, those beyond
        the nearest one in reverse; ``"symmetric"``, the nearest one too; ``"wrap"``, those from the
        other end.
    constant_values : number
        The constant.
    {returns: array}
        Of `x`'s kind and dtype.
    {raises and see: numpy.pad}
    {examples}
    >>> pad(np.array([1, 2, 3]), (2, 1), "reflect").tolist()
    [3, 2, 1, 2, 3, 2]
    """
    check_array("x", x, halves=True)
    if not isinstance(mode, str) or mode not in _MODES:
        raise ArgumentValueError(
            f"mode is {safe_repr(mode)}", value=mode, limit=f"It is one of {', '.join(_MODES)}"
        )
    fill = scalar_of("constant_values", constant_values, x.dtype)
    found = on_device(x)
    for axis, (before, behind) in enumerate(_widths(pad_width, x.ndim)):
        n = x.shape[axis]
        if before + behind:
            if not n and mode != "constant":
                raise ArgumentValueError(
                    f"axis {axis} has no elements", value=mode, limit="Only a constant surrounds it"
                )
            found = moved_along(found, axis, before + n + behind, _MODES[mode], before, fill)
    return finish(fresh(found, x), like=x, out=None)


def _widths(given: Any, ndim: int) -> list[tuple[int, int]]:
    try:
        wide = np.broadcast_to(np.asarray(given), (ndim, 2))
    except Exception as error:  # what NumPy, or a foreign object, raises
        raise ArgumentValueError(
            f"pad_width is {safe_repr(given)}",
            value=given,
            limit=f"It is a number, a pair, or {ndim} pairs",
        ) from error
    if wide.dtype.kind not in "iu" or (wide.size and int(wide.min()) < 0):
        raise ArgumentValueError(
            f"pad_width is {safe_repr(given)}", value=given, limit="It has integers, 0 or more"
        )
    return [(int(a), int(b)) for a, b in wide]
