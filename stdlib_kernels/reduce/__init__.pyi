"""Written by docs/library_stubs.py."""

from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from kerneldsl import DeviceArray
from stdlib_kernels._kinds import ArrayLike, Axis, Foreign, Host, Number

class _Family:
    __all__: list[str]
    @overload
    @staticmethod
    def all(
        x: Host,
        axis: None = None,
        out: None = None,
        keepdims: Literal[False] = False,
        *,
        where: ArrayLike | Number = True,
    ) -> np.bool: ...
    @overload
    @staticmethod
    def all(
        x: Host,
        axis: Axis = None,
        out: Host | None = None,
        keepdims: bool = False,
        *,
        where: ArrayLike | Number = True,
    ) -> Host: ...
    @overload
    @staticmethod
    def all(
        x: DeviceArray,
        axis: Axis = None,
        out: DeviceArray | None = None,
        keepdims: bool = False,
        *,
        where: DeviceArray | npt.ArrayLike | Number = True,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def all(
        x: Foreign,
        axis: Axis = None,
        out: Foreign | None = None,
        keepdims: bool = False,
        *,
        where: Foreign | npt.ArrayLike | Number = True,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def all(
        x: npt.ArrayLike,
        axis: None = None,
        out: None = None,
        keepdims: Literal[False] = False,
        *,
        where: ArrayLike | Number = True,
    ) -> np.bool: ...
    @overload
    @staticmethod
    def all(
        x: npt.ArrayLike,
        axis: Axis = None,
        out: Host | None = None,
        keepdims: bool = False,
        *,
        where: ArrayLike | Number = True,
    ) -> Host: ...
    @overload
    @staticmethod
    def any(
        x: Host,
        axis: None = None,
        out: None = None,
        keepdims: Literal[False] = False,
        *,
        where: ArrayLike | Number = True,
    ) -> np.bool: ...
    @overload
    @staticmethod
    def any(
        x: Host,
        axis: Axis = None,
        out: Host | None = None,
        keepdims: bool = False,
        *,
        where: ArrayLike | Number = True,
    ) -> Host: ...
    @overload
    @staticmethod
    def any(
        x: DeviceArray,
        axis: Axis = None,
        out: DeviceArray | None = None,
        keepdims: bool = False,
        *,
        where: DeviceArray | npt.ArrayLike | Number = True,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def any(
        x: Foreign,
        axis: Axis = None,
        out: Foreign | None = None,
        keepdims: bool = False,
        *,
        where: Foreign | npt.ArrayLike | Number = True,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def any(
        x: npt.ArrayLike,
        axis: None = None,
        out: None = None,
        keepdims: Literal[False] = False,
        *,
        where: ArrayLike | Number = True,
    ) -> np.bool: ...
    @overload
    @staticmethod
    def any(
        x: npt.ArrayLike,
        axis: Axis = None,
        out: Host | None = None,
        keepdims: bool = False,
        *,
        where: ArrayLike | Number = True,
    ) -> Host: ...
    @overload
    @staticmethod
    def argmax(
        x: Host,
        axis: None = None,
        out: None = None,
        *,
        keepdims: Literal[False] = False,
    ) -> np.int64: ...
    @overload
    @staticmethod
    def argmax(
        x: Host,
        axis: int | None = None,
        out: Host | None = None,
        *,
        keepdims: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def argmax(
        x: DeviceArray,
        axis: int | None = None,
        out: DeviceArray | None = None,
        *,
        keepdims: bool = False,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def argmax(
        x: Foreign,
        axis: int | None = None,
        out: Foreign | None = None,
        *,
        keepdims: bool = False,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def argmax(
        x: npt.ArrayLike,
        axis: None = None,
        out: None = None,
        *,
        keepdims: Literal[False] = False,
    ) -> np.int64: ...
    @overload
    @staticmethod
    def argmax(
        x: npt.ArrayLike,
        axis: int | None = None,
        out: Host | None = None,
        *,
        keepdims: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def argmin(
        x: Host,
        axis: None = None,
        out: None = None,
        *,
        keepdims: Literal[False] = False,
    ) -> np.int64: ...
    @overload
    @staticmethod
    def argmin(
        x: Host,
        axis: int | None = None,
        out: Host | None = None,
        *,
        keepdims: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def argmin(
        x: DeviceArray,
        axis: int | None = None,
        out: DeviceArray | None = None,
        *,
        keepdims: bool = False,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def argmin(
        x: Foreign,
        axis: int | None = None,
        out: Foreign | None = None,
        *,
        keepdims: bool = False,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def argmin(
        x: npt.ArrayLike,
        axis: None = None,
        out: None = None,
        *,
        keepdims: Literal[False] = False,
    ) -> np.int64: ...
    @overload
    @staticmethod
    def argmin(
        x: npt.ArrayLike,
        axis: int | None = None,
        out: Host | None = None,
        *,
        keepdims: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def count_nonzero(
        x: Host,
        axis: None = None,
        *,
        out: None = None,
        keepdims: Literal[False] = False,
    ) -> np.int64: ...
    @overload
    @staticmethod
    def count_nonzero(
        x: Host,
        axis: Axis = None,
        *,
        out: Host | None = None,
        keepdims: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def count_nonzero(
        x: DeviceArray,
        axis: Axis = None,
        *,
        out: DeviceArray | None = None,
        keepdims: bool = False,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def count_nonzero(
        x: Foreign,
        axis: Axis = None,
        *,
        out: Foreign | None = None,
        keepdims: bool = False,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def count_nonzero(
        x: npt.ArrayLike,
        axis: None = None,
        *,
        out: None = None,
        keepdims: Literal[False] = False,
    ) -> np.int64: ...
    @overload
    @staticmethod
    def count_nonzero(
        x: npt.ArrayLike,
        axis: Axis = None,
        *,
        out: Host | None = None,
        keepdims: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def max(
        x: Host,
        axis: None = None,
        out: None = None,
        keepdims: Literal[False] = False,
        initial: Any = None,
        where: ArrayLike | Number = True,
    ) -> np.number[Any] | np.bool: ...
    @overload
    @staticmethod
    def max(
        x: Host,
        axis: Axis = None,
        out: Host | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: ArrayLike | Number = True,
    ) -> Host: ...
    @overload
    @staticmethod
    def max(
        x: DeviceArray,
        axis: Axis = None,
        out: DeviceArray | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: DeviceArray | npt.ArrayLike | Number = True,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def max(
        x: Foreign,
        axis: Axis = None,
        out: Foreign | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Foreign | npt.ArrayLike | Number = True,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def max(
        x: npt.ArrayLike,
        axis: None = None,
        out: None = None,
        keepdims: Literal[False] = False,
        initial: Any = None,
        where: ArrayLike | Number = True,
    ) -> np.number[Any] | np.bool: ...
    @overload
    @staticmethod
    def max(
        x: npt.ArrayLike,
        axis: Axis = None,
        out: Host | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: ArrayLike | Number = True,
    ) -> Host: ...
    @overload
    @staticmethod
    def mean(
        x: Host,
        axis: None = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        keepdims: Literal[False] = False,
        *,
        where: ArrayLike | Number = True,
    ) -> np.number[Any]: ...
    @overload
    @staticmethod
    def mean(
        x: Host,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        keepdims: bool = False,
        *,
        where: ArrayLike | Number = True,
    ) -> Host: ...
    @overload
    @staticmethod
    def mean(
        x: DeviceArray,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: DeviceArray | None = None,
        keepdims: bool = False,
        *,
        where: DeviceArray | npt.ArrayLike | Number = True,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def mean(
        x: Foreign,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Foreign | None = None,
        keepdims: bool = False,
        *,
        where: Foreign | npt.ArrayLike | Number = True,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def mean(
        x: npt.ArrayLike,
        axis: None = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        keepdims: Literal[False] = False,
        *,
        where: ArrayLike | Number = True,
    ) -> np.number[Any]: ...
    @overload
    @staticmethod
    def mean(
        x: npt.ArrayLike,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        keepdims: bool = False,
        *,
        where: ArrayLike | Number = True,
    ) -> Host: ...
    @overload
    @staticmethod
    def min(
        x: Host,
        axis: None = None,
        out: None = None,
        keepdims: Literal[False] = False,
        initial: Any = None,
        where: ArrayLike | Number = True,
    ) -> np.number[Any] | np.bool: ...
    @overload
    @staticmethod
    def min(
        x: Host,
        axis: Axis = None,
        out: Host | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: ArrayLike | Number = True,
    ) -> Host: ...
    @overload
    @staticmethod
    def min(
        x: DeviceArray,
        axis: Axis = None,
        out: DeviceArray | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: DeviceArray | npt.ArrayLike | Number = True,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def min(
        x: Foreign,
        axis: Axis = None,
        out: Foreign | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Foreign | npt.ArrayLike | Number = True,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def min(
        x: npt.ArrayLike,
        axis: None = None,
        out: None = None,
        keepdims: Literal[False] = False,
        initial: Any = None,
        where: ArrayLike | Number = True,
    ) -> np.number[Any] | np.bool: ...
    @overload
    @staticmethod
    def min(
        x: npt.ArrayLike,
        axis: Axis = None,
        out: Host | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: ArrayLike | Number = True,
    ) -> Host: ...
    @overload
    @staticmethod
    def norm(
        x: Host,
        *,
        axis: None = None,
        ord: float = 2,
        out: None = None,
        keepdims: Literal[False] = False,
    ) -> np.number[Any]: ...
    @overload
    @staticmethod
    def norm(
        x: Host,
        *,
        axis: Axis = None,
        ord: float = 2,
        out: Host | None = None,
        keepdims: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def norm(
        x: DeviceArray,
        *,
        axis: Axis = None,
        ord: float = 2,
        out: DeviceArray | None = None,
        keepdims: bool = False,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def norm(
        x: Foreign,
        *,
        axis: Axis = None,
        ord: float = 2,
        out: Foreign | None = None,
        keepdims: bool = False,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def norm(
        x: npt.ArrayLike,
        *,
        axis: None = None,
        ord: float = 2,
        out: None = None,
        keepdims: Literal[False] = False,
    ) -> np.number[Any]: ...
    @overload
    @staticmethod
    def norm(
        x: npt.ArrayLike,
        *,
        axis: Axis = None,
        ord: float = 2,
        out: Host | None = None,
        keepdims: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def prod(
        x: Host,
        axis: None = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        keepdims: Literal[False] = False,
        initial: Any = None,
        where: ArrayLike | Number = True,
    ) -> np.number[Any]: ...
    @overload
    @staticmethod
    def prod(
        x: Host,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: ArrayLike | Number = True,
    ) -> Host: ...
    @overload
    @staticmethod
    def prod(
        x: DeviceArray,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: DeviceArray | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: DeviceArray | npt.ArrayLike | Number = True,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def prod(
        x: Foreign,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Foreign | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Foreign | npt.ArrayLike | Number = True,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def prod(
        x: npt.ArrayLike,
        axis: None = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        keepdims: Literal[False] = False,
        initial: Any = None,
        where: ArrayLike | Number = True,
    ) -> np.number[Any]: ...
    @overload
    @staticmethod
    def prod(
        x: npt.ArrayLike,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: ArrayLike | Number = True,
    ) -> Host: ...
    @overload
    @staticmethod
    def reduce(
        x: Host,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        keepdims: Literal[False] = False,
    ) -> np.number[Any] | np.bool: ...
    @overload
    @staticmethod
    def reduce(
        x: Host,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: Axis = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        keepdims: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def reduce(
        x: DeviceArray,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: Axis = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: DeviceArray | None = None,
        keepdims: bool = False,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def reduce(
        x: Foreign,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: Axis = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Foreign | None = None,
        keepdims: bool = False,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def reduce(
        x: npt.ArrayLike,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        keepdims: Literal[False] = False,
    ) -> np.number[Any] | np.bool: ...
    @overload
    @staticmethod
    def reduce(
        x: npt.ArrayLike,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: Axis = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        keepdims: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def std(
        x: Host,
        axis: None = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        ddof: float = 0,
        keepdims: Literal[False] = False,
        *,
        correction: float | None = None,
        where: ArrayLike | Number = True,
    ) -> np.number[Any]: ...
    @overload
    @staticmethod
    def std(
        x: Host,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        correction: float | None = None,
        where: ArrayLike | Number = True,
    ) -> Host: ...
    @overload
    @staticmethod
    def std(
        x: DeviceArray,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: DeviceArray | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        correction: float | None = None,
        where: DeviceArray | npt.ArrayLike | Number = True,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def std(
        x: Foreign,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Foreign | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        correction: float | None = None,
        where: Foreign | npt.ArrayLike | Number = True,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def std(
        x: npt.ArrayLike,
        axis: None = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        ddof: float = 0,
        keepdims: Literal[False] = False,
        *,
        correction: float | None = None,
        where: ArrayLike | Number = True,
    ) -> np.number[Any]: ...
    @overload
    @staticmethod
    def std(
        x: npt.ArrayLike,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        correction: float | None = None,
        where: ArrayLike | Number = True,
    ) -> Host: ...
    @overload
    @staticmethod
    def sum(
        x: Host,
        axis: None = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        keepdims: Literal[False] = False,
        initial: Any = None,
        where: ArrayLike | Number = True,
    ) -> np.number[Any]: ...
    @overload
    @staticmethod
    def sum(
        x: Host,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: ArrayLike | Number = True,
    ) -> Host: ...
    @overload
    @staticmethod
    def sum(
        x: DeviceArray,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: DeviceArray | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: DeviceArray | npt.ArrayLike | Number = True,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def sum(
        x: Foreign,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Foreign | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Foreign | npt.ArrayLike | Number = True,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def sum(
        x: npt.ArrayLike,
        axis: None = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        keepdims: Literal[False] = False,
        initial: Any = None,
        where: ArrayLike | Number = True,
    ) -> np.number[Any]: ...
    @overload
    @staticmethod
    def sum(
        x: npt.ArrayLike,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: ArrayLike | Number = True,
    ) -> Host: ...
    @overload
    @staticmethod
    def var(
        x: Host,
        axis: None = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        ddof: float = 0,
        keepdims: Literal[False] = False,
        *,
        correction: float | None = None,
        where: ArrayLike | Number = True,
    ) -> np.number[Any]: ...
    @overload
    @staticmethod
    def var(
        x: Host,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        correction: float | None = None,
        where: ArrayLike | Number = True,
    ) -> Host: ...
    @overload
    @staticmethod
    def var(
        x: DeviceArray,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: DeviceArray | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        correction: float | None = None,
        where: DeviceArray | npt.ArrayLike | Number = True,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def var(
        x: Foreign,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Foreign | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        correction: float | None = None,
        where: Foreign | npt.ArrayLike | Number = True,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def var(
        x: npt.ArrayLike,
        axis: None = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        ddof: float = 0,
        keepdims: Literal[False] = False,
        *,
        correction: float | None = None,
        where: ArrayLike | Number = True,
    ) -> np.number[Any]: ...
    @overload
    @staticmethod
    def var(
        x: npt.ArrayLike,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        correction: float | None = None,
        where: ArrayLike | Number = True,
    ) -> Host: ...
    @overload
    def __call__(
        self,
        x: Host,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        keepdims: Literal[False] = False,
    ) -> np.number[Any] | np.bool: ...
    @overload
    def __call__(
        self,
        x: Host,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: Axis = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        keepdims: bool = False,
    ) -> Host: ...
    @overload
    def __call__(
        self,
        x: DeviceArray,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: Axis = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: DeviceArray | None = None,
        keepdims: bool = False,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self,
        x: Foreign,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: Axis = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Foreign | None = None,
        keepdims: bool = False,
    ) -> Foreign: ...
    @overload
    def __call__(
        self,
        x: npt.ArrayLike,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        keepdims: Literal[False] = False,
    ) -> np.number[Any] | np.bool: ...
    @overload
    def __call__(
        self,
        x: npt.ArrayLike,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: Axis = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        keepdims: bool = False,
    ) -> Host: ...

all = _Family.all
any = _Family.any
argmax = _Family.argmax
argmin = _Family.argmin
count_nonzero = _Family.count_nonzero
max = _Family.max
mean = _Family.mean
min = _Family.min
norm = _Family.norm
prod = _Family.prod
reduce = _Family.reduce
std = _Family.std
sum = _Family.sum
var = _Family.var

__all__: list[str]
