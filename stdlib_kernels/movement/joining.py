"""Joining of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kerneldsl.errors import ArgumentTypeError
from stdlib_kernels.arrays import contiguous_1d, destination, finish, on_device
from stdlib_kernels.checks import (
    Array,
    Out,
    check_alike,
    check_array,
    check_other_axes,
    check_out,
    check_same_kind,
)
from stdlib_kernels.copying import copy_array
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.parameters import (
    axis_of,
    check_conversion,
    choice_of,
    common_dtype,
    dtype_of,
    wrong_type,
    wrong_value,
)

__all__ = ["concatenate", "stack"]


#: Conversions that NumPy allows, each all of the ones before, too.
_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


@repeated_function
def concatenate(
    arrays: tuple[Array, ...],
    axis: int | None = 0,
    out: Out = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Any:
    """Join arrays along an axis.

    Parameters
    ----------
    arrays : tuple of array
        NumPy arrays, device arrays, or arrays of another library, all of one kind. Their shapes are
        equal except for the axis. bool, integer, float or complex.
    axis : int, optional
        The axis along which arrays are joined; with ``None`` each is flattened in C order.
    out : array, optional
        Array for the result, with its shape and the kind of the arrays. Elements are converted to
        its dtype.
    dtype : dtype, optional
        The dtype of the result; not with `out`.
    casting : str
        The allowed conversions, as in NumPy: ``"no"``, ``"equiv"``, ``"safe"``, ``"same_kind"`` or
        ``"unsafe"``.

    Returns
    -------
    array
        Same kind as the arrays, and NumPy's dtype for all of them, or `dtype`; `out` if it is
        given.

    See Also
    --------
    numpy.concatenate

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.movement import concatenate
    >>> concatenate((np.array([1, 2]), np.array([3]))).tolist()
    [1, 2, 3]
    >>> concatenate((np.array([[1, 2]]), np.array([3])), None, dtype=np.float32).tolist()
    [1.0, 2.0, 3.0]
    """
    first = _checked(arrays)
    if axis is None:
        return _joined([contiguous_1d(each) for each in arrays], 0, first, out, dtype, casting)
    return _joined(arrays, axis_of(axis, first.ndim), first, out, dtype, casting)


@repeated_function
def stack(
    arrays: tuple[Array, ...],
    axis: int = 0,
    out: Out = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Any:
    """Join arrays of one shape along a new axis.

    Parameters
    ----------
    arrays : tuple of array
        Arrays as for `concatenate`, all of one shape.
    axis : int
        The new axis of the result.
    out : array, optional
        Array for the result, with its shape and the kind of the arrays. Elements are converted to
        its dtype.
    dtype : dtype, optional
        The dtype of the result; not with `out`.
    casting : str
        The allowed conversions, as in NumPy: ``"no"``, ``"equiv"``, ``"safe"``, ``"same_kind"`` or
        ``"unsafe"``.

    Returns
    -------
    array
        Same kind as the arrays, and NumPy's dtype for all of them, or `dtype`; `out` if it is
        given.

    See Also
    --------
    numpy.stack

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.movement import stack
    >>> stack((np.array([1, 2]), np.array([3, 4])), 1).tolist()
    [[1, 3], [2, 4]]
    """
    first = _checked(arrays)
    at = axis_of(axis, first.ndim + 1)
    index = (slice(None),) * at + (None,)
    for k, each in enumerate(arrays):
        check_alike(f"arrays[{k}]", each, "arrays[0]", first)
    return _joined([each[index] for each in arrays], at, first, out, dtype, casting)


def _joined(
    arrays: Sequence[Array], axis: int, like: Array, out: Out, dtype: Any, casting: str
) -> Any:
    """Join arrays along an axis; `like` is of their kind, and errors name them by their places."""
    first = arrays[0]
    for k, each in enumerate(arrays):
        check_other_axes(f"arrays[{k}]", each, axis, "arrays[0]", first)
    extents = (sum(each.shape[axis] for each in arrays),)
    shape = (*first.shape[:axis], *extents, *first.shape[axis + 1 :])
    result = _result_dtype(arrays, shape, out, dtype, casting)
    parts = [on_device(each) for each in arrays]
    found = destination(parts[0], shape, result, out, *parts)
    begin = 0
    for each in parts:
        end = begin + each.shape[axis]
        if each.size:
            copy_array(each, found[(slice(None),) * axis + (slice(begin, end),)])
        begin = end
    return finish(found, like=like, out=out)


def _result_dtype(
    arrays: Sequence[Array], shape: tuple[int, ...], out: Out, dtype: Any, casting: Any
) -> np.dtype[Any]:
    """Return the dtype of joined arrays; refuse conversions to it that are not wanted."""
    choice_of("casting", casting, _CASTINGS)
    if out is not None:
        check_array("out", out, halves=True)
        if dtype is not None:
            limit = "The result has the dtype of out"
            raise wrong_value("dtype", dtype, limit, "Omit it", ArgumentTypeError)
        check_out(out, like=arrays[0], shape=shape, dtype=out.dtype)
        dtype = out.dtype
    common = common_dtype(*arrays)
    result = dtype_of(dtype, None) if dtype is not None else common
    for k, each in enumerate(arrays):
        check_conversion(each.dtype, result)
        if not np.can_cast(each.dtype, result, casting):
            raise ArgumentTypeError(
                f"arrays[{k}] has the dtype {each.dtype}, and the result {result}",
                value=each.dtype,
                limit=f"casting={casting!r} does not convert the one to the other",
                remedy="Say casting='unsafe', or convert the array",
            )
    return result


def _checked(arrays: Any) -> Array:
    """Return the first array; raise an error if the arguments are not arrays of one kind."""
    if not isinstance(arrays, tuple | list) or not arrays:
        limit = "It must be a tuple of one array or more"
        raise wrong_type(
            "arrays",
            arrays,
            limit,
            "For the parts of an array x, pass [x[i] for i in range(len(x))]",
        )
    first: Array = arrays[0]
    for k, each in enumerate(arrays):
        check_array(f"arrays[{k}]", each, halves=True)
        check_same_kind(f"arrays[{k}]", each, "arrays[0]", first)
    return first
