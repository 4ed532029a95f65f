"""Kernels that travel to another process, and what it does with them."""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd

__all__ = ["launch", "negate", "shifted", "twice"]

OFFSET = 5


@kd.func
def negate(x):
    return -x


@kd.kernel
def twice(x, out):
    i = kd.grid(1)
    out[i] = negate(x[i]) * -2 + OFFSET


@kd.kernel(fastmath=True, wraparound=False)
def shifted(x, out):
    i = kd.grid(1)
    out[i] = x[i] + 1


def launch(kernel: Any, size: int) -> list[int]:
    """Launch over ``arange(size)`` on the CPU and return the result."""
    x, out = np.arange(size), np.zeros(size, np.int64)
    with kd.use("cpu"):
        kernel.forall(size)(x, out)
    return out.tolist()
