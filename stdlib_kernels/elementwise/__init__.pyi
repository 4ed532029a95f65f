"""Written by docs/library_stubs.py."""

from collections.abc import Callable
from typing import Any, overload

import numpy.typing as npt

from kerneldsl import DeviceArray
from stdlib_kernels._kinds import ArrayLike, Foreign, Host, Number

@overload
def astype(x: Host, dtype: npt.DTypeLike | None, *, out: Host | None = None) -> Host: ...
@overload
def astype(
    x: DeviceArray,
    dtype: npt.DTypeLike | None,
    *,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def astype(x: Foreign, dtype: npt.DTypeLike | None, *, out: Foreign | None = None) -> Foreign: ...
@overload
def astype(x: npt.ArrayLike, dtype: npt.DTypeLike | None, *, out: Host | None = None) -> Host: ...
@overload
def clip(
    x: Host,
    min: ArrayLike | Number | None = None,
    max: ArrayLike | Number | None = None,
    out: Host | None = None,
) -> Host: ...
@overload
def clip(
    x: DeviceArray,
    min: DeviceArray | npt.ArrayLike | Number | None = None,
    max: DeviceArray | npt.ArrayLike | Number | None = None,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def clip(
    x: Foreign,
    min: Foreign | npt.ArrayLike | Number | None = None,
    max: Foreign | npt.ArrayLike | Number | None = None,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def clip(
    x: npt.ArrayLike,
    min: ArrayLike | Number | None = None,
    max: ArrayLike | Number | None = None,
    out: Host | None = None,
) -> Host: ...
@overload
def map(
    f: Callable[..., Any],
    *arrays: Host | Number,
    dtype: npt.DTypeLike | None = None,
    out: Host | tuple[Host | None, ...] | None = None,
) -> Any: ...
@overload
def map(
    f: Callable[..., Any],
    *arrays: DeviceArray | Number,
    dtype: npt.DTypeLike | None = None,
    out: DeviceArray | tuple[DeviceArray | None, ...] | None = None,
) -> Any: ...
@overload
def map(
    f: Callable[..., Any],
    *arrays: Foreign | Number,
    dtype: npt.DTypeLike | None = None,
    out: Foreign | tuple[Foreign | None, ...] | None = None,
) -> Any: ...
@overload
def map(
    f: Callable[..., Any],
    *arrays: npt.ArrayLike | Number,
    dtype: npt.DTypeLike | None = None,
    out: Host | tuple[Host | None, ...] | None = None,
) -> Any: ...
@overload
def where(
    condition: Host | Number,
    x: ArrayLike | Number,
    y: ArrayLike | Number,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def where(
    condition: DeviceArray | Number,
    x: DeviceArray | npt.ArrayLike | Number,
    y: DeviceArray | npt.ArrayLike | Number,
    *,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def where(
    condition: Foreign | Number,
    x: Foreign | npt.ArrayLike | Number,
    y: Foreign | npt.ArrayLike | Number,
    *,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def where(
    condition: npt.ArrayLike | Number,
    x: ArrayLike | Number,
    y: ArrayLike | Number,
    *,
    out: Host | None = None,
) -> Host: ...

__all__: list[str]
