"""Data types and constants of the standard, and conversions between them."""

from __future__ import annotations

import builtins
from typing import Any, NamedTuple

import numpy as np

from kerneldsl.errors import ArgumentTypeError
from kerneldsl.errors.values import safe_repr
from stdlib_kernels.checks import Array
from stdlib_kernels.functions import library_function
from stdlib_kernels.parameters import computing_dtype

__all__ = [
    "astype",
    "bool",
    "can_cast",
    "complex64",
    "complex128",
    "e",
    "finfo",
    "float32",
    "float64",
    "iinfo",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "nan",
    "newaxis",
    "pi",
    "result_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

bool = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
float32, float64 = np.dtype(np.float32), np.dtype(np.float64)
complex64, complex128 = np.dtype(np.complex64), np.dtype(np.complex128)

e, inf, nan, pi = np.e, np.inf, np.nan, np.pi
newaxis = None


class FloatInfo(NamedTuple):
    """Limits of a dtype of floats, or of the parts of complex numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]


class IntegerInfo(NamedTuple):
    """Limits of a dtype of integers."""

    bits: int
    max: int
    min: int
    dtype: np.dtype[Any]


def finfo(type: Any, /) -> FloatInfo:
    """Return the limits of a dtype of floats.

    Parameters
    ----------
    type : dtype or array
        A dtype of floats or complex numbers.

    Returns
    -------
    FloatInfo
        An object with `bits`, `eps`, `max`, `min`, `smallest_normal` and `dtype`.

    Raises
    ------
    kerneldsl.errors.ArgumentTypeError
        If it is no such dtype.

    Examples
    --------
    >>> from stdlib_kernels import array_api as xp
    >>> xp.finfo(xp.float32).bits
    32
    """
    dtype = _dtype_of(type)
    if computing_dtype(dtype).kind not in "fc":
        raise ArgumentTypeError(
            f"finfo was called with {dtype}",
            value=dtype,
            limit="It is for floats and complex numbers",
        )
    info: Any = np.finfo(dtype) if dtype.kind in "fc" else _other_finfo(dtype)
    return FloatInfo(
        bits=info.bits,
        eps=float(info.eps),
        max=float(info.max),
        min=float(info.min),
        smallest_normal=float(info.smallest_normal),
        dtype=np.dtype(info.dtype),
    )


def _other_finfo(dtype: np.dtype[Any]) -> Any:
    import ml_dtypes  # its arrays exist, so it is installed

    make: Any = ml_dtypes.finfo
    return make(dtype)


def iinfo(type: Any, /) -> IntegerInfo:
    """Return the limits of a dtype of integers.

    Parameters
    ----------
    type : dtype or array
        A dtype of integers.

    Returns
    -------
    IntegerInfo
        An object with `bits`, `max`, `min` and `dtype`.

    Raises
    ------
    kerneldsl.errors.ArgumentTypeError
        If it is no such dtype.

    Examples
    --------
    >>> from stdlib_kernels import array_api as xp
    >>> xp.iinfo(xp.int8).max
    127
    """
    dtype = _dtype_of(type)
    if dtype.kind not in "iu":
        raise ArgumentTypeError(
            f"iinfo was called with {dtype}", value=dtype, limit="It is for integers"
        )
    info = np.iinfo(dtype)
    return IntegerInfo(info.bits, int(info.max), int(info.min), dtype)


def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Return whether every number of one dtype can be converted to another dtype.

    Parameters
    ----------
    from_ : dtype or array
        The source.
    to : dtype
        The target.

    Returns
    -------
    bool
        The result of ``numpy.can_cast``.

    Raises
    ------
    kerneldsl.errors.ArgumentTypeError
        If one of them is not a dtype.

    Examples
    --------
    >>> from stdlib_kernels import array_api as xp
    >>> xp.can_cast(xp.int8, xp.int16), xp.can_cast(xp.float64, xp.int64)
    (True, False)
    """
    return np.can_cast(_dtype_of(from_), _dtype_of(to))


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the dtype to which arrays, dtypes and numbers are promoted.

    Parameters
    ----------
    *arrays_and_dtypes : array, dtype or number
        Python's numbers take the dtype of the others if it has numbers of their kind.

    Returns
    -------
    dtype
        The result of ``numpy.result_type``.

    Raises
    ------
    kerneldsl.errors.ArgumentTypeError
        If there is no such dtype.

    Examples
    --------
    >>> from stdlib_kernels import array_api as xp
    >>> xp.result_type(xp.int8, xp.uint8), xp.result_type(xp.float32, 1)
    (dtype('int16'), dtype('float32'))
    """
    weak = (builtins.bool, int, float, complex)
    given = [each if type(each) in weak else _dtype_of(each) for each in arrays_and_dtypes]
    try:
        return np.result_type(*given)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"there is no dtype for {', '.join(map(safe_repr, given)) or 'no arguments'}",
            value=arrays_and_dtypes,
            limit=f"NumPy says: {error}",
        ) from error


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Return whether a dtype is of a kind.

    Parameters
    ----------
    dtype : dtype
        The dtype.
    kind : str, dtype, or tuple of them
        ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"integral"``,
        ``"real floating"``, ``"complex floating"``, ``"numeric"``, or a dtype.

    Returns
    -------
    bool
        For a tuple, whether the dtype is of one of its kinds.

    Raises
    ------
    kerneldsl.errors.ArgumentTypeError
        If the kind does not exist.

    Examples
    --------
    >>> from stdlib_kernels import array_api as xp
    >>> xp.isdtype(xp.float32, "real floating"), xp.isdtype(xp.int8, ("bool", xp.int16))
    (True, False)
    """
    found = _dtype_of(dtype)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    try:
        return any(
            np.isdtype(computing_dtype(found), each) if isinstance(each, str) else found == each
            for each in kinds
        )
    except ValueError as error:
        raise ArgumentTypeError(
            f"there is no kind of dtypes {safe_repr(kind)}",
            value=kind,
            limit=f"NumPy says: {error}",
        ) from error


@library_function
def astype(x: Array, dtype: Any, /, *, copy: builtins.bool = True, device: Any = None) -> Any:
    """Convert the elements to another dtype.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    dtype : dtype
        The new dtype.
    copy : bool
        Whether to copy an array that already has the dtype.
    device : device, optional
        Device of the result; by default that of `x`.

    Returns
    -------
    array
        Same shape as `x`.

    See Also
    --------
    numpy.astype

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import astype
    >>> astype(np.array([-1.5, 2.5]), np.int32).tolist()
    [-1, 2]
    """
    wanted = _dtype_of(dtype)
    if isinstance(x, np.ndarray):
        return x.astype(wanted, copy=copy)
    if x.dtype != wanted:
        x = x.astype(wanted)
    elif copy:
        x = x.copy("K")
    return x if device is None else x.to_device(device)


def _dtype_of(value: Any) -> np.dtype[Any]:
    """Return the dtype of an array, or the dtype that a value names."""
    dtype = getattr(value, "dtype", value)
    try:
        return np.dtype(dtype if isinstance(dtype, np.dtype | str | type) else value)
    except Exception as error:
        raise ArgumentTypeError(
            f"{safe_repr(value)} is not a dtype",
            value=value,
            remedy="Name one of the namespace, such as xp.float32",
        ) from error
