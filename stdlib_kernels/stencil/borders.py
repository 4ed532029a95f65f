"""Borders, values for each axis, and weights, which filters have in common."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch_over
from stdlib_kernels.arrays import allocate
from stdlib_kernels.checks import Array
from stdlib_kernels.parameters import choice_of, number_of, wrong_value

__all__ = ["CONSTANT", "Border", "border_of", "offset_of", "padded", "per_axis", "place"]

#: Largest extent of a box along an axis.
MAX_SIZE = (1 << 31) - 1

#: Numbers of the modes in `place`; that of `cval`.
CONSTANT = 4
_MODES = {
    "reflect": 0,
    "grid-mirror": 0,
    "mirror": 1,
    "nearest": 2,
    "wrap": 3,
    "grid-wrap": 3,
    "constant": CONSTANT,
    "grid-constant": CONSTANT,
}


def place(mode: Any, i: Any, n: Any) -> Any:
    """Return the index that stands for one beyond 0 to n - 1, or -1.

    Divisions are left to what is further away than an array is long.
    """
    if i >= 0 and i < n:
        return i
    if mode == 0:  # d c b a | a b c d | d c b a
        k = -1 - i if i < 0 else i
        k = k if k < 2 * n else k % (2 * n)
        return min(k, 2 * n - 1 - k)
    if mode == 1:  # d c b | a b c d | c b a
        period = max(2 * n - 2, 1)
        k = -i if i < 0 else i
        k = k if k < period else k % period
        return min(k, period - k)
    if mode == 2:
        return min(max(i, 0), n - 1)
    if mode == 3:
        k = i + n if i < 0 else i - n
        return k if k >= 0 and k < n else k % n
    return -1


class Border(NamedTuple):
    """Describe how an array goes on: the number of a mode, and what is nowhere."""

    mode: int
    fill: float


def border_of(mode: Any, cval: Any) -> Border:
    """Return the border of a mode of ``scipy.ndimage``."""
    return Border(_MODES[choice_of("mode", mode, _MODES)], number_of("cval", cval))


def offset_of(count: int, origin: int) -> int:
    """Return where the first of some weights is, beside the element itself."""
    if not 0 <= count // 2 + origin < count:
        ends = f"{-(count // 2)} to {count - 1 - count // 2}"
        raise wrong_value("origin", origin, f"Of {count} weights along the axis it is from {ends}")
    return -(count // 2) - origin


@kd.kernel(wraparound=False)
def pad_box(x, out, before, mode, fill, *, number):
    """Copy with a border of any widths: ``x[a, b, c], out[a', b', c'], before[3]``."""
    i, j, k = kd.grid(3)
    a = place(mode, i + before[0], x.shape[0])
    b = place(mode, j + before[1], x.shape[1])
    c = place(mode, k + before[2], x.shape[2])
    if a >= 0 and b >= 0 and c >= 0:
        out[i, j, k] = number(x[a, b, c])
    else:
        out[i, j, k] = fill


def padded(
    x: Array, dtype: np.dtype[Any], border: Border, before: Any, box: tuple[int, ...]
) -> Array:
    """Return a copy of three axes with what a box reaches; `before` is its first element."""
    extents = tuple(n + m - 1 for n, m in zip(x.shape, box, strict=True))
    result = allocate(x, extents, dtype)
    offsets = tuple(int(n) for n in before)
    fill = dtype.type(border.fill)
    launch_over(pad_box, extents, x, result, offsets, border.mode, fill, number=dtype.type)
    return result


def per_axis(name: str, value: Any, ndim: int, read: Any, *limits: int) -> tuple[Any, ...]:
    """Return one value for each axis, of one for all or a sequence, as `read` reads each."""
    found = tuple(value) if isinstance(value, tuple | list) else (value,) * ndim
    if len(found) != ndim:
        limit = f"It has {len(found)} values: one is for all axes, or {ndim} are for each"
        raise wrong_value(name, value, limit)
    return tuple(read(name, each, *limits) for each in found)
