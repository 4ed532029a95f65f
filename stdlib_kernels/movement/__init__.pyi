"""Written by docs/library_stubs.py."""

from collections.abc import Sequence
from typing import Any, overload

import numpy.typing as npt

from kerneldsl import DeviceArray
from stdlib_kernels._kinds import ArrayLike, Foreign, Host, Ints

@overload
def concatenate(
    arrays: Sequence[Host],
    axis: int | None = 0,
    out: Host | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    casting: str = 'same_kind',
) -> Host: ...
@overload
def concatenate(
    arrays: Sequence[DeviceArray],
    axis: int | None = 0,
    out: DeviceArray | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    casting: str = 'same_kind',
) -> DeviceArray: ...
@overload
def concatenate(
    arrays: Sequence[Foreign],
    axis: int | None = 0,
    out: Foreign | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    casting: str = 'same_kind',
) -> Foreign: ...
@overload
def concatenate(
    arrays: Sequence[npt.ArrayLike],
    axis: int | None = 0,
    out: Host | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    casting: str = 'same_kind',
) -> Host: ...
@overload
def flip(x: Host, axis: Ints | None = None) -> Host: ...
@overload
def flip(x: DeviceArray, axis: Ints | None = None) -> DeviceArray: ...
@overload
def flip(x: Foreign, axis: Ints | None = None) -> Foreign: ...
@overload
def flip(x: npt.ArrayLike, axis: Ints | None = None) -> Host: ...
@overload
def pad(
    x: Host,
    pad_width: Any,
    mode: str = 'constant',
    *,
    constant_values: Any = 0,
    end_values: Any = 0,
    stat_length: Any = None,
    reflect_type: str = 'even',
) -> Host: ...
@overload
def pad(
    x: DeviceArray,
    pad_width: Any,
    mode: str = 'constant',
    *,
    constant_values: Any = 0,
    end_values: Any = 0,
    stat_length: Any = None,
    reflect_type: str = 'even',
) -> DeviceArray: ...
@overload
def pad(
    x: Foreign,
    pad_width: Any,
    mode: str = 'constant',
    *,
    constant_values: Any = 0,
    end_values: Any = 0,
    stat_length: Any = None,
    reflect_type: str = 'even',
) -> Foreign: ...
@overload
def pad(
    x: npt.ArrayLike,
    pad_width: Any,
    mode: str = 'constant',
    *,
    constant_values: Any = 0,
    end_values: Any = 0,
    stat_length: Any = None,
    reflect_type: str = 'even',
) -> Host: ...
@overload
def permute(x: Host, axes: tuple[int, ...] | None = None, *, out: Host | None = None) -> Host: ...
@overload
def permute(
    x: DeviceArray,
    axes: tuple[int, ...] | None = None,
    *,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def permute(
    x: Foreign,
    axes: tuple[int, ...] | None = None,
    *,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def permute(
    x: npt.ArrayLike,
    axes: tuple[int, ...] | None = None,
    *,
    out: Host | None = None,
) -> Host: ...
@overload
def put_along_axis(
    x: Host,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int = -1,
    *,
    mode: str = 'raise',
    combine: str = 'replace',
) -> Host: ...
@overload
def put_along_axis(
    x: DeviceArray,
    indices: DeviceArray | npt.ArrayLike,
    values: DeviceArray | npt.ArrayLike,
    axis: int = -1,
    *,
    mode: str = 'raise',
    combine: str = 'replace',
) -> DeviceArray: ...
@overload
def put_along_axis(
    x: Foreign,
    indices: Foreign | npt.ArrayLike,
    values: Foreign | npt.ArrayLike,
    axis: int = -1,
    *,
    mode: str = 'raise',
    combine: str = 'replace',
) -> Foreign: ...
@overload
def put_along_axis(
    x: npt.ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int = -1,
    *,
    mode: str = 'raise',
    combine: str = 'replace',
) -> Host: ...
@overload
def repeat(x: Host, repeats: Any, axis: int | None = None) -> Host: ...
@overload
def repeat(x: DeviceArray, repeats: Any, axis: int | None = None) -> DeviceArray: ...
@overload
def repeat(x: Foreign, repeats: Any, axis: int | None = None) -> Foreign: ...
@overload
def repeat(x: npt.ArrayLike, repeats: Any, axis: int | None = None) -> Host: ...
@overload
def roll(x: Host, shift: Any, axis: Ints | None = None) -> Host: ...
@overload
def roll(x: DeviceArray, shift: Any, axis: Ints | None = None) -> DeviceArray: ...
@overload
def roll(x: Foreign, shift: Any, axis: Ints | None = None) -> Foreign: ...
@overload
def roll(x: npt.ArrayLike, shift: Any, axis: Ints | None = None) -> Host: ...
@overload
def stack(
    arrays: Sequence[Host],
    axis: int = 0,
    out: Host | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    casting: str = 'same_kind',
) -> Host: ...
@overload
def stack(
    arrays: Sequence[DeviceArray],
    axis: int = 0,
    out: DeviceArray | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    casting: str = 'same_kind',
) -> DeviceArray: ...
@overload
def stack(
    arrays: Sequence[Foreign],
    axis: int = 0,
    out: Foreign | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    casting: str = 'same_kind',
) -> Foreign: ...
@overload
def stack(
    arrays: Sequence[npt.ArrayLike],
    axis: int = 0,
    out: Host | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    casting: str = 'same_kind',
) -> Host: ...
@overload
def take(
    x: Host,
    indices: ArrayLike,
    axis: int | None = None,
    *,
    mode: str = 'raise',
    out: Host | None = None,
) -> Host: ...
@overload
def take(
    x: DeviceArray,
    indices: DeviceArray | npt.ArrayLike,
    axis: int | None = None,
    *,
    mode: str = 'raise',
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def take(
    x: Foreign,
    indices: Foreign | npt.ArrayLike,
    axis: int | None = None,
    *,
    mode: str = 'raise',
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def take(
    x: npt.ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    *,
    mode: str = 'raise',
    out: Host | None = None,
) -> Host: ...
@overload
def take_along_axis(
    x: Host,
    indices: ArrayLike,
    axis: int | None = -1,
    *,
    mode: str = 'raise',
    out: Host | None = None,
) -> Host: ...
@overload
def take_along_axis(
    x: DeviceArray,
    indices: DeviceArray | npt.ArrayLike,
    axis: int | None = -1,
    *,
    mode: str = 'raise',
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def take_along_axis(
    x: Foreign,
    indices: Foreign | npt.ArrayLike,
    axis: int | None = -1,
    *,
    mode: str = 'raise',
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def take_along_axis(
    x: npt.ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    *,
    mode: str = 'raise',
    out: Host | None = None,
) -> Host: ...
@overload
def tile(x: Host, reps: Ints) -> Host: ...
@overload
def tile(x: DeviceArray, reps: Ints) -> DeviceArray: ...
@overload
def tile(x: Foreign, reps: Ints) -> Foreign: ...
@overload
def tile(x: npt.ArrayLike, reps: Ints) -> Host: ...

__all__: list[str]
