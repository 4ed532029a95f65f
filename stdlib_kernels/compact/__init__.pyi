"""Written by docs/library_stubs.py."""

from typing import Literal, overload

import numpy.typing as npt

from kerneldsl import DeviceArray
from stdlib_kernels._kinds import ArrayLike, Foreign, Host

@overload
def compress(
    condition: Host,
    x: ArrayLike,
    axis: int | None = None,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def compress(
    condition: DeviceArray,
    x: DeviceArray | npt.ArrayLike,
    axis: int | None = None,
    *,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def compress(
    condition: Foreign,
    x: Foreign | npt.ArrayLike,
    axis: int | None = None,
    *,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def compress(
    condition: npt.ArrayLike,
    x: ArrayLike,
    axis: int | None = None,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def flatnonzero(x: Host) -> Host: ...
@overload
def flatnonzero(x: DeviceArray) -> DeviceArray: ...
@overload
def flatnonzero(x: Foreign) -> Foreign: ...
@overload
def flatnonzero(x: npt.ArrayLike) -> Host: ...
@overload
def nonzero(x: Host) -> tuple[Host, ...]: ...
@overload
def nonzero(x: DeviceArray) -> tuple[DeviceArray, ...]: ...
@overload
def nonzero(x: Foreign) -> tuple[Foreign, ...]: ...
@overload
def nonzero(x: npt.ArrayLike) -> tuple[Host, ...]: ...
@overload
def partition(condition: Host, x: ArrayLike) -> tuple[Host, int]: ...
@overload
def partition(
    condition: DeviceArray,
    x: DeviceArray | npt.ArrayLike,
) -> tuple[DeviceArray, int]: ...
@overload
def partition(condition: Foreign, x: Foreign | npt.ArrayLike) -> tuple[Foreign, int]: ...
@overload
def partition(condition: npt.ArrayLike, x: ArrayLike) -> tuple[Host, int]: ...
@overload
def run_length(x: Host) -> tuple[Host, Host]: ...
@overload
def run_length(x: DeviceArray) -> tuple[DeviceArray, DeviceArray]: ...
@overload
def run_length(x: Foreign) -> tuple[Foreign, Foreign]: ...
@overload
def run_length(x: npt.ArrayLike) -> tuple[Host, Host]: ...
@overload
def unique(
    x: Host,
    return_index: Literal[False] = False,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
) -> Host: ...
@overload
def unique(
    x: Host,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
) -> tuple[Host, ...]: ...
@overload
def unique(
    x: DeviceArray,
    return_index: Literal[False] = False,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
) -> DeviceArray: ...
@overload
def unique(
    x: DeviceArray,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
) -> tuple[DeviceArray, ...]: ...
@overload
def unique(
    x: Foreign,
    return_index: Literal[False] = False,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
) -> Foreign: ...
@overload
def unique(
    x: Foreign,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
) -> tuple[Foreign, ...]: ...
@overload
def unique(
    x: npt.ArrayLike,
    return_index: Literal[False] = False,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
) -> Host: ...
@overload
def unique(
    x: npt.ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
) -> tuple[Host, ...]: ...

__all__: list[str]
