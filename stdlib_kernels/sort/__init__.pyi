"""Written by docs/library_stubs.py."""

from typing import overload

import numpy.typing as npt

from kerneldsl import DeviceArray
from stdlib_kernels._kinds import ArrayLike, Foreign, Host, Number

class _Family:
    __all__: list[str]
    @overload
    @staticmethod
    def argsort(
        x: Host,
        axis: int | None = -1,
        kind: str | None = None,
        *,
        stable: bool | None = None,
        descending: bool = False,
        out: Host | None = None,
    ) -> Host: ...
    @overload
    @staticmethod
    def argsort(
        x: DeviceArray,
        axis: int | None = -1,
        kind: str | None = None,
        *,
        stable: bool | None = None,
        descending: bool = False,
        out: DeviceArray | None = None,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def argsort(
        x: Foreign,
        axis: int | None = -1,
        kind: str | None = None,
        *,
        stable: bool | None = None,
        descending: bool = False,
        out: Foreign | None = None,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def argsort(
        x: npt.ArrayLike,
        axis: int | None = -1,
        kind: str | None = None,
        *,
        stable: bool | None = None,
        descending: bool = False,
        out: Host | None = None,
    ) -> Host: ...
    @overload
    @staticmethod
    def merge(x: Host, y: ArrayLike, *, out: Host | None = None) -> Host: ...
    @overload
    @staticmethod
    def merge(
        x: DeviceArray,
        y: DeviceArray | npt.ArrayLike,
        *,
        out: DeviceArray | None = None,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def merge(x: Foreign, y: Foreign | npt.ArrayLike, *, out: Foreign | None = None) -> Foreign: ...
    @overload
    @staticmethod
    def merge(x: npt.ArrayLike, y: ArrayLike, *, out: Host | None = None) -> Host: ...
    @overload
    @staticmethod
    def searchsorted(
        x: Host,
        v: ArrayLike | Number,
        side: str = 'left',
        *,
        sorter: ArrayLike | None = None,
        out: Host | None = None,
    ) -> Host: ...
    @overload
    @staticmethod
    def searchsorted(
        x: DeviceArray,
        v: DeviceArray | npt.ArrayLike | Number,
        side: str = 'left',
        *,
        sorter: DeviceArray | npt.ArrayLike | None = None,
        out: DeviceArray | None = None,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def searchsorted(
        x: Foreign,
        v: Foreign | npt.ArrayLike | Number,
        side: str = 'left',
        *,
        sorter: Foreign | npt.ArrayLike | None = None,
        out: Foreign | None = None,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def searchsorted(
        x: npt.ArrayLike,
        v: ArrayLike | Number,
        side: str = 'left',
        *,
        sorter: ArrayLike | None = None,
        out: Host | None = None,
    ) -> Host: ...
    @overload
    @staticmethod
    def sort(
        x: Host,
        axis: int | None = -1,
        kind: str | None = None,
        *,
        stable: bool | None = None,
        descending: bool = False,
        out: Host | None = None,
    ) -> Host: ...
    @overload
    @staticmethod
    def sort(
        x: DeviceArray,
        axis: int | None = -1,
        kind: str | None = None,
        *,
        stable: bool | None = None,
        descending: bool = False,
        out: DeviceArray | None = None,
    ) -> DeviceArray: ...
    @overload
    @staticmethod
    def sort(
        x: Foreign,
        axis: int | None = -1,
        kind: str | None = None,
        *,
        stable: bool | None = None,
        descending: bool = False,
        out: Foreign | None = None,
    ) -> Foreign: ...
    @overload
    @staticmethod
    def sort(
        x: npt.ArrayLike,
        axis: int | None = -1,
        kind: str | None = None,
        *,
        stable: bool | None = None,
        descending: bool = False,
        out: Host | None = None,
    ) -> Host: ...
    @overload
    @staticmethod
    def sort_pairs(
        keys: Host,
        values: ArrayLike,
        axis: int | None = -1,
        *,
        descending: bool = False,
    ) -> tuple[Host, Host]: ...
    @overload
    @staticmethod
    def sort_pairs(
        keys: DeviceArray,
        values: DeviceArray | npt.ArrayLike,
        axis: int | None = -1,
        *,
        descending: bool = False,
    ) -> tuple[DeviceArray, DeviceArray]: ...
    @overload
    @staticmethod
    def sort_pairs(
        keys: Foreign,
        values: Foreign | npt.ArrayLike,
        axis: int | None = -1,
        *,
        descending: bool = False,
    ) -> tuple[Foreign, Foreign]: ...
    @overload
    @staticmethod
    def sort_pairs(
        keys: npt.ArrayLike,
        values: ArrayLike,
        axis: int | None = -1,
        *,
        descending: bool = False,
    ) -> tuple[Host, Host]: ...
    @overload
    @staticmethod
    def top_k(x: Host, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Host, Host]: ...
    @overload
    @staticmethod
    def top_k(
        x: DeviceArray,
        k: int,
        axis: int = -1,
        *,
        largest: bool = True,
    ) -> tuple[DeviceArray, DeviceArray]: ...
    @overload
    @staticmethod
    def top_k(
        x: Foreign,
        k: int,
        axis: int = -1,
        *,
        largest: bool = True,
    ) -> tuple[Foreign, Foreign]: ...
    @overload
    @staticmethod
    def top_k(
        x: npt.ArrayLike,
        k: int,
        axis: int = -1,
        *,
        largest: bool = True,
    ) -> tuple[Host, Host]: ...
    @overload
    def __call__(
        self,
        x: Host,
        axis: int | None = -1,
        kind: str | None = None,
        *,
        stable: bool | None = None,
        descending: bool = False,
        out: Host | None = None,
    ) -> Host: ...
    @overload
    def __call__(
        self,
        x: DeviceArray,
        axis: int | None = -1,
        kind: str | None = None,
        *,
        stable: bool | None = None,
        descending: bool = False,
        out: DeviceArray | None = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self,
        x: Foreign,
        axis: int | None = -1,
        kind: str | None = None,
        *,
        stable: bool | None = None,
        descending: bool = False,
        out: Foreign | None = None,
    ) -> Foreign: ...
    @overload
    def __call__(
        self,
        x: npt.ArrayLike,
        axis: int | None = -1,
        kind: str | None = None,
        *,
        stable: bool | None = None,
        descending: bool = False,
        out: Host | None = None,
    ) -> Host: ...

argsort = _Family.argsort
merge = _Family.merge
searchsorted = _Family.searchsorted
sort = _Family.sort
sort_pairs = _Family.sort_pairs
top_k = _Family.top_k

__all__: list[str]
