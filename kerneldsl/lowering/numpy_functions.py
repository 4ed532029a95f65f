"""Functions of NumPy that Numba does not have for numbers, for every target.

Importing this module registers them with Numba; each is written with functions that Numba has, so
each target compiles them for itself. Calls with arrays are left to Numba.
"""

from __future__ import annotations

import operator
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import lower_builtin, overload

from kerneldsl.lowering.numba_internals.integer_typing import (
    larger_integer,
    mixes_signs,
    smaller_integer,
)

__all__: list[str] = []


def _are_numbers(*kinds: Any) -> bool:
    return all(isinstance(types.unliteral(kind), types.Number | types.Boolean) for kind in kinds)


def _is_none(kind: Any) -> bool:
    return kind is None or isinstance(kind, types.NoneType | types.Omitted)


@overload(np.clip)
def _clip(a: Any, a_min: Any = None, a_max: Any = None) -> Any:
    """Limit a number; ``None`` is no limit, and NaN stays NaN."""
    if not _are_numbers(a, *(limit for limit in (a_min, a_max) if not _is_none(limit))):
        return None
    has_least, has_largest = not _is_none(a_min), not _is_none(a_max)
    given = (a, *(limit for limit in (a_min, a_max) if not _is_none(limit)))
    is_mixed = mixes_signs(given)
    larger, smaller = (larger_integer, smaller_integer) if is_mixed else (np.maximum, np.minimum)

    def clip(a: Any, a_min: Any = None, a_max: Any = None) -> Any:
        return smaller(larger(a, a_min), a_max)

    def clip_below(a: Any, a_min: Any = None, a_max: Any = None) -> Any:
        return larger(a, a_min)

    def clip_above(a: Any, a_min: Any = None, a_max: Any = None) -> Any:
        return smaller(a, a_max)

    def unlimited(a: Any, a_min: Any = None, a_max: Any = None) -> Any:
        return a

    if has_least and has_largest:
        return clip
    return clip_below if has_least else clip_above if has_largest else unlimited


@overload(np.where)
def _where(condition: Any, x: Any, y: Any) -> Any:
    """Choose between two numbers."""
    if not _are_numbers(condition, x, y):
        return None

    def where(condition: Any, x: Any, y: Any) -> Any:
        return x if condition else y

    return where


@overload(np.fix)
def _fix(x: Any) -> Any:
    """Round towards 0."""
    if not _are_numbers(x):
        return None

    def fix(x: Any) -> Any:
        return np.trunc(x)

    return fix


@overload(np.heaviside)
def _heaviside(x1: Any, x2: Any) -> Any:
    """Give 0 of what is negative, 1 of what is positive, `x2` of 0, and NaN of NaN."""
    if not _are_numbers(x1, x2):
        return None

    def heaviside(x1: Any, x2: Any) -> Any:
        if x1 == 0:
            return np.float64(x2)
        if x1 > 0:
            return 1.0
        return 0.0 if x1 < 0 else np.float64(x1)

    return heaviside


@lower_builtin(operator.getitem, types.Array, types.EllipsisType)
def _whole_array(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Give ``x[...]``, the array itself; a program's own functions count one more reference."""
    whole = context.cast(builder, args[0], signature.args[0], signature.return_type)
    if context.enable_nrt:
        context.nrt.incref(builder, signature.return_type, whole)
    return whole


# The bodies of these functions are read like those of device functions: Numba's for devices return
# no new views.
@overload(numba.carray, strict=False, is_read=True)
def _carray(ptr: Any, shape: Any, dtype: Any = None) -> Any:
    """Return the elements at a pointer, which kernels take as an array, with a shape."""
    if not _is_pointer_to(ptr, dtype):
        return None
    if isinstance(shape, types.Integer):
        return lambda ptr, shape, dtype=None: ptr[:shape]
    if len(shape) == 1:
        return lambda ptr, shape, dtype=None: ptr[: shape[0]]

    def carray(ptr: Any, shape: Any, dtype: Any = None) -> Any:
        count = 1
        for each in shape:
            count *= each
        return ptr[:count].reshape(shape)

    return carray


@overload(numba.farray, strict=False, is_read=True)
def _farray(ptr: Any, shape: Any, dtype: Any = None) -> Any:
    """Return them in the order of Fortran: the first axis is the fastest one."""
    if not _is_pointer_to(ptr, dtype):
        return None
    if isinstance(shape, types.Integer):
        return lambda ptr, shape, dtype=None: ptr[:shape]
    return lambda ptr, shape, dtype=None: numba.carray(ptr, shape[::-1]).T


def _is_pointer_to(ptr: Any, dtype: Any) -> bool:
    given = getattr(dtype, "instance_type", getattr(dtype, "dtype", None))
    is_flat = isinstance(ptr, types.Array) and (ptr.ndim, ptr.layout) == (1, "C")
    return is_flat and given in (None, ptr.dtype)
