"""Written by docs/library_stubs.py."""

from typing import overload

import numpy.typing as npt

from kerneldsl import DeviceArray
from stdlib_kernels._kinds import ArrayLike, Foreign, Host

@overload
def equalize(image: Host, *, out: Host | None = None) -> Host: ...
@overload
def equalize(image: DeviceArray, *, out: DeviceArray | None = None) -> DeviceArray: ...
@overload
def equalize(image: Foreign, *, out: Foreign | None = None) -> Foreign: ...
@overload
def equalize(image: npt.ArrayLike, *, out: Host | None = None) -> Host: ...
@overload
def gaussian_blur(
    image: Host,
    sigma: float,
    *,
    truncate: float = 4.0,
    out: Host | None = None,
) -> Host: ...
@overload
def gaussian_blur(
    image: DeviceArray,
    sigma: float,
    *,
    truncate: float = 4.0,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def gaussian_blur(
    image: Foreign,
    sigma: float,
    *,
    truncate: float = 4.0,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def gaussian_blur(
    image: npt.ArrayLike,
    sigma: float,
    *,
    truncate: float = 4.0,
    out: Host | None = None,
) -> Host: ...
@overload
def grey(image: Host, *, out: Host | None = None) -> Host: ...
@overload
def grey(image: DeviceArray, *, out: DeviceArray | None = None) -> DeviceArray: ...
@overload
def grey(image: Foreign, *, out: Foreign | None = None) -> Foreign: ...
@overload
def grey(image: npt.ArrayLike, *, out: Host | None = None) -> Host: ...
@overload
def histogram(image: Host, *, out: Host | None = None) -> Host: ...
@overload
def histogram(image: DeviceArray, *, out: DeviceArray | None = None) -> DeviceArray: ...
@overload
def histogram(image: Foreign, *, out: Foreign | None = None) -> Foreign: ...
@overload
def histogram(image: npt.ArrayLike, *, out: Host | None = None) -> Host: ...
@overload
def sobel(image: Host, *, out: Host | None = None) -> Host: ...
@overload
def sobel(image: DeviceArray, *, out: DeviceArray | None = None) -> DeviceArray: ...
@overload
def sobel(image: Foreign, *, out: Foreign | None = None) -> Foreign: ...
@overload
def sobel(image: npt.ArrayLike, *, out: Host | None = None) -> Host: ...

__all__: list[str]
