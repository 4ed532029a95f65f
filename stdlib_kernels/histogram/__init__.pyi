"""Written by docs/library_stubs.py."""

from collections.abc import Sequence
from typing import Any, overload

import numpy.typing as npt

from kerneldsl import DeviceArray
from stdlib_kernels._kinds import ArrayLike, Foreign, Host

class _Family:
    __all__: list[str]
    @overload
    @staticmethod
    def bincount(x: Host, weights: ArrayLike | None = None, minlength: int = 0) -> Host: ...
    @overload
    @staticmethod
    def bincount(
        x: DeviceArray,
        weights: DeviceArray | npt.ArrayLike | None = None,
        minlength: int = 0,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def bincount(
        x: Foreign,
        weights: Foreign | npt.ArrayLike | None = None,
        minlength: int = 0,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def bincount(x: npt.ArrayLike, weights: ArrayLike | None = None, minlength: int = 0) -> Host: ...
    @overload
    @staticmethod
    def histogram(
        x: Host,
        bins: int | Sequence[float] | ArrayLike = 10,
        range: tuple[float, float] | None = None,
        *,
        weights: ArrayLike | None = None,
        density: bool = False,
    ) -> tuple[Host, Host]: ...
    @overload
    @staticmethod
    def histogram(
        x: DeviceArray,
        bins: int | Sequence[float] | DeviceArray | npt.ArrayLike = 10,
        range: tuple[float, float] | None = None,
        *,
        weights: DeviceArray | npt.ArrayLike | None = None,
        density: bool = False,
    ) -> tuple[DeviceArray, DeviceArray]: ...
    @overload
    @staticmethod
    def histogram(
        x: Foreign,
        bins: int | Sequence[float] | Foreign | npt.ArrayLike = 10,
        range: tuple[float, float] | None = None,
        *,
        weights: Foreign | npt.ArrayLike | None = None,
        density: bool = False,
    ) -> tuple[Foreign, Foreign]: ...
    @overload
    @staticmethod
    def histogram(
        x: npt.ArrayLike,
        bins: int | Sequence[float] | ArrayLike = 10,
        range: tuple[float, float] | None = None,
        *,
        weights: ArrayLike | None = None,
        density: bool = False,
    ) -> tuple[Host, Host]: ...
    @overload
    @staticmethod
    def histogram2d(
        x: Host,
        y: ArrayLike,
        bins: Any = 10,
        range: Any = None,
        *,
        weights: ArrayLike | None = None,
        density: bool = False,
    ) -> tuple[Host, Host, Host]: ...
    @overload
    @staticmethod
    def histogram2d(
        x: DeviceArray,
        y: DeviceArray | npt.ArrayLike,
        bins: Any = 10,
        range: Any = None,
        *,
        weights: DeviceArray | npt.ArrayLike | None = None,
        density: bool = False,
    ) -> tuple[DeviceArray, DeviceArray, DeviceArray]: ...
    @overload
    @staticmethod
    def histogram2d(
        x: Foreign,
        y: Foreign | npt.ArrayLike,
        bins: Any = 10,
        range: Any = None,
        *,
        weights: Foreign | npt.ArrayLike | None = None,
        density: bool = False,
    ) -> tuple[Foreign, Foreign, Foreign]: ...
    @overload
    @staticmethod
    def histogram2d(
        x: npt.ArrayLike,
        y: ArrayLike,
        bins: Any = 10,
        range: Any = None,
        *,
        weights: ArrayLike | None = None,
        density: bool = False,
    ) -> tuple[Host, Host, Host]: ...
    @overload
    def __call__(
        self,
        x: Host,
        bins: int | Sequence[float] | ArrayLike = 10,
        range: tuple[float, float] | None = None,
        *,
        weights: ArrayLike | None = None,
        density: bool = False,
    ) -> tuple[Host, Host]: ...
    @overload
    def __call__(
        self,
        x: DeviceArray,
        bins: int | Sequence[float] | DeviceArray | npt.ArrayLike = 10,
        range: tuple[float, float] | None = None,
        *,
        weights: DeviceArray | npt.ArrayLike | None = None,
        density: bool = False,
    ) -> tuple[DeviceArray, DeviceArray]: ...
    @overload
    def __call__(
        self,
        x: Foreign,
        bins: int | Sequence[float] | Foreign | npt.ArrayLike = 10,
        range: tuple[float, float] | None = None,
        *,
        weights: Foreign | npt.ArrayLike | None = None,
        density: bool = False,
    ) -> tuple[Foreign, Foreign]: ...
    @overload
    def __call__(
        self,
        x: npt.ArrayLike,
        bins: int | Sequence[float] | ArrayLike = 10,
        range: tuple[float, float] | None = None,
        *,
        weights: ArrayLike | None = None,
        density: bool = False,
    ) -> tuple[Host, Host]: ...

bincount = _Family.bincount
histogram = _Family.histogram
histogram2d = _Family.histogram2d

__all__: list[str]
