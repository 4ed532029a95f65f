"""NumPy's reductions as methods of device arrays: those of ``stdlib_kernels.reduce``.

NumPy's functions call them: ``np.mean(array, axis=0)`` runs on the array's device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kerneldsl.errors import ArgumentTypeError
from kerneldsl.errors.values import safe_repr
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.library import library_reduction
from kerneldsl.utilities.tracebacks import shorten_errors_of

__all__ = ["ArrayReductions"]

_Axis: TypeAlias = "int | tuple[int, ...] | None"

_PARAMETERS = """

        Parameters
        ----------
        axis : int or tuple of int, optional
            What is reduced; all axes by default.{dtype}
        out : DeviceArray, optional
            Where the result goes, of its shape and dtype.{ddof}
        keepdims : bool
            Whether the result keeps the axes that are reduced, with an extent of 1.
        **others
            None of NumPy's further parameters is there.

        Returns
        -------
        DeviceArray
            On the same device; of all axes of rank 0, which ``float(…)`` reads.

        Raises
        ------
        ArgumentError
            As ``stdlib_kernels.reduce.{name}`` has it, and where `others` are given.
        """
_DTYPE = """
        dtype : dtype, optional
            In which it is computed; NumPy's by default."""
_DDOF = """
        ddof : float
            What the number of elements is lessened by in the divisor."""


def _reduction(name: str, summary: str) -> Callable[..., Any]:
    """Return the method of a reduction that has an axis alone."""

    def method(
        self: ArrayReductions,
        axis: _Axis = None,
        out: Any = None,
        *,
        keepdims: bool = False,
        **others: Any,
    ) -> Any:
        return self._reduce(name, others, axis=axis, out=out, keepdims=keepdims)

    return _documented(method, name, summary)


def _computation(name: str, summary: str) -> Callable[..., Any]:
    """Return the method of a reduction that has a dtype, too."""

    def method(
        self: ArrayReductions,
        axis: _Axis = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        **others: Any,
    ) -> Any:
        return self._reduce(name, others, axis=axis, dtype=dtype, out=out, keepdims=keepdims)

    return _documented(method, name, summary, dtype=_DTYPE)


def _spread(name: str, summary: str) -> Callable[..., Any]:
    """Return the method of a reduction whose divisor can be chosen."""

    def method(
        self: ArrayReductions,
        axis: _Axis = None,
        dtype: Any = None,
        out: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        **others: Any,
    ) -> Any:
        given = {"axis": axis, "dtype": dtype, "out": out, "ddof": ddof, "keepdims": keepdims}
        return self._reduce(name, others, **given)

    return _documented(method, name, summary, dtype=_DTYPE, ddof=_DDOF)


def _documented(
    method: Callable[..., Any], name: str, summary: str, *, dtype: str = "", ddof: str = ""
) -> Callable[..., Any]:
    method.__name__, method.__qualname__ = name, f"ArrayReductions.{name}"
    method.__doc__ = summary + _PARAMETERS.format(name=name, dtype=dtype, ddof=ddof)
    return method


@shorten_errors_of()
class ArrayReductions(ArrayGeometry):
    """Reductions of the library, for device arrays."""

    __slots__ = ()

    sum = _computation("sum", "Add the elements, of all or along axes.")
    prod = _computation("prod", "Multiply the elements, of all or along axes.")
    mean = _computation("mean", "Compute the mean of the elements, of all or along axes.")
    var = _spread("var", "Compute the variance of the elements, of all or along axes.")
    std = _spread("std", "Compute the standard deviation of the elements, of all or along axes.")
    min = _reduction("min", "Find the smallest element, of all or along axes.")
    max = _reduction("max", "Find the largest element, of all or along axes.")
    any = _reduction("any", "Tell whether any element is not zero, of all or along axes.")
    all = _reduction("all", "Tell whether no element is zero, of all or along axes.")
    argmin = _reduction(
        "argmin", "Find the place of the smallest element, of all or along an axis."
    )
    argmax = _reduction("argmax", "Find the place of the largest element, of all or along an axis.")

    def _reduce(self, name: str, others: dict[str, Any], **given: Any) -> Any:
        if others:
            text = ", ".join(f"{key}={safe_repr(value)}" for key, value in others.items())
            raise ArgumentTypeError(
                f"a device array has no {name}({text})",
                value=others,
                limit=f"array.{name}() takes {', '.join(given)}",
                remedy=f"Use NumPy's: array.copy_to_host().{name}({text})",
            )
        return library_reduction(name)(self, **given)
