"""Arrays side by side."""

from __future__ import annotations

from typing import Any

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import safe_repr
from stdlib_kernels.arrays import Array, allocate, check_array, check_same_kind, finish, on_device
from stdlib_kernels.elementwise.calls import common_dtype
from stdlib_kernels.functions import library_function
from stdlib_kernels.movement.tiles import copy_array
from stdlib_kernels.parameters import axis_of

__all__ = ["concatenate", "stack"]


@library_function
def concatenate(arrays: tuple[Array, ...], axis: int = 0) -> Any:
    """Join arrays along an axis.

    {parameters}
    arrays : tuple of array
        NumPy's, device arrays, or of another library, all of one kind; of shapes that are the same
        but for the axis. bool, integer, float or complex.
    {along}
    {returns: array}
        Of their kind, and of NumPy's dtype for all of them.
    {raises and see: numpy.concatenate}
    {examples}
    >>> concatenate((np.array([1, 2]), np.array([3]))).tolist()
    [1, 2, 3]
    """
    first = _checked(arrays)
    at = axis_of(axis, first.ndim)
    for each in arrays[1:]:
        rest, wanted = list(each.shape), list(first.shape)
        if each.ndim == first.ndim:
            rest[at] = wanted[at]
        if rest != wanted:
            raise ArgumentValueError(
                f"arrays of shapes {tuple(first.shape)} and {tuple(each.shape)} cannot be joined",
                value=tuple(each.shape),
                limit=f"But for axis {at} they are the same",
            )
    parts = [on_device(each) for each in arrays]
    shape = (*first.shape[:at], sum(each.shape[at] for each in parts), *first.shape[at + 1 :])
    found = allocate(parts[0], shape, common_dtype(*parts))
    begin = 0
    for each in parts:
        end = begin + each.shape[at]
        if each.size:
            copy_array(each, found[(slice(None),) * at + (slice(begin, end),)])
        begin = end
    return finish(found, like=first, out=None)


@library_function
def stack(arrays: tuple[Array, ...], axis: int = 0) -> Any:
    """Join arrays of one shape along a new axis.

    {parameters}
    arrays : tuple of array
        As `concatenate` takes them, all of one shape.
    axis : int
        Which axis of the result is new.
    {returns: array}
        Of their kind, and of NumPy's dtype for all of them.
    {raises and see: numpy.stack}
    {examples}
    >>> stack((np.array([1, 2]), np.array([3, 4])), 1).tolist()
    [[1, 3], [2, 4]]
    """
    first = _checked(arrays)
    at = axis_of(axis, first.ndim + 1)
    index = (slice(None),) * at + (None,)
    if any(tuple(each.shape) != tuple(first.shape) for each in arrays):
        raise ArgumentValueError(
            "arrays of several shapes cannot be stacked",
            value=tuple(tuple(each.shape) for each in arrays),
            limit=f"The first one has the shape {tuple(first.shape)}",
        )
    return concatenate(tuple(each[index] for each in arrays), at)


def _checked(arrays: Any) -> Array:
    """Refuse what are no arrays of one kind, and return the first."""
    if not isinstance(arrays, tuple | list) or not arrays:
        raise ArgumentTypeError(
            f"arrays is {safe_repr(arrays)}", value=arrays, limit="It is a tuple of arrays"
        )
    first: Array = arrays[0]
    for k, each in enumerate(arrays):
        check_array(f"arrays[{k}]", each, halves=True)
        check_same_kind(f"arrays[{k}]", each, "arrays[0]", first)
    return first
