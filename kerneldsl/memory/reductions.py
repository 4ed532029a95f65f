"""NumPy's reductions as methods of device arrays: those of ``stdlib_kernels.reduce``.

NumPy's functions call them: ``np.mean(array, axis=0)`` runs on the array's device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kerneldsl.errors import ArgumentTypeError
from kerneldsl.errors.values import safe_repr
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.library import library_reduction
from kerneldsl.utilities.tracebacks import shorten_errors_of
from kerneldsl.utilities.written_functions import written_function

__all__ = ["ArrayReductions"]

#: Parameters of NumPy's methods: their types and defaults, and what docstrings say of them.
_PARAMETERS = {
    "axis": (
        "int | tuple[int, ...] | None = None",
        """axis : int or tuple of int, optional
            What is reduced; all axes by default.""",
    ),
    "dtype": (
        "Any = None",
        """dtype : dtype, optional
            In which it is computed; NumPy's by default.""",
    ),
    "out": (
        "Any = None",
        """out : DeviceArray, optional
            Where the result goes, of its shape and dtype.""",
    ),
    "ddof": (
        "float = 0",
        """ddof : float
            What the number of elements is lessened by in the divisor.""",
    ),
    "keepdims": (
        "bool = False",
        """keepdims : bool
            Whether the result keeps the axes that are reduced, with an extent of 1.""",
    ),
    "initial": (
        "Any = None",
        """initial : number, optional
            What the result is combined with.""",
    ),
    "where": (
        "Any = True",
        """where : DeviceArray of bool, optional
            Which elements count, broadcast to the array's shape; all by default.""",
    ),
}
#: Parameters that several methods have.
_TOTAL = "axis dtype out keepdims initial where"
_SPREAD = "axis dtype out ddof keepdims * where"
_EXTREME = "axis out keepdims initial where"
_TRUTH = "axis out keepdims * where"
_PLACE = "axis out * keepdims"
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


def _reduction(name: str, parameters: str, summary: str) -> Callable[..., Any]:
    """Return a method with NumPy's parameters; those after ``*`` are named in calls."""
    declared, names = [], []
    for each in parameters.split():
        if each in _PARAMETERS:
            names.append(each)
            declared.append(f"{each}: {_PARAMETERS[each][0]}")
        else:
            declared.append(each)
    given = ", ".join(f"{each!r}: {each}" for each in names)
    text = (
        f"def {name}(self, {', '.join(declared)}, **others: Any) -> Any:\n"
        f"    return self._reduce({name!r}, others, {{{given}}})\n"
    )
    method: Callable[..., Any] = written_function(name, text, {"Any": Any}, __name__)
    described = "\n        ".join(_PARAMETERS[each][1] for each in names)
    method.__qualname__ = f"ArrayReductions.{name}"
    method.__doc__ = _DOCSTRING.format(summary=summary, parameters=described, name=name)
    return method


@shorten_errors_of()
class ArrayReductions(ArrayGeometry):
    """Reductions of the library, for device arrays."""

    __slots__ = ()

    sum = _reduction("sum", _TOTAL, "Add the elements, of all or along axes.")
    prod = _reduction("prod", _TOTAL, "Multiply the elements, of all or along axes.")
    mean = _reduction(
        "mean",
        "axis dtype out keepdims * where",
        "Compute the mean of the elements, of all or along axes.",
    )
    var = _reduction("var", _SPREAD, "Compute the variance of the elements, of all or along axes.")
    std = _reduction(
        "std", _SPREAD, "Compute the standard deviation of the elements, of all or along axes."
    )
    min = _reduction("min", _EXTREME, "Find the smallest element, of all or along axes.")
    max = _reduction("max", _EXTREME, "Find the largest element, of all or along axes.")
    any = _reduction("any", _TRUTH, "Tell whether any element is not zero, of all or along axes.")
    all = _reduction("all", _TRUTH, "Tell whether no element is zero, of all or along axes.")
    argmin = _reduction(
        "argmin", _PLACE, "Find the place of the smallest element, of all or along an axis."
    )
    argmax = _reduction(
        "argmax", _PLACE, "Find the place of the largest element, of all or along an axis."
    )

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
