"""Written by docs/library_stubs.py."""

from typing import overload

import numpy.typing as npt

from kerneldsl import DeviceArray
from stdlib_kernels._kinds import ArrayLike, Foreign, Host

@overload
def cross_entropy(
    x: Host,
    labels: ArrayLike,
    axis: int = -1,
    *,
    ignore_index: int = -100,
    out: Host | None = None,
) -> Host: ...
@overload
def cross_entropy(
    x: DeviceArray,
    labels: DeviceArray | npt.ArrayLike,
    axis: int = -1,
    *,
    ignore_index: int = -100,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def cross_entropy(
    x: Foreign,
    labels: Foreign | npt.ArrayLike,
    axis: int = -1,
    *,
    ignore_index: int = -100,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def cross_entropy(
    x: npt.ArrayLike,
    labels: ArrayLike,
    axis: int = -1,
    *,
    ignore_index: int = -100,
    out: Host | None = None,
) -> Host: ...
@overload
def cross_entropy_backward(
    grad: Host,
    x: ArrayLike,
    labels: ArrayLike,
    axis: int = -1,
    *,
    ignore_index: int = -100,
) -> Host: ...
@overload
def cross_entropy_backward(
    grad: DeviceArray,
    x: DeviceArray | npt.ArrayLike,
    labels: DeviceArray | npt.ArrayLike,
    axis: int = -1,
    *,
    ignore_index: int = -100,
) -> DeviceArray: ...
@overload
def cross_entropy_backward(
    grad: Foreign,
    x: Foreign | npt.ArrayLike,
    labels: Foreign | npt.ArrayLike,
    axis: int = -1,
    *,
    ignore_index: int = -100,
) -> Foreign: ...
@overload
def cross_entropy_backward(
    grad: npt.ArrayLike,
    x: ArrayLike,
    labels: ArrayLike,
    axis: int = -1,
    *,
    ignore_index: int = -100,
) -> Host: ...
@overload
def layer_norm(
    x: Host,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float = 1e-05,
    out: Host | None = None,
) -> Host: ...
@overload
def layer_norm(
    x: DeviceArray,
    weight: DeviceArray | npt.ArrayLike | None = None,
    bias: DeviceArray | npt.ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float = 1e-05,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def layer_norm(
    x: Foreign,
    weight: Foreign | npt.ArrayLike | None = None,
    bias: Foreign | npt.ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float = 1e-05,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def layer_norm(
    x: npt.ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float = 1e-05,
    out: Host | None = None,
) -> Host: ...
@overload
def layer_norm_backward(
    grad: Host,
    x: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float = 1e-05,
) -> tuple[Host, ...]: ...
@overload
def layer_norm_backward(
    grad: DeviceArray,
    x: DeviceArray | npt.ArrayLike,
    weight: DeviceArray | npt.ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float = 1e-05,
) -> tuple[DeviceArray, ...]: ...
@overload
def layer_norm_backward(
    grad: Foreign,
    x: Foreign | npt.ArrayLike,
    weight: Foreign | npt.ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float = 1e-05,
) -> tuple[Foreign, ...]: ...
@overload
def layer_norm_backward(
    grad: npt.ArrayLike,
    x: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float = 1e-05,
) -> tuple[Host, ...]: ...
@overload
def log_softmax(x: Host, axis: int = -1, *, out: Host | None = None) -> Host: ...
@overload
def log_softmax(
    x: DeviceArray,
    axis: int = -1,
    *,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def log_softmax(x: Foreign, axis: int = -1, *, out: Foreign | None = None) -> Foreign: ...
@overload
def log_softmax(x: npt.ArrayLike, axis: int = -1, *, out: Host | None = None) -> Host: ...
@overload
def log_softmax_backward(grad: Host, y: ArrayLike, axis: int = -1) -> Host: ...
@overload
def log_softmax_backward(
    grad: DeviceArray,
    y: DeviceArray | npt.ArrayLike,
    axis: int = -1,
) -> DeviceArray: ...
@overload
def log_softmax_backward(grad: Foreign, y: Foreign | npt.ArrayLike, axis: int = -1) -> Foreign: ...
@overload
def log_softmax_backward(grad: npt.ArrayLike, y: ArrayLike, axis: int = -1) -> Host: ...
@overload
def rms_norm(
    x: Host,
    weight: ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float | None = None,
    out: Host | None = None,
) -> Host: ...
@overload
def rms_norm(
    x: DeviceArray,
    weight: DeviceArray | npt.ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float | None = None,
    out: DeviceArray | None = None,
) -> DeviceArray: ...
@overload
def rms_norm(
    x: Foreign,
    weight: Foreign | npt.ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float | None = None,
    out: Foreign | None = None,
) -> Foreign: ...
@overload
def rms_norm(
    x: npt.ArrayLike,
    weight: ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float | None = None,
    out: Host | None = None,
) -> Host: ...
@overload
def rms_norm_backward(
    grad: Host,
    x: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float | None = None,
) -> tuple[Host, ...]: ...
@overload
def rms_norm_backward(
    grad: DeviceArray,
    x: DeviceArray | npt.ArrayLike,
    weight: DeviceArray | npt.ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float | None = None,
) -> tuple[DeviceArray, ...]: ...
@overload
def rms_norm_backward(
    grad: Foreign,
    x: Foreign | npt.ArrayLike,
    weight: Foreign | npt.ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float | None = None,
) -> tuple[Foreign, ...]: ...
@overload
def rms_norm_backward(
    grad: npt.ArrayLike,
    x: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float | None = None,
) -> tuple[Host, ...]: ...
@overload
def softmax(x: Host, axis: int = -1, *, out: Host | None = None) -> Host: ...
@overload
def softmax(x: DeviceArray, axis: int = -1, *, out: DeviceArray | None = None) -> DeviceArray: ...
@overload
def softmax(x: Foreign, axis: int = -1, *, out: Foreign | None = None) -> Foreign: ...
@overload
def softmax(x: npt.ArrayLike, axis: int = -1, *, out: Host | None = None) -> Host: ...
@overload
def softmax_backward(grad: Host, y: ArrayLike, axis: int = -1) -> Host: ...
@overload
def softmax_backward(
    grad: DeviceArray,
    y: DeviceArray | npt.ArrayLike,
    axis: int = -1,
) -> DeviceArray: ...
@overload
def softmax_backward(grad: Foreign, y: Foreign | npt.ArrayLike, axis: int = -1) -> Foreign: ...
@overload
def softmax_backward(grad: npt.ArrayLike, y: ArrayLike, axis: int = -1) -> Host: ...

__all__: list[str]
