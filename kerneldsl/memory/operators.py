"""Operators and NumPy's methods for device arrays.

An array of one element converts to a Python number, with a transfer. Operators, and methods that
the library has, are the library's; all other methods raise an error with the remedy.
No array is compared by identity, since NumPy compares elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, AttributeUnavailableError
from kerneldsl.errors.values import safe_repr
from kerneldsl.language.other_names import array_remedy
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.protocols import library_function, library_reduction
from kerneldsl.utilities.formatting import format_count
from kerneldsl.utilities.tracebacks import shorten_errors_of
from kerneldsl.utilities.written_functions import written_function

__all__ = ["ArrayOperators"]


#: Parameters of NumPy's methods: types, defaults, and texts for docstrings.
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


#: Methods of NumPy's arrays that have no counterpart here.
_OF_NUMPY = frozenset(
    name
    for name in dir(np.ndarray)
    if not name.startswith("_") and name not in ("device", "ctypes")
)
_ON_HOST = "Copy the elements: array.copy_to_host()"


def _forward(name: str) -> Any:
    def apply(self: ArrayOperators, other: Any) -> Any:
        return library_function("operate")(name, self, other)

    return apply


def _reflected(name: str) -> Any:
    def apply(self: ArrayOperators, other: Any) -> Any:
        return library_function("operate")(name, other, self)

    return apply


def _in_place(name: str) -> Any:
    def apply(self: ArrayOperators, other: Any) -> Any:
        return library_function("operate_in_place")(name, self, other)

    return apply


def _unary(name: str) -> Any:
    def apply(self: ArrayOperators) -> Any:
        return library_function("operate")(name, self)

    return apply


@shorten_errors_of()
class ArrayOperators(ArrayReductions):
    """Operators of NumPy's arrays, for device arrays."""

    __slots__ = ()

    # Elements are compared, so that no array is the key of anything.
    __hash__ = None  # type: ignore[assignment]

    def copy_to_host(self) -> np.ndarray[Any, Any]:
        """Copy the elements into a NumPy array; device arrays do."""
        raise NotImplementedError

    def _element(self) -> Any:
        """Return the element of an array of rank 0 as a NumPy scalar."""
        return self.copy_to_host()[()]

    def _refuse(self, symbol: str) -> NoReturn:
        raise ArgumentTypeError(
            f"{symbol} is not available for a device array of shape {self.shape}",
            value=self,
            limit="It gives one number, of an array of rank 0",
            remedy=_ON_HOST,
        )

    # ------------------------------------------------------------------ numbers

    def tolist(self) -> Any:
        """Return the elements as Python numbers, in nested lists; needs a transfer from the device.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> kd.zeros((2, 1)).tolist()
        [[0.0], [0.0]]
        """
        return self.copy_to_host().tolist()

    def _number(self, kind: Callable[[Any], Any]) -> Any:
        if self.size != 1:
            raise ArgumentTypeError(
                f"an array of {format_count(self.size, 'element')} is not a single number",
                value=self,
                limit="Arrays of one element are converted to Python numbers",
                remedy="Take one element, as in float(array[0]), or array.copy_to_host()",
            )
        return kind(self.copy_to_host().reshape(())[()])

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ArgumentValueError(
                f"the truth value of an array of {format_count(self.size, 'element')} is ambiguous",
                value=self,
                limit="An array of one element is true if the element is not 0",
                remedy="Check `array is not None` or array.size, or use array.copy_to_host() "
                "with .any() or .all()",
            )
        return bool(self._number(bool))

    def __int__(self) -> int:
        return int(self._number(int))

    def __float__(self) -> float:
        return float(self._number(float))

    def __complex__(self) -> complex:
        return complex(self._number(complex))

    def __index__(self) -> int:
        if self.shape or self.dtype.kind not in "iu":
            raise ArgumentTypeError(
                f"an array of shape {self.shape} and dtype {self.dtype} is not an index",
                value=self,
                limit="An index is an array of rank 0 of integers, such as array[0]",
                remedy=_ON_HOST,
            )
        return int(self._number(int))

    def __format__(self, spec: str) -> str:
        if not self.shape:
            return format(self._element(), spec)
        if spec:
            raise ArgumentTypeError(
                f"an array of shape {self.shape} cannot be formatted with {spec!r}",
                value=spec,
                limit="A format is for one number, which an array of rank 0 is",
                remedy=f'Format an element, as in f"{{array[0]:{spec}}}" of a vector, or those of '
                "array.copy_to_host()",
            )
        return str(self)

    def __round__(self, ndigits: int | None = None) -> Any:
        if self.shape:
            self._refuse("round()")
        element = self._element()
        # NumPy's bool and bfloat16 scalars cannot be rounded; their Python numbers can.
        return round(element if hasattr(element, "__round__") else element.item(), ndigits)

    def __trunc__(self) -> int:
        if self.shape:
            self._refuse("trunc()")
        number: float = self._element().item()
        return math.trunc(number)

    # ------------------------------------------------------------------ operators

    __eq__ = _forward("equal")
    __ne__ = _forward("not_equal")
    __lt__ = _forward("less")
    __le__ = _forward("less_equal")
    __gt__ = _forward("greater")
    __ge__ = _forward("greater_equal")
    __add__, __radd__ = _forward("add"), _reflected("add")
    __sub__, __rsub__ = _forward("subtract"), _reflected("subtract")
    __mul__, __rmul__ = _forward("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = _forward("divide"), _reflected("divide")
    __floordiv__, __rfloordiv__ = _forward("floor_divide"), _reflected("floor_divide")
    __mod__, __rmod__ = _forward("remainder"), _reflected("remainder")
    __pow__, __rpow__ = _forward("pow"), _reflected("pow")
    __matmul__, __rmatmul__ = _forward("matmul"), _reflected("matmul")
    __and__, __rand__ = _forward("bitwise_and"), _reflected("bitwise_and")
    __or__, __ror__ = _forward("bitwise_or"), _reflected("bitwise_or")
    __xor__, __rxor__ = _forward("bitwise_xor"), _reflected("bitwise_xor")
    __lshift__, __rlshift__ = _forward("bitwise_left_shift"), _reflected("bitwise_left_shift")
    __rshift__, __rrshift__ = _forward("bitwise_right_shift"), _reflected("bitwise_right_shift")
    __iadd__ = _in_place("add")
    __isub__ = _in_place("subtract")
    __imul__ = _in_place("multiply")
    __itruediv__ = _in_place("divide")
    __ifloordiv__ = _in_place("floor_divide")
    __imod__ = _in_place("remainder")
    __ipow__ = _in_place("pow")
    __imatmul__ = _in_place("matmul")
    __iand__ = _in_place("bitwise_and")
    __ior__ = _in_place("bitwise_or")
    __ixor__ = _in_place("bitwise_xor")
    __ilshift__ = _in_place("bitwise_left_shift")
    __irshift__ = _in_place("bitwise_right_shift")
    __neg__, __pos__ = _unary("negative"), _unary("positive")
    __abs__, __invert__ = _unary("abs"), _unary("bitwise_invert")

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    # ------------------------------------------------------------------ methods

    def astype(self, dtype: Any) -> Any:
        """Return a new array of another dtype on the same device, converted there by a kernel.

        Parameters
        ----------
        dtype : dtype
            The new dtype. The conversion is NumPy's ``casting="unsafe"``. The result for a float
            that the new dtype cannot hold depends on the device.

        Returns
        -------
        DeviceArray
            An array of the same shape, contiguous in C order.

        Examples
        --------
        >>> import numpy as np
        >>> import kerneldsl as kd
        >>> kd.to_device(np.array([1.5, -2.5])).astype("int32").copy_to_host()
        array([ 1, -2], dtype=int32)
        """
        return library_function("convert")(self, dtype)

    def __getattr__(self, name: str) -> NoReturn:
        remedy = array_remedy(name)
        if remedy is None and name in _OF_NUMPY:
            remedy = f"Write a kernel, or use NumPy's: array.copy_to_host().{name}"
        if remedy:
            what = f"a device array has no {name!r}"
            raise AttributeUnavailableError(what, value=name, remedy=remedy)
        if name in ArrayGeometry.__slots__:  # of an array that is not made yet
            raise AttributeError(name)
        raise AttributeError(f"an array on {self.device} has no attribute {name!r}")
