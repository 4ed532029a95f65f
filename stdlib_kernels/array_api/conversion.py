"""Device arrays of numbers and of other arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentError, ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import a_type
from kerneldsl.utilities.tracebacks import shorten_errors

__all__ = ["asarray", "documented_creation", "from_dlpack"]


def documented_creation(function: Any) -> Any:
    """Insert the shared texts into docstrings of functions that make arrays; shorten errors."""
    for word, text in _WORDS.items() if function.__doc__ else ():  # Python's -OO leaves none
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


@documented_creation
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
            return found.copy("K")
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
        "the elements cannot be used without a copy",
        value=False,
        limit="copy=False was given",
        remedy="Omit copy",
    )


@documented_creation
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
        return found.copy("K") if copy else found
    if copy is False:
        raise _needs_copy()
    return found
