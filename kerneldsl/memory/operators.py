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
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.library import library_function
from kerneldsl.memory.reductions import ArrayReductions
from kerneldsl.utilities.tracebacks import shorten_errors_of

__all__ = ["ArrayOperators"]

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
                f"an array of {self.size} elements is not a single number",
                value=self,
                limit="Arrays of one element are converted to Python numbers",
                remedy="Take one element, as in float(array[0]), or array.copy_to_host()",
            )
        return kind(self.copy_to_host().reshape(())[()])

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ArgumentValueError(
                f"the truth value of an array of {self.size} elements is ambiguous",
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
        # Only Python's numbers can be rounded where NumPy's scalar cannot, as of bool and bfloat16.
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
        if name in _OF_NUMPY:
            raise AttributeUnavailableError(
                f"a device array has no {name!r}",
                value=name,
                limit="stdlib_kernels has reductions, scans, products and images of device arrays",
                remedy=f"Write a kernel, or use NumPy's: array.copy_to_host().{name}",
            )
        if name in ArrayGeometry.__slots__:  # of an array that is not made yet
            raise AttributeError(name)
        raise AttributeError(f"an array on {self.device} has no attribute {name!r}")
