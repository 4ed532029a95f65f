"""Written by docs/library_stubs.py."""

from typing import Any, overload

import numpy.typing as npt

from kerneldsl import DeviceArray
from stdlib_kernels._kinds import ArrayLike, Foreign, Host, Ints

@overload
def convolve(
    x: Host,
    weights: Any,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def convolve(
    x: DeviceArray,
    weights: Any,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def convolve(
    x: Foreign,
    weights: Any,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def convolve(
    x: npt.ArrayLike,
    weights: Any,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def convolve1d(
    x: Host,
    weights: Any,
    axis: int = -1,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: int = 0,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def convolve1d(
    x: DeviceArray,
    weights: Any,
    axis: int = -1,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: int = 0,
    *,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def convolve1d(
    x: Foreign,
    weights: Any,
    axis: int = -1,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: int = 0,
    *,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def convolve1d(
    x: npt.ArrayLike,
    weights: Any,
    axis: int = -1,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: int = 0,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def correlate(
    x: Host,
    weights: Any,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def correlate(
    x: DeviceArray,
    weights: Any,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def correlate(
    x: Foreign,
    weights: Any,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def correlate(
    x: npt.ArrayLike,
    weights: Any,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def correlate1d(
    x: Host,
    weights: Any,
    axis: int = -1,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: int = 0,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def correlate1d(
    x: DeviceArray,
    weights: Any,
    axis: int = -1,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: int = 0,
    *,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def correlate1d(
    x: Foreign,
    weights: Any,
    axis: int = -1,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: int = 0,
    *,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def correlate1d(
    x: npt.ArrayLike,
    weights: Any,
    axis: int = -1,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: int = 0,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def gaussian_filter(
    x: Host,
    sigma: float | tuple[float, ...],
    *,
    mode: str | tuple[str, ...] = 'reflect',
    cval: float = 0.0,
    truncate: float = 4.0,
    out: Host | None = None,
) -> Host: ...
@overload
def gaussian_filter(
    x: DeviceArray,
    sigma: float | tuple[float, ...],
    *,
    mode: str | tuple[str, ...] = 'reflect',
    cval: float = 0.0,
    truncate: float = 4.0,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def gaussian_filter(
    x: Foreign,
    sigma: float | tuple[float, ...],
    *,
    mode: str | tuple[str, ...] = 'reflect',
    cval: float = 0.0,
    truncate: float = 4.0,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def gaussian_filter(
    x: npt.ArrayLike,
    sigma: float | tuple[float, ...],
    *,
    mode: str | tuple[str, ...] = 'reflect',
    cval: float = 0.0,
    truncate: float = 4.0,
    out: Host | None = None,
) -> Host: ...
@overload
def laplace(
    x: Host,
    mode: str = 'reflect',
    cval: float = 0.0,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def laplace(
    x: DeviceArray,
    mode: str = 'reflect',
    cval: float = 0.0,
    *,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def laplace(
    x: Foreign,
    mode: str = 'reflect',
    cval: float = 0.0,
    *,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def laplace(
    x: npt.ArrayLike,
    mode: str = 'reflect',
    cval: float = 0.0,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def maximum_filter(
    x: Host,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: ArrayLike | None = None,
    out: Host | None = None,
) -> Host: ...
@overload
def maximum_filter(
    x: DeviceArray,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: DeviceArray | npt.ArrayLike | None = None,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def maximum_filter(
    x: Foreign,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: Foreign | npt.ArrayLike | None = None,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def maximum_filter(
    x: npt.ArrayLike,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: ArrayLike | None = None,
    out: Host | None = None,
) -> Host: ...
@overload
def median_filter(
    x: Host,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: ArrayLike | None = None,
    out: Host | None = None,
) -> Host: ...
@overload
def median_filter(
    x: DeviceArray,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: DeviceArray | npt.ArrayLike | None = None,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def median_filter(
    x: Foreign,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: Foreign | npt.ArrayLike | None = None,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def median_filter(
    x: npt.ArrayLike,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: ArrayLike | None = None,
    out: Host | None = None,
) -> Host: ...
@overload
def minimum_filter(
    x: Host,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: ArrayLike | None = None,
    out: Host | None = None,
) -> Host: ...
@overload
def minimum_filter(
    x: DeviceArray,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: DeviceArray | npt.ArrayLike | None = None,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def minimum_filter(
    x: Foreign,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: Foreign | npt.ArrayLike | None = None,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def minimum_filter(
    x: npt.ArrayLike,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: ArrayLike | None = None,
    out: Host | None = None,
) -> Host: ...
@overload
def percentile_filter(
    x: Host,
    percentile: float,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: ArrayLike | None = None,
    out: Host | None = None,
) -> Host: ...
@overload
def percentile_filter(
    x: DeviceArray,
    percentile: float,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: DeviceArray | npt.ArrayLike | None = None,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def percentile_filter(
    x: Foreign,
    percentile: float,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: Foreign | npt.ArrayLike | None = None,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def percentile_filter(
    x: npt.ArrayLike,
    percentile: float,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: ArrayLike | None = None,
    out: Host | None = None,
) -> Host: ...
@overload
def prewitt(
    x: Host,
    axis: int = -1,
    mode: str | tuple[str, ...] = 'reflect',
    cval: float = 0.0,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def prewitt(
    x: DeviceArray,
    axis: int = -1,
    mode: str | tuple[str, ...] = 'reflect',
    cval: float = 0.0,
    *,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def prewitt(
    x: Foreign,
    axis: int = -1,
    mode: str | tuple[str, ...] = 'reflect',
    cval: float = 0.0,
    *,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def prewitt(
    x: npt.ArrayLike,
    axis: int = -1,
    mode: str | tuple[str, ...] = 'reflect',
    cval: float = 0.0,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def rank_filter(
    x: Host,
    rank: int,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: ArrayLike | None = None,
    out: Host | None = None,
) -> Host: ...
@overload
def rank_filter(
    x: DeviceArray,
    rank: int,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: DeviceArray | npt.ArrayLike | None = None,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def rank_filter(
    x: Foreign,
    rank: int,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: Foreign | npt.ArrayLike | None = None,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def rank_filter(
    x: npt.ArrayLike,
    rank: int,
    size: Ints = 3,
    mode: str = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: ArrayLike | None = None,
    out: Host | None = None,
) -> Host: ...
@overload
def sobel(
    x: Host,
    axis: int = -1,
    mode: str | tuple[str, ...] = 'reflect',
    cval: float = 0.0,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def sobel(
    x: DeviceArray,
    axis: int = -1,
    mode: str | tuple[str, ...] = 'reflect',
    cval: float = 0.0,
    *,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def sobel(
    x: Foreign,
    axis: int = -1,
    mode: str | tuple[str, ...] = 'reflect',
    cval: float = 0.0,
    *,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def sobel(
    x: npt.ArrayLike,
    axis: int = -1,
    mode: str | tuple[str, ...] = 'reflect',
    cval: float = 0.0,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def uniform_filter(
    x: Host,
    size: Ints = 3,
    mode: str | tuple[str, ...] = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def uniform_filter(
    x: DeviceArray,
    size: Ints = 3,
    mode: str | tuple[str, ...] = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def uniform_filter(
    x: Foreign,
    size: Ints = 3,
    mode: str | tuple[str, ...] = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def uniform_filter(
    x: npt.ArrayLike,
    size: Ints = 3,
    mode: str | tuple[str, ...] = 'reflect',
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    out: Host | None = None,
) -> Host: ...

__all__: list[str]
