"""States of numba.cuda.random: in arrays of its class, written in one of its streams."""

from __future__ import annotations

from typing import Any

from kerneldsl.compat.numba_cuda.arrays import DeviceNDArray
from kerneldsl.compat.numba_cuda.streams import stream_of
from kerneldsl.random import create_xoroshiro128p_states as _create
from kerneldsl.random import init_xoroshiro128p_states as _init

__all__ = ["create_xoroshiro128p_states", "init_xoroshiro128p_states"]


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
