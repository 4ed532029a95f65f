"""Creation of arrays: of one value, of numbers at equal distances, from other arrays."""

from __future__ import annotations

import copy as copying
import math
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentError, ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import a_type
from kerneldsl.repeating.calls import launch_over
from kerneldsl.utilities.tracebacks import shorten_errors
from stdlib_kernels.arrays import contiguous
from stdlib_kernels.checks import check_array
from stdlib_kernels.parameters import dtype_of, integer_of, wrong_value

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


@kd.kernel(wraparound=False)
def fill_range(out, start, step, stop, last, *, number, convert):
    """Fill ``out[n]`` with numbers at equal distances; the element `last` is `stop`."""
    i = kd.grid(1)
    out[i] = convert(stop if i == last else start + number(i) * step)


@kd.kernel(wraparound=False)
def fill_diagonal(out, k, *, convert):
    """Fill ``out[m, n]`` with ones on a diagonal, and zeros."""
    i, j = kd.grid(2)
    out[i, j] = convert(1 if j - i == k else 0)


@kd.kernel(wraparound=False)
def cut_triangle(x, out, k, *, is_upper):
    """Copy ``x[a, m, n]`` on one side of a diagonal, and zeros on the other."""
    a, i, j = kd.grid(3)
    if j - i >= k if is_upper else j - i <= k:
        out[a, i, j] = x[a, i, j]
    else:
        out[a, i, j] = 0


def _documented(function: Any) -> Any:
    """Insert the shared texts into docstrings of functions that make arrays; shorten errors."""
    for word, text in _WORDS.items():
        function.__doc__ = function.__doc__.replace(f"    {{{word}}}", text)
    return shorten_errors(function)


_WORDS = {
    "where": """    dtype : dtype, optional
        Dtype of the elements; by default float64, unless a parameter's description names another.
    device : str or Device, optional
        Device of the array; by default the current one (:class:`kerneldsl.use`).""",
    "like": """    x : array
        Array with the shape of the result, and by default its dtype and device.
    dtype : dtype, optional
        Dtype of the elements.
    device : str or Device, optional
        Device of the result.""",
    "returns": """    Returns
    -------
    DeviceArray
        A new array.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If an argument does not fit.

    Examples
    --------
    >>> from stdlib_kernels import array_api as xp""",
}


@_documented
def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> kd.DeviceArray:
    """Make an array of zeros.

    Parameters
    ----------
    shape : int or tuple of int
        Extents.
    {where}

    {returns}
    >>> xp.zeros(2).tolist()
    [0.0, 0.0]
    """
    return kd.zeros(shape, np.float64 if dtype is None else dtype, device=device)


@_documented
def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> kd.DeviceArray:
    """Make an array of ones.

    Parameters
    ----------
    shape : int or tuple of int
        Extents.
    {where}

    {returns}
    >>> xp.ones(2, dtype=xp.int32).tolist()
    [1, 1]
    """
    return kd.ones(shape, np.float64 if dtype is None else dtype, device=device)


@_documented
def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> kd.DeviceArray:
    """Make an array with undefined elements.

    Parameters
    ----------
    shape : int or tuple of int
        Extents.
    {where}

    {returns}
    >>> xp.empty((2, 3)).shape
    (2, 3)
    """
    return kd.empty(shape, np.float64 if dtype is None else dtype, device=device)


@_documented
def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> kd.DeviceArray:
    """Make an array of one value.

    Parameters
    ----------
    shape : int or tuple of int
        Extents.
    fill_value : number
        The value. By default the dtype is NumPy's for it.
    {where}

    {returns}
    >>> xp.full(2, 7).tolist()
    [7, 7]
    """
    return kd.full(shape, fill_value, dtype, device=device)


@_documented
def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> kd.DeviceArray:
    """Make an array of zeros, of another array's shape.

    Parameters
    ----------
    {like}

    {returns}
    >>> xp.zeros_like(xp.ones(2)).tolist()
    [0.0, 0.0]
    """
    return kd.zeros_like(x, dtype, device=device)


@_documented
def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> kd.DeviceArray:
    """Make an array of ones, of another array's shape.

    Parameters
    ----------
    {like}

    {returns}
    >>> xp.ones_like(xp.zeros(2)).tolist()
    [1.0, 1.0]
    """
    return kd.ones_like(x, dtype, device=device)


@_documented
def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> kd.DeviceArray:
    """Make an array of another array's shape, with undefined elements.

    Parameters
    ----------
    {like}

    {returns}
    >>> xp.empty_like(xp.zeros(2)).shape
    (2,)
    """
    return kd.empty_like(x, dtype, device=device)


@_documented
def full_like(
    x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None
) -> kd.DeviceArray:
    """Make an array of one value, of another array's shape.

    Parameters
    ----------
    {like}
    fill_value : number
        The value.

    {returns}
    >>> xp.full_like(xp.zeros(2), 7).tolist()
    [7.0, 7.0]
    """
    return kd.full_like(x, fill_value, dtype, device=device)


@_documented
def asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None
) -> kd.DeviceArray:
    """Make a device array of numbers, or of another array.

    Parameters
    ----------
    obj : array, number, or nested sequences of numbers
        A device array is returned as it is. An array of another library is imported by DLPack or
        ``__cuda_array_interface__``. Objects that NumPy converts to an array are copied to the
        device.
    dtype : dtype, optional
        Dtype of the elements; by default that of the array, or NumPy's for numbers.
    device : str or Device, optional
        Device of the result; by default that of `obj`, and for objects on the host the current one.
    copy : bool, optional
        Whether to copy; by default only if needed. ``False`` raises an error if it is needed.

    {returns}
    >>> xp.asarray([1, 2]).tolist()
    [1, 2]
    """
    if isinstance(obj, kd.DeviceArray) or _is_shared(obj):
        array = obj if isinstance(obj, kd.DeviceArray) else kd.as_array(obj)
        wanted = array.dtype if dtype is None else np.dtype(dtype)
        found = array if wanted == array.dtype else array.astype(wanted)
        found = found if device is None else found.to_device(device)
        if found is array and copy:
            return copying.copy(found)
        if found is not array and copy is False:
            raise _needs_copy()
        return found
    if copy is False:
        raise _needs_copy()
    try:
        numbers = np.asarray(obj, dtype)
    except ArgumentError:
        raise
    except Exception as error:
        raise ArgumentTypeError(
            f"{a_type(obj)} cannot be made an array",
            value=obj,
            limit=f"NumPy says: {type(error).__name__}: {error}",
            remedy="Pass a number, numbers in lists of equal lengths, or an array",
        ) from error
    return kd.to_device(numbers, device=device)


def _is_shared(obj: Any) -> bool:
    """Return whether an object is an array of another library than NumPy that shares its memory."""
    if isinstance(obj, np.ndarray | np.generic):
        return False
    return any(hasattr(type(obj), n) for n in ("__cuda_array_interface__", "__dlpack__"))


def _needs_copy() -> ArgumentValueError:
    return ArgumentValueError(
        "the elements cannot be used where they are",
        value=False,
        limit="copy=False was given",
        remedy="Omit copy",
    )


@_documented
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> kd.DeviceArray:
    """Import an array of another library by DLPack.

    Parameters
    ----------
    x : object
        An object with ``__dlpack__`` and ``__dlpack_device__``.
    device : str or Device, optional
        Device of the result; by default that of `x`.
    copy : bool, optional
        Whether to copy; by default only if needed.

    {returns}
    >>> import numpy as np
    >>> xp.from_dlpack(np.arange(3)).tolist()
    [0, 1, 2]
    """
    array = kd.from_dlpack(x)
    found = array if device is None else array.to_device(device)
    if found is array:
        return copying.copy(found) if copy else found
    if copy is False:
        raise _needs_copy()
    return found


@_documented
def arange(
    start: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
) -> kd.DeviceArray:
    """Make an array of numbers with a given distance, from a first number to a limit.

    Parameters
    ----------
    start : number
        The first number. Without `stop`, the limit, and the first number is 0.
    stop : number, optional
        The limit, which is not included.
    step : number
        The distance.
    dtype : dtype, optional
        Dtype of the elements; by default int64 for ints, and float64 if one of them is a float.
        Floats are computed as float64 and rounded once.
    device : str or Device, optional
        Device of the array; by default the current one.

    {returns}
    >>> xp.arange(1, 6, 2).tolist()
    [1, 3, 5]
    """
    first, end = (0, start) if stop is None else (start, stop)
    given = [_real(name, each) for name, each in (("start", first), ("stop", end), ("step", step))]
    is_integer = all(isinstance(each, int) for each in given)
    wanted = dtype_of(
        dtype, None if dtype is not None else (np.int64 if is_integer else np.float64)
    )
    first, end, step = given
    if step == 0:
        raise wrong_value("step", step, "It is not 0")
    count = len(range(first, end, step)) if is_integer else _count(first, end, step)
    number: np.dtype[Any] = np.dtype(np.float64)
    if is_integer and wanted.kind in "iu":
        number = np.dtype(np.uint64 if wanted.kind == "u" else np.int64)
    else:
        step = (first + step) - first
    made = kd.empty(count, wanted, device=device)
    if count:
        if number.kind != "f":
            ends = np.iinfo(wanted)
            for name, each in (("start", first), ("stop", first + (count - 1) * step)):
                if not ends.min <= each <= ends.max:
                    raise wrong_value(
                        name, each, f"{wanted} has numbers from {ends.min} to {ends.max}"
                    )
        kind = number.type
        begin, distance = (kind(n % 2**64 if kind is np.uint64 else n) for n in (first, step))
        _fill(made, begin, distance, kind(0), -1, kind)
    return made


def _real(name: str, value: Any) -> Any:
    """Return a real number as Python's int or float."""
    if isinstance(value, bool | int | np.integer | np.bool_):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value)
    raise ArgumentTypeError(f"{name} is {a_type(value)}", value=value, limit="It is a real number")


def _count(start: float, stop: float, step: float) -> int:
    length = (stop - start) / step
    if not math.isfinite(length):
        raise wrong_value("stop", stop, "There are finitely many numbers up to it")
    return max(0, math.ceil(length))


def _fill(made: kd.DeviceArray, start: Any, step: Any, stop: Any, last: int, number: Any) -> None:
    constants = {"number": number, "convert": made.dtype.type}
    launch_over(fill_range, made.shape, made, start, step, stop, last, **constants)


@_documented
def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> kd.DeviceArray:
    """Make an array of a given number of elements at equal distances.

    Parameters
    ----------
    start, stop : number
        The first element, and the end.
    num : int
        The number of elements.
    dtype : dtype, optional
        Dtype of the elements; by default float64, or complex128 if one of them is complex.
    device : str or Device, optional
        Device of the array; by default the current one.
    endpoint : bool
        Whether `stop` is the last element.

    {returns}
    >>> xp.linspace(0, 1, 3).tolist()
    [0.0, 0.5, 1.0]
    """
    count = integer_of("num", num, 0)
    is_complex = any(isinstance(each, complex | np.complexfloating) for each in (start, stop))
    number = np.dtype(np.complex128 if is_complex else np.float64)
    wanted = dtype_of(dtype, number)
    made = kd.empty(count, wanted, device=device)
    first, end = (number.type(each) for each in (start, stop))
    parts = max(count - 1 if endpoint else count, 1)
    if count:
        last = count - 1 if endpoint and count > 1 else -1
        _fill(made, first, number.type((end - first) / parts), end, last, number.type)
    return made


@_documented
def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
) -> kd.DeviceArray:
    """Make a matrix with ones on a diagonal and zeros elsewhere.

    Parameters
    ----------
    n_rows, n_cols : int
        Numbers of rows and columns; by default equal.
    k : int
        The diagonal: 0 is the main one, 1 the one above.
    {where}

    {returns}
    >>> xp.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    shape = (
        integer_of("n_rows", n_rows, 0),
        integer_of("n_cols", n_rows if n_cols is None else n_cols, 0),
    )
    made = kd.empty(shape, np.float64 if dtype is None else dtype, device=device)
    # All diagonals beyond the matrix have the same effect.
    diagonal = min(max(integer_of("k", k), -shape[0]), shape[1])
    if made.size:
        launch_over(fill_diagonal, shape, made, diagonal, convert=made.dtype.type)
    return made


def _triangle(x: Any, k: int, is_upper: bool) -> kd.DeviceArray:
    check_array("x", x, halves=True)
    if x.ndim < 2:
        raise ArgumentValueError(
            f"an array of shape {x.shape} has no matrices", value=x.shape, remedy="Add axes"
        )
    array = contiguous(asarray(x))
    made = kd.empty(array.shape, array.dtype, device=array.device)
    rows, columns = array.shape[-2:]
    if array.size:
        flat = [each.reshape((-1, rows, columns)) for each in (array, made)]
        diagonal = min(max(integer_of("k", k), -rows - columns), rows + columns)
        launch_over(cut_triangle, flat[0].shape, *flat, diagonal, is_upper=is_upper)
    return made


@_documented
def tril(x: Any, /, *, k: int = 0) -> kd.DeviceArray:
    """Copy the lower triangle of a matrix, or of each matrix of a stack; other elements are 0.

    Parameters
    ----------
    x : array of shape (..., m, n)
        Of any layout.
    k : int
        The highest diagonal that is copied: 0 is the main one, 1 the one above.

    {returns}
    >>> xp.tril(xp.ones((2, 2))).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return _triangle(x, k, False)


@_documented
def triu(x: Any, /, *, k: int = 0) -> kd.DeviceArray:
    """Copy the upper triangle of a matrix, or of each matrix of a stack; other elements are 0.

    Parameters
    ----------
    x : array of shape (..., m, n)
        Of any layout.
    k : int
        The lowest diagonal that is copied: 0 is the main one, 1 the one above.

    {returns}
    >>> xp.triu(xp.ones((2, 2))).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return _triangle(x, k, True)


@_documented
def meshgrid(*arrays: Any, indexing: str = "xy") -> list[kd.DeviceArray]:
    """Make arrays of coordinates from vectors of coordinates.

    Parameters
    ----------
    *arrays : array of shape (n,)
        The coordinates along each axis.
    indexing : str
        ``"xy"``: the first vector is along the second axis. ``"ij"``: along the first.

    {returns}
    >>> [each.tolist() for each in xp.meshgrid(xp.arange(2), xp.arange(2))]
    [[[0, 1], [0, 1]], [[0, 0], [1, 1]]]
    """
    if indexing not in ("xy", "ij"):
        raise wrong_value("indexing", indexing, "It is 'xy' or 'ij'")
    vectors = [asarray(each) for each in arrays]
    for n, each in enumerate(vectors):
        if each.ndim > 1:
            raise wrong_value(f"arrays[{n}]", each, "It is a vector")
    vectors = [each.reshape((-1,)) if not each.ndim else each for each in vectors]
    order = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[:2] = 1, 0
    shape = tuple(vectors[n].shape[0] for n in order)
    made = []
    for n, each in enumerate(vectors):
        at: Any = tuple(slice(None) if m == n else None for m in order)
        made.append(copying.copy(each[at].broadcast_to(shape)))
    return made
