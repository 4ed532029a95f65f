"""Arrays of another shape, in another order, or joined."""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.errors import ArgumentValueError
from stdlib_kernels.arrays import contiguous
from stdlib_kernels.checks import Array, Ints, check_array
from stdlib_kernels.elementwise.calls import broadcast_shape
from stdlib_kernels.functions import library_function
from stdlib_kernels.movement import concatenate, flip, repeat, roll, stack, tile
from stdlib_kernels.parameters import axis_of, each_axis_of, integer_of, wrong_value

__all__ = [
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]


@library_function
def broadcast_to(x: Array, /, shape: tuple[int, ...]) -> Any:
    """Repeat an array along axes of extent 1, as a read-only view.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    shape : tuple of int
        The extents.

    Returns
    -------
    array
        Same kind and dtype as `x`.

    See Also
    --------
    numpy.broadcast_to

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import broadcast_to
    >>> broadcast_to(np.array([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    check_array("x", x, halves=True)
    return np.broadcast_to(x, shape) if isinstance(x, np.ndarray) else x.broadcast_to(shape)


@library_function
def broadcast_arrays(*arrays: Array) -> list[Any]:
    """Broadcast arrays against each other, as read-only views.

    Parameters
    ----------
    *arrays : array
        Arrays of one kind.

    Returns
    -------
    list of array
        Views of one shape.

    See Also
    --------
    numpy.broadcast_arrays

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import broadcast_arrays
    >>> [each.shape for each in broadcast_arrays(np.zeros((2, 1)), np.zeros(3))]
    [(2, 3), (2, 3)]
    """
    for n, each in enumerate(arrays):
        check_array(f"arrays[{n}]", each, halves=True)
    shape = broadcast_shape(arrays)
    return [broadcast_to(each, shape) for each in arrays]


@library_function
def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """Join arrays along an axis.

    Parameters
    ----------
    arrays : tuple of array
        Arrays of one kind. Their shapes are equal except for the axis.
    axis : int, optional
        The axis to join along; with ``None`` the arrays are flattened in C order.

    Returns
    -------
    array
        Same kind as the arrays, and NumPy's dtype for all of them.

    See Also
    --------
    numpy.concat

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import concat
    >>> concat((np.array([1, 2]), np.array([3]))).tolist()
    [1, 2, 3]
    """
    if axis is None:
        return concatenate(tuple(reshape(each, (-1,)) for each in arrays))
    return concatenate(tuple(arrays), axis)


@library_function
def expand_dims(x: Array, /, axis: Ints = 0) -> Any:
    """Insert axes of extent 1, as a view.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int or tuple of int
        The new axes of the result.

    Returns
    -------
    array
        Same kind and dtype as `x`.

    See Also
    --------
    numpy.expand_dims

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import expand_dims
    >>> expand_dims(np.zeros((2, 3)), axis=1).shape
    (2, 1, 3)
    """
    check_array("x", x, halves=True)
    ndim = x.ndim + (len(axis) if isinstance(axis, tuple) else 1)
    new = each_axis_of(axis, ndim)
    if len(set(new)) < len(new):
        raise wrong_value("axis", axis, "An axis is named twice", "Name each axis once")
    return x[tuple(None if n in new else slice(None) for n in range(ndim))]


@library_function
def squeeze(x: Array, /, axis: Ints) -> Any:
    """Remove axes of extent 1, as a view.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int or tuple of int
        The axes to remove.

    Returns
    -------
    array
        Same kind and dtype as `x`.

    See Also
    --------
    numpy.squeeze

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import squeeze
    >>> squeeze(np.zeros((2, 1, 3)), 1).shape
    (2, 3)
    """
    check_array("x", x, halves=True)
    gone = each_axis_of(axis, x.ndim)
    if any(x.shape[n] != 1 for n in gone):
        raise ArgumentValueError(
            f"axis {axis} of an array of shape {x.shape} cannot be left out",
            value=axis,
            limit="Axes that are left out have an extent of 1",
        )
    return x[(*(0 if n in gone else slice(None) for n in range(x.ndim)), ...)]


@library_function
def moveaxis(x: Array, source: Ints, destination: Ints, /) -> Any:
    """Move axes to other positions, as a view.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    source, destination : int or tuple of int
        The axes, and for each its position in the result.

    Returns
    -------
    array
        Same kind and dtype as `x`.

    See Also
    --------
    numpy.moveaxis

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import moveaxis
    >>> moveaxis(np.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    check_array("x", x, halves=True)
    left, right = each_axis_of(source, x.ndim), each_axis_of(destination, x.ndim)
    if not len(left) == len(right) == len(set(left)) == len(set(right)):
        raise wrong_value("destination", destination, "It names a place for each axis of source")
    order = [n for n in range(x.ndim) if n not in left]
    for place, axis in sorted(zip(right, left, strict=True)):
        order.insert(place, axis)
    return x.transpose(tuple(order))


@library_function
def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Any:
    """Reorder the axes, as a view.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axes : tuple of int
        For each axis of the result, the axis of `x`.

    Returns
    -------
    array
        Same kind and dtype as `x`.

    See Also
    --------
    numpy.permute_dims

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import permute_dims
    >>> permute_dims(np.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    check_array("x", x, halves=True)
    order = each_axis_of(axes, x.ndim)
    if sorted(order) != list(range(x.ndim)):
        raise wrong_value("axes", axes, f"Each of the {x.ndim} axes is named once")
    return x.transpose(order)


@library_function
def reshape(x: Array, /, shape: Any, *, copy: bool | None = None) -> Any:
    """Give an array another shape; the elements keep their order in C order.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    shape : tuple of int
        The extents; one may be -1.
    copy : bool, optional
        Whether to copy; by default only if needed. ``False`` raises an error if it is needed.

    Returns
    -------
    array
        Same kind and dtype as `x`.

    See Also
    --------
    numpy.reshape

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import reshape
    >>> reshape(np.arange(6), (2, -1)).shape
    (2, 3)
    """
    check_array("x", x, halves=True)
    extents = shape if isinstance(shape, tuple | list) else (shape,)
    wanted: tuple[int, ...] = tuple(integer_of("shape", n, -1) for n in extents)
    source = contiguous(x)
    if source is not x and copy is False and x.size:
        raise ArgumentValueError(
            f"an array of strides {x.strides} cannot be reshaped without a copy",
            value=copy,
            limit="copy=False was given",
            remedy="Omit copy",
        )
    if copy and source is x:
        source = x.copy("K")
    if -1 in wanted and not x.size and 0 not in wanted:
        wanted = tuple(max(n, 0) for n in wanted)
    if isinstance(source, np.ndarray):
        try:
            return source.reshape(wanted)
        except ValueError as error:
            raise wrong_value("shape", shape, f"NumPy says: {error}") from error
    return source.reshape(wanted)


@library_function
def unstack(x: Array, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Return the slices along an axis, as views.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int
        The axis of the slices.

    Returns
    -------
    tuple of array
        Same kind and dtype as `x`, without the axis.

    See Also
    --------
    numpy.unstack

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import unstack
    >>> [each.tolist() for each in unstack(np.array([[1, 2], [3, 4]]), axis=1)]
    [[1, 3], [2, 4]]
    """
    check_array("x", x, halves=True)
    before: Any = (slice(None),) * axis_of(axis, x.ndim)
    return tuple(x[(*before, n, ...)] for n in range(x.shape[len(before)]))
