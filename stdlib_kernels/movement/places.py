"""Indices as NumPy's functions take them: what those mean that are out of range.

=============  =========================================================
mode           an index that is out of range
=============  =========================================================
``"raise"``    is refused; the host waits for the device to say so
``"wrap"``     counts from the other end again, as often as needed
``"clip"``     is the first or the last one; none counts from the end
=============  =========================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.values import safe_repr
from stdlib_kernels.arrays import Array, allocate, check_array, check_same_kind

__all__ = ["check_places", "check_range", "place_function"]


@kd.kernel(wraparound=False)
def find_wrong(places, n, found):
    """Mark in ``found[1]`` that a place of ``places[m]`` is not one of `n`."""
    i = kd.grid(1)
    if i < places.size and (places[i] < -n or places[i] >= n):
        kd.atomic.max(found, 0, 1)


def _raised(k: Any, n: Any) -> Any:
    k = np.int64(k)
    return k + n if k < 0 else k


def _wrapped(k: Any, n: Any) -> Any:
    k = np.int64(k)
    return k if k >= 0 and k < n else k % n  # a division only where there is one to do


def _clipped(k: Any, n: Any) -> Any:
    return min(max(np.int64(k), 0), n - 1)


_FUNCTIONS = {"raise": _raised, "wrap": _wrapped, "clip": _clipped}


def place_function(mode: Any) -> Any:
    """Return what gives the place of an index: a function of kernels."""
    if isinstance(mode, str) and mode in _FUNCTIONS:
        return _FUNCTIONS[mode]
    raise ArgumentValueError(
        f"mode is {safe_repr(mode)}", value=mode, limit="It is 'raise', 'wrap' or 'clip'"
    )


def check_places(name: str, places: Array, like: Array) -> None:
    """Refuse what are no indices, or of another kind than the array."""
    integers = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
    check_array(name, places, dtypes=integers[:-1])
    check_same_kind(name, places, "x", like)


def check_range(name: str, flat: Array, n: int, mode: str) -> None:
    """Refuse indices that are out of range, where that is asked for; `flat` is on a device.

    Where it is not, every index of an axis with elements does, and the host waits for nothing.
    """
    if not flat.size:
        return
    is_wrong = not n
    if mode == "raise" and n:
        found = allocate(flat, (1,), np.dtype(np.int32), zero=True)
        find_wrong.forall(flat.size)(flat, n, found)
        is_wrong = bool(found[0])
    if is_wrong:
        raise ArgumentValueError(
            f"{name} has an index that is out of range",
            value=flat,
            limit=f"The axis has {n} elements",
            remedy="Say mode='wrap' or mode='clip', if that is meant",
        )
