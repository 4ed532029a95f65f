"""numba.cuda.random: states on the device, and the functions of kernels that draw from them."""

from __future__ import annotations

from typing import Any

from kerneldsl.compat.numba_cuda.arrays import DeviceNDArray
from kerneldsl.compat.numba_cuda.streams import stream_of
from kerneldsl.random import create_xoroshiro128p_states as _create
from kerneldsl.random import init_xoroshiro128p_states as _init
from kerneldsl.random import (
    xoroshiro128p_dtype,
    xoroshiro128p_next,
    xoroshiro128p_normal_float32,
    xoroshiro128p_normal_float64,
    xoroshiro128p_uniform_float32,
    xoroshiro128p_uniform_float64,
)

__all__ = [
    "create_xoroshiro128p_states",
    "init_xoroshiro128p_states",
    "xoroshiro128p_dtype",
    "xoroshiro128p_next",
    "xoroshiro128p_normal_float32",
    "xoroshiro128p_normal_float64",
    "xoroshiro128p_uniform_float32",
    "xoroshiro128p_uniform_float64",
]


def __getattr__(name: str) -> Any:
    if name != "xoroshiro128p_type":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kerneldsl.compat.numba_cuda.typing import type_of_dtype

    return type_of_dtype(xoroshiro128p_dtype)


def create_xoroshiro128p_states(
    n: int, seed: int, subsequence_start: int = 0, stream: Any = 0
) -> DeviceNDArray:
    """Make the states of `n` generators."""
    made = _create(n, int(seed) % 2**64, subsequence_start, stream_of(stream))
    return DeviceNDArray.over(made)


def init_xoroshiro128p_states(
    states: Any, seed: int, subsequence_start: int = 0, stream: Any = 0
) -> None:
    """Overwrite states with those of new generators."""
    _init(states, int(seed) % 2**64, subsequence_start, stream_of(stream))
