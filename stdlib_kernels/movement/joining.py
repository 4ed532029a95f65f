"""Joining of arrays."""

from __future__ import annotations

from typing import Any

from stdlib_kernels.arrays import allocate, finish, on_device
from stdlib_kernels.checks import Array, check_alike, check_array, check_but_for, check_same_kind
from stdlib_kernels.copying import copy_array
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.parameters import axis_of, common_dtype, wrong_type

__all__ = ["concatenate", "stack"]


@repeated_function
def concatenate(arrays: tuple[Array, ...], axis: int = 0) -> Any:
    """Join arrays along an axis.

    {parameters}
    arrays : tuple of array
        NumPy arrays, device arrays, or arrays of another library, all of one kind. Their shapes are
        equal except for the axis. bool, integer, float or complex.
    {along}
    {returns: array}
        Same kind as the arrays, and NumPy's dtype for all of them.
    {raises and see: numpy.concatenate}
    >>> concatenate((np.array([1, 2]), np.array([3]))).tolist()
    [1, 2, 3]
    """
    first = _checked(arrays)
    at = axis_of(axis, first.ndim)
    for k, each in enumerate(arrays):
        check_but_for(f"arrays[{k}]", each, at, "arrays[0]", first)
    parts = [on_device(each) for each in arrays]
    shape = (*first.shape[:at], sum(each.shape[at] for each in parts), *first.shape[at + 1 :])
    found = allocate(parts[0], shape, common_dtype(*parts))
    begin = 0
    for each in parts:
        end = begin + each.shape[at]
        if each.size:
            copy_array(each, found[(slice(None),) * at + (slice(begin, end),)])
        begin = end
    return finish(found, like=first)


@repeated_function
def stack(arrays: tuple[Array, ...], axis: int = 0) -> Any:
    """Join arrays of one shape along a new axis.

    {parameters}
    arrays : tuple of array
        Arrays as for `concatenate`, all of one shape.
    axis : int
        The new axis of the result.
    {returns: array}
        Same kind as the arrays, and NumPy's dtype for all of them.
    {raises and see: numpy.stack}
    >>> stack((np.array([1, 2]), np.array([3, 4])), 1).tolist()
    [[1, 3], [2, 4]]
    """
    first = _checked(arrays)
    at = axis_of(axis, first.ndim + 1)
    index = (slice(None),) * at + (None,)
    for k, each in enumerate(arrays):
        check_alike(f"arrays[{k}]", each, "arrays[0]", first)
    return concatenate(tuple(each[index] for each in arrays), at)


def _checked(arrays: Any) -> Array:
    """Return the first array; raise an error if the arguments are not arrays of one kind."""
    if not isinstance(arrays, tuple | list) or not arrays:
        raise wrong_type("arrays", arrays, "It is a tuple of arrays")
    first: Array = arrays[0]
    for k, each in enumerate(arrays):
        check_array(f"arrays[{k}]", each, halves=True)
        check_same_kind(f"arrays[{k}]", each, "arrays[0]", first)
    return first
