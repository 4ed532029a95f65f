"""Written by docs/library_stubs.py."""

from collections.abc import Callable
from typing import Any, overload

import numpy.typing as npt

from kerneldsl import DeviceArray
from stdlib_kernels._kinds import ArrayLike, Foreign, Host

class _Family:
    __all__: list[str]
    @overload
    @staticmethod
    def cummax(
        x: Host,
        axis: int | None = None,
        *,
        out: Host | None = None,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def cummax(
        x: DeviceArray,
        axis: int | None = None,
        *,
        out: DeviceArray | None = None,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def cummax(
        x: Foreign,
        axis: int | None = None,
        *,
        out: Foreign | None = None,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def cummax(
        x: npt.ArrayLike,
        axis: int | None = None,
        *,
        out: Host | None = None,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def cummin(
        x: Host,
        axis: int | None = None,
        *,
        out: Host | None = None,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def cummin(
        x: DeviceArray,
        axis: int | None = None,
        *,
        out: DeviceArray | None = None,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def cummin(
        x: Foreign,
        axis: int | None = None,
        *,
        out: Foreign | None = None,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def cummin(
        x: npt.ArrayLike,
        axis: int | None = None,
        *,
        out: Host | None = None,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def cumprod(
        x: Host,
        axis: int | None = None,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        *,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def cumprod(
        x: DeviceArray,
        axis: int | None = None,
        dtype: npt.DTypeLike | None = None,
        out: DeviceArray | None = None,
        *,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def cumprod(
        x: Foreign,
        axis: int | None = None,
        dtype: npt.DTypeLike | None = None,
        out: Foreign | None = None,
        *,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def cumprod(
        x: npt.ArrayLike,
        axis: int | None = None,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        *,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def cumsum(
        x: Host,
        axis: int | None = None,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        *,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def cumsum(
        x: DeviceArray,
        axis: int | None = None,
        dtype: npt.DTypeLike | None = None,
        out: DeviceArray | None = None,
        *,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def cumsum(
        x: Foreign,
        axis: int | None = None,
        dtype: npt.DTypeLike | None = None,
        out: Foreign | None = None,
        *,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def cumsum(
        x: npt.ArrayLike,
        axis: int | None = None,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        *,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def scan(
        x: Host,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: int | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Host: ...
    @overload
    @staticmethod
    def scan(
        x: DeviceArray,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: int | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: DeviceArray | None = None,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def scan(
        x: Foreign,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: int | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Foreign | None = None,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def scan(
        x: npt.ArrayLike,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: int | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Host: ...
    @overload
    def __call__(
        self,
        x: Host,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: int | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Host: ...
    @overload
    def __call__(
        self,
        x: DeviceArray,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: int | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: DeviceArray | None = None,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self,
        x: Foreign,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: int | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Foreign | None = None,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Foreign: ...
    @overload
    def __call__(
        self,
        x: npt.ArrayLike,
        op: Callable[[Any, Any], Any],
        identity: Any,
        axis: int | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Host | None = None,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Host: ...

cummax = _Family.cummax
cummin = _Family.cummin
cumprod = _Family.cumprod
cumsum = _Family.cumsum
scan = _Family.scan

__all__: list[str]
