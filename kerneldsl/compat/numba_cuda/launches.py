"""Grids, blocks and arguments of launches as numba.cuda checks them, and its warnings."""

from __future__ import annotations

import linecache
import numbers
import os
from typing import Any

import numpy as np
from numba import config

from kerneldsl.compat.numba_cuda.errors import missing_launch_config_msg
from kerneldsl.placement.devices import current_device
from kerneldsl.utilities.tracebacks import warn_user

__all__ = [
    "ForAll",
    "checked_dimensions",
    "warn_of_host_arrays",
    "warn_of_no_source",
    "warn_of_small_grid",
]


def checked_dimensions(griddim: Any, blockdim: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return grid and block as tuples; raise numba.cuda's errors for others."""
    if griddim is None or blockdim is None:
        raise ValueError(missing_launch_config_msg)
    return _checked(griddim, "griddim"), _checked(blockdim, "blockdim")


def _checked(dim: Any, name: str) -> tuple[int, ...]:
    items = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if len(items) > 3:
        raise ValueError(f"{name} must be a sequence of 1, 2 or 3 integers, got {list(items)!r}")
    if not all(isinstance(each, numbers.Integral) for each in items):
        raise TypeError(f"{name} must be a sequence of integers, got {list(items)!r}")
    return tuple(map(int, items))


class _Unset(int):
    """The value of a setting that the program leaves as it is."""


for _name in ("CUDA_LOW_OCCUPANCY_WARNINGS", "CUDA_WARN_ON_IMPLICIT_COPY"):
    if f"NUMBA_{_name}" not in os.environ:
        setattr(config, _name, _Unset(getattr(config, _name)))


def _warns(name: str) -> bool:
    """Return whether a setting of Numba's enables warnings; on a CPU the program's own alone.

    They say what costs time on a GPU. numba.cuda's simulator never shows them.
    """
    value = getattr(config, name)
    says_nothing = isinstance(value, _Unset) and current_device().is_host
    return bool(value) and not (says_nothing or config.ENABLE_CUDASIM)


def warn_of_small_grid(blocks: int) -> None:
    """Warn of a grid of less than 128 blocks."""
    if blocks < 128 and _warns("CUDA_LOW_OCCUPANCY_WARNINGS"):
        from kerneldsl.lowering.numba_internals.vocabulary import NumbaPerformanceWarning

        text = "will likely result in GPU under-utilization due to low occupancy."
        warn_user(f"Grid size {blocks} {text}", NumbaPerformanceWarning)


def warn_of_host_arrays(args: tuple[Any, ...]) -> None:
    """Warn of a NumPy array, which is copied to a GPU and back."""
    if np.ndarray in map(type, args) and _warns("CUDA_WARN_ON_IMPLICIT_COPY"):
        from kerneldsl.lowering.numba_internals.vocabulary import NumbaPerformanceWarning

        text = "Host array used in CUDA kernel will incur copy overhead to/from device."
        warn_user(text, NumbaPerformanceWarning)


def warn_of_no_source(function: Any) -> None:
    """Warn of a function that is compiled for debugging, and is in no file."""
    if not linecache.getlines(function.__code__.co_filename):
        from numba import errors

        text = f"Could not find source for function: {function}. Lines of errors may be missing."
        warn_user(text, errors.NumbaDebugInfoWarning)


class ForAll:
    """Launches over a number of tasks; the kernel guards, as in numba.cuda."""

    def __init__(self, kernel: Any, ntasks: int, tpb: int, stream: Any, sharedmem: int) -> None:
        if ntasks < 0:
            raise ValueError(f"Can't create ForAll with negative task count: {ntasks}")
        self.dispatcher, self.ntasks, self.thread_per_block = kernel, ntasks, tpb
        self.stream, self.sharedmem = stream, sharedmem

    def __call__(self, *args: Any) -> None:
        if self.ntasks == 0:
            return
        block = self.thread_per_block or _BLOCK
        grid = (self.ntasks + block - 1) // block
        self.dispatcher[grid, block, self.stream, self.sharedmem](*args)


#: Threads of a block where the program leaves the choice.
_BLOCK = 256
