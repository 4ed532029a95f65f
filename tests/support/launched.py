"""What tests of native launches share: kernels, numbers for them, and the null target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.placement.registry import get_target
from tests.support.native import require_native

__all__ = ["axpy", "begin_anew", "null_in_use", "numbers", "takes", "writes"]


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def takes(a, x):
    pass


@kd.kernel
def writes(x):
    x[0] = 1


def begin_anew(*others: Any) -> None:
    """Put native code in its place and forget what other tests have launched.

    Skips, with its reason, where native code is refused. `others` are kernels beside those here.
    """
    require_native()
    for kernel in (axpy, takes, writes, *others):
        kernel._remember_launches()


@contextmanager
def null_in_use() -> Iterator[Any]:
    """A ``with`` block whose kernels run on the null target, which is as new before and after."""
    target: Any = get_target("null")
    target.reset()
    with kd.use("null"):
        yield target
    target.reset()


def numbers(n: int) -> np.ndarray:
    """Random numbers, other ones each time."""
    return np.random.default_rng().random(n).astype(np.float32)
