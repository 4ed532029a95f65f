"""Written by docs/library_stubs.py."""

from typing import Any, overload

import numpy as np
import numpy.typing as npt

from kerneldsl import DeviceArray
from stdlib_kernels._kinds import ArrayLike, Foreign, Host

@overload
def attention(
    q: Host,
    k: ArrayLike,
    v: ArrayLike,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    lengths: ArrayLike | None = None,
    query_lengths: ArrayLike | None = None,
    pages: ArrayLike | None = None,
    out: Host | None = None,
    return_statistics: bool = False,
) -> Host: ...
@overload
def attention(
    q: DeviceArray,
    k: DeviceArray | npt.ArrayLike,
    v: DeviceArray | npt.ArrayLike,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    lengths: DeviceArray | npt.ArrayLike | None = None,
    query_lengths: DeviceArray | npt.ArrayLike | None = None,
    pages: DeviceArray | npt.ArrayLike | None = None,
    out: DeviceArray | None = None,
    return_statistics: bool = False,
) -> DeviceArray: ...
@overload
def attention(
    q: Foreign,
    k: Foreign | npt.ArrayLike,
    v: Foreign | npt.ArrayLike,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    lengths: Foreign | npt.ArrayLike | None = None,
    query_lengths: Foreign | npt.ArrayLike | None = None,
    pages: Foreign | npt.ArrayLike | None = None,
    out: Foreign | None = None,
    return_statistics: bool = False,
) -> Foreign: ...
@overload
def attention(
    q: npt.ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    lengths: ArrayLike | None = None,
    query_lengths: ArrayLike | None = None,
    pages: ArrayLike | None = None,
    out: Host | None = None,
    return_statistics: bool = False,
) -> Host: ...
@overload
def attention_backward(
    grad: Host,
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    out: Host,
    statistics: ArrayLike,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    lengths: ArrayLike | None = None,
    query_lengths: ArrayLike | None = None,
) -> tuple[Host, ...]: ...
@overload
def attention_backward(
    grad: DeviceArray,
    q: DeviceArray | npt.ArrayLike,
    k: DeviceArray | npt.ArrayLike,
    v: DeviceArray | npt.ArrayLike,
    out: DeviceArray,
    statistics: DeviceArray | npt.ArrayLike,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    lengths: DeviceArray | npt.ArrayLike | None = None,
    query_lengths: DeviceArray | npt.ArrayLike | None = None,
) -> tuple[DeviceArray, ...]: ...
@overload
def attention_backward(
    grad: Foreign,
    q: Foreign | npt.ArrayLike,
    k: Foreign | npt.ArrayLike,
    v: Foreign | npt.ArrayLike,
    out: Foreign,
    statistics: Foreign | npt.ArrayLike,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    lengths: Foreign | npt.ArrayLike | None = None,
    query_lengths: Foreign | npt.ArrayLike | None = None,
) -> tuple[Foreign, ...]: ...
@overload
def attention_backward(
    grad: npt.ArrayLike,
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    out: Host,
    statistics: ArrayLike,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    lengths: ArrayLike | None = None,
    query_lengths: ArrayLike | None = None,
) -> tuple[Host, ...]: ...
@overload
def dot(x: Host, y: ArrayLike, out: None = None) -> np.number[Any]: ...
@overload
def dot(x: Host, y: ArrayLike, out: Host | None = None) -> Host: ...
@overload
def dot(
    x: DeviceArray,
    y: DeviceArray | npt.ArrayLike,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def dot(x: Foreign, y: Foreign | npt.ArrayLike, out: Foreign | None = None) -> Foreign: ...
@overload
def dot(x: npt.ArrayLike, y: ArrayLike, out: None = None) -> np.number[Any]: ...
@overload
def dot(x: npt.ArrayLike, y: ArrayLike, out: Host | None = None) -> Host: ...
@overload
def matmul(a: Host, b: ArrayLike, out: Host | None = None) -> Host: ...
@overload
def matmul(
    a: DeviceArray,
    b: DeviceArray | npt.ArrayLike,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def matmul(a: Foreign, b: Foreign | npt.ArrayLike, out: Foreign | None = None) -> Foreign: ...
@overload
def matmul(a: npt.ArrayLike, b: ArrayLike, out: Host | None = None) -> Host: ...
@overload
def transpose(a: Host, *, out: Host | None = None) -> Host: ...
@overload
def transpose(a: DeviceArray, *, out: DeviceArray | None = None) -> DeviceArray: ...
@overload
def transpose(a: Foreign, *, out: Foreign | None = None) -> Foreign: ...
@overload
def transpose(a: npt.ArrayLike, *, out: Host | None = None) -> Host: ...

__all__: list[str]
