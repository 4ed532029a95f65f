"""NumPy's reductions as methods of device arrays: those of ``stdlib_kernels.reduce``.

NumPy's functions call them: ``np.mean(array, axis=0)`` runs on the array's device.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from kerneldsl.errors import ArgumentTypeError
from kerneldsl.errors.values import safe_repr
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.library import library_reduction
from kerneldsl.utilities.tracebacks import shorten_errors_of

__all__ = ["ArrayReductions"]

_Axis: TypeAlias = "int | tuple[int, ...] | None"

#: Parameters of NumPy's methods as docstrings have them.
_PARAMETERS = {
    "axis": """axis : int or tuple of int, optional
            What is reduced; all axes by default.""",
    "dtype": """dtype : dtype, optional
            In which it is computed; NumPy's by default.""",
    "out": """out : DeviceArray, optional
            Where the result goes, of its shape and dtype.""",
    "ddof": """ddof : float
            What the number of elements is lessened by in the divisor.""",
    "keepdims": """keepdims : bool
            Whether the result keeps the axes that are reduced, with an extent of 1.""",
    "initial": """initial : number, optional
            What the result is combined with.""",
    "where": """where : DeviceArray of bool, optional
            Which elements count, broadcast to the array's shape; all by default.""",
}
_DOCSTRING = """{summary}

        Parameters
        ----------
        {parameters}
        **others
            Other parameters of NumPy's raise an error.

        Returns
        -------
        DeviceArray
            On the same device; of all axes of rank 0, which ``float(…)`` reads.

        Raises
        ------
        ArgumentError
            As for ``stdlib_kernels.reduce.{name}``, and where `others` are given.
        """


def _accumulation(name: str, summary: str) -> Callable[..., Any]:
    """Return the method of a sum or product."""

    def method(
        self: ArrayReductions,
        axis: _Axis = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
        **others: Any,
    ) -> Any:
        given = {
            "axis": axis,
            "dtype": dtype,
            "out": out,
            "keepdims": keepdims,
            "initial": initial,
            "where": where,
        }
        return self._reduce(name, others, given)

    return _documented(method, name, summary)


def _mean(name: str, summary: str) -> Callable[..., Any]:
    """Return the method of a mean."""

    def method(
        self: ArrayReductions,
        axis: _Axis = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        where: Any = True,
        **others: Any,
    ) -> Any:
        given = {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims, "where": where}
        return self._reduce(name, others, given)

    return _documented(method, name, summary)


def _spread(name: str, summary: str) -> Callable[..., Any]:
    """Return the method of a variance or its root."""

    def method(
        self: ArrayReductions,
        axis: _Axis = None,
        dtype: Any = None,
        out: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Any = True,
        **others: Any,
    ) -> Any:
        given = {
            "axis": axis,
            "dtype": dtype,
            "out": out,
            "ddof": ddof,
            "keepdims": keepdims,
            "where": where,
        }
        return self._reduce(name, others, given)

    return _documented(method, name, summary)


def _extreme(name: str, summary: str) -> Callable[..., Any]:
    """Return the method of an extreme."""

    def method(
        self: ArrayReductions,
        axis: _Axis = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
        **others: Any,
    ) -> Any:
        given = {"axis": axis, "out": out, "keepdims": keepdims, "initial": initial, "where": where}
        return self._reduce(name, others, given)

    return _documented(method, name, summary)


def _truth(name: str, summary: str) -> Callable[..., Any]:
    """Return the method of a truth value."""

    def method(
        self: ArrayReductions,
        axis: _Axis = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        where: Any = True,
        **others: Any,
    ) -> Any:
        given = {"axis": axis, "out": out, "keepdims": keepdims, "where": where}
        return self._reduce(name, others, given)

    return _documented(method, name, summary)


def _place(name: str, summary: str) -> Callable[..., Any]:
    """Return the method of the place of an extreme."""

    def method(
        self: ArrayReductions,
        axis: _Axis = None,
        out: Any = None,
        *,
        keepdims: bool = False,
        **others: Any,
    ) -> Any:
        given = {"axis": axis, "out": out, "keepdims": keepdims}
        return self._reduce(name, others, given)

    return _documented(method, name, summary)


def _documented(method: Callable[..., Any], name: str, summary: str) -> Callable[..., Any]:
    names = [each for each in inspect.signature(method).parameters if each in _PARAMETERS]
    parameters = "\n        ".join(_PARAMETERS[each] for each in names)
    method.__name__, method.__qualname__ = name, f"ArrayReductions.{name}"
    method.__doc__ = _DOCSTRING.format(summary=summary, parameters=parameters, name=name)
    return method


@shorten_errors_of()
class ArrayReductions(ArrayGeometry):
    """Reductions of the library, for device arrays."""

    __slots__ = ()

    sum = _accumulation("sum", "Add the elements, of all or along axes.")
    prod = _accumulation("prod", "Multiply the elements, of all or along axes.")
    mean = _mean("mean", "Compute the mean of the elements, of all or along axes.")
    var = _spread("var", "Compute the variance of the elements, of all or along axes.")
    std = _spread("std", "Compute the standard deviation of the elements, of all or along axes.")
    min = _extreme("min", "Find the smallest element, of all or along axes.")
    max = _extreme("max", "Find the largest element, of all or along axes.")
    any = _truth("any", "Tell whether any element is not zero, of all or along axes.")
    all = _truth("all", "Tell whether no element is zero, of all or along axes.")
    argmin = _place("argmin", "Find the place of the smallest element, of all or along an axis.")
    argmax = _place("argmax", "Find the place of the largest element, of all or along an axis.")

    def _reduce(self, name: str, others: dict[str, Any], given: dict[str, Any]) -> Any:
        if others:
            text = ", ".join(f"{key}={safe_repr(value)}" for key, value in others.items())
            raise ArgumentTypeError(
                f"a device array has no {name}({text})",
                value=others,
                limit=f"array.{name}() takes {', '.join(given)}",
                remedy=f"Use NumPy's: array.copy_to_host().{name}({text})",
            )
        return library_reduction(name)(self, **given)
