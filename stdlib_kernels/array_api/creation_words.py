"""The texts that docstrings of functions that make arrays have in common."""

from __future__ import annotations

from typing import Any

from kerneldsl.utilities.tracebacks import shorten_errors

__all__ = ["documented_creation"]


def documented_creation(function: Any) -> Any:
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
