"""Written by docs/library_stubs.py."""
from stdlib_kernels.quantized.gguf import read_gguf as read_gguf

from typing import Any, overload

import numpy.typing as npt

from kerneldsl import DeviceArray
from stdlib_kernels._kinds import ArrayLike, Foreign, Host

@overload
def dequantize(
    words: Host,
    scales: ArrayLike,
    zeros: ArrayLike | None = None,
    *,
    format: str,
    count: int | None = None,
    dtype: npt.DTypeLike | None = None,
) -> Host: ...
@overload
def dequantize(
    words: DeviceArray,
    scales: DeviceArray | npt.ArrayLike,
    zeros: DeviceArray | npt.ArrayLike | None = None,
    *,
    format: str,
    count: int | None = None,
    dtype: npt.DTypeLike | None = None,
) -> DeviceArray: ...
@overload
def dequantize(
    words: Foreign,
    scales: Foreign | npt.ArrayLike,
    zeros: Foreign | npt.ArrayLike | None = None,
    *,
    format: str,
    count: int | None = None,
    dtype: npt.DTypeLike | None = None,
) -> Foreign: ...
@overload
def dequantize(
    words: npt.ArrayLike,
    scales: ArrayLike,
    zeros: ArrayLike | None = None,
    *,
    format: str,
    count: int | None = None,
    dtype: npt.DTypeLike | None = None,
) -> Host: ...
@overload
def matmul(
    x: Host,
    words: ArrayLike,
    scales: ArrayLike,
    zeros: ArrayLike | None = None,
    *,
    format: str,
    x_scales: ArrayLike | None = None,
    dtype: npt.DTypeLike | None = None,
    out: Host | None = None,
) -> Host: ...
@overload
def matmul(
    x: DeviceArray,
    words: DeviceArray | npt.ArrayLike,
    scales: DeviceArray | npt.ArrayLike,
    zeros: DeviceArray | npt.ArrayLike | None = None,
    *,
    format: str,
    x_scales: DeviceArray | npt.ArrayLike | None = None,
    dtype: npt.DTypeLike | None = None,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def matmul(
    x: Foreign,
    words: Foreign | npt.ArrayLike,
    scales: Foreign | npt.ArrayLike,
    zeros: Foreign | npt.ArrayLike | None = None,
    *,
    format: str,
    x_scales: Foreign | npt.ArrayLike | None = None,
    dtype: npt.DTypeLike | None = None,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def matmul(
    x: npt.ArrayLike,
    words: ArrayLike,
    scales: ArrayLike,
    zeros: ArrayLike | None = None,
    *,
    format: str,
    x_scales: ArrayLike | None = None,
    dtype: npt.DTypeLike | None = None,
    out: Host | None = None,
) -> Host: ...
@overload
def pack(codes: Host, format: str) -> Host: ...
@overload
def pack(codes: DeviceArray, format: str) -> DeviceArray: ...
@overload
def pack(codes: Foreign, format: str) -> Foreign: ...
@overload
def pack(codes: npt.ArrayLike, format: str) -> Host: ...
@overload
def quantize(x: Host, format: str, group: Any = None) -> tuple[Host, Host, Host]: ...
@overload
def quantize(
    x: DeviceArray,
    format: str,
    group: Any = None,
) -> tuple[DeviceArray, DeviceArray, DeviceArray]: ...
@overload
def quantize(x: Foreign, format: str, group: Any = None) -> tuple[Foreign, Foreign, Foreign]: ...
@overload
def quantize(x: npt.ArrayLike, format: str, group: Any = None) -> tuple[Host, Host, Host]: ...
@overload
def unpack(words: Host, format: str, count: int | None = None) -> Host: ...
@overload
def unpack(words: DeviceArray, format: str, count: int | None = None) -> DeviceArray: ...
@overload
def unpack(words: Foreign, format: str, count: int | None = None) -> Foreign: ...
@overload
def unpack(words: npt.ArrayLike, format: str, count: int | None = None) -> Host: ...

__all__: list[str]
