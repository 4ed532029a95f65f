"""Arrays of filters, which the functions have in common."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from stdlib_kernels.arrays import (
    Array,
    allocate,
    check_array,
    check_out,
    destination,
    finish,
    is_contiguous,
    on_device,
)

__all__ = ["checked", "delivered", "per_axis", "weights_on"]

#: Bytes of weights up to which a device keeps them.
MAX_KEPT_BYTES = 1 << 16


def checked(x: Array, out: Array | None, dtype: np.dtype[Any] | None = None) -> tuple[Array, Array]:
    """Check what is filtered and where it goes, and return both where kernels can reach them."""
    check_array("x", x, kinds="iuf", halves=True)
    shape, kind = tuple(x.shape), x.dtype if dtype is None else dtype
    check_out(out, like=x, shape=shape, dtype=kind)
    source = on_device(x)
    if out is None or not is_contiguous(out):
        return source, allocate(source, shape, kind)
    return source, destination(source, shape, kind, out)


def delivered(result: Array, x: Array, out: Array | None) -> Any:
    """Return a result as the caller wants it."""
    return out if result is out else finish(result, like=x, out=out)


def per_axis(name: str, value: Any, ndim: int) -> tuple[Any, ...]:
    """Return one value for each axis, of one for all or a sequence."""
    found = tuple(value) if isinstance(value, tuple | list) else (value,) * ndim
    if len(found) != ndim:
        raise ArgumentValueError(
            f"{name} has {len(found)} values",
            value=value,
            limit=f"There is one for all axes, or for each of the {ndim}",
        )
    return found


def weights_on(x: Array, weights: np.ndarray[Any, Any]) -> Array:
    """Return weights beside an array: what a device was given lately is still there.

    A copy to a GPU would have the host wait for what the GPU has to do before.
    """
    if isinstance(x, np.ndarray):
        return np.ascontiguousarray(weights)
    if weights.nbytes > MAX_KEPT_BYTES:
        return kd.to_device(weights, device=x.device)
    found = _uploaded(x.device, weights.dtype, weights.tobytes())
    if found.is_closed:
        _uploaded.cache_clear()
        found = _uploaded(x.device, weights.dtype, weights.tobytes())
    return found


@lru_cache(64)
def _uploaded(device: kd.Device, dtype: np.dtype[Any], numbers: bytes) -> kd.DeviceArray:
    return kd.to_device(np.frombuffer(numbers, dtype), device=device)
