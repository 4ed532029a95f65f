"""Elements that a reduction leaves out, by a condition of the caller's."""

from __future__ import annotations

from typing import Any

import numpy as np

from stdlib_kernels import elementwise
from stdlib_kernels.checks import Array, check_array, check_same_kind
from stdlib_kernels.elementwise.calls import broadcast_shape
from stdlib_kernels.parameters import wrong_value

__all__ = ["is_masked", "masked"]


def is_masked(where: Any) -> bool:
    """Return whether a condition leaves elements out, perhaps."""
    return where is not True and where is not np.True_


def masked(x: Array, where: Any, fill: Any) -> Array:
    """Return an array with a number in the places that a condition leaves out."""
    if not is_masked(where):
        return x
    if not isinstance(where, bool | np.bool_):
        check_array("where", where, kinds="b")
        check_same_kind("where", where, "x", x)
        if broadcast_shape([x, where]) != tuple(x.shape):
            raise wrong_value(
                "where", where, f"It is broadcast to the shape of x, {tuple(x.shape)}"
            )
    found: Any = elementwise.where(where, x, x.dtype.type(fill))
    return np.asarray(found) if isinstance(found, np.generic) else found
