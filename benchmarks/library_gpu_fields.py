"""More cases of ``library.py`` on a CUDA device: random arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np
import torch
from contest import Bound, Case, Prepared

import kerneldsl as kd
from stdlib_kernels import random

__all__ = ["cases"]

_LARGE = 1 << 28


def cases() -> Iterator[Case]:
    """Return the cases."""
    bound = (Bound("best peer", 1.6),)
    for name in ("uniform", "normal", "exponential"):
        yield Case(f"random {name} 2^28", lambda name=name: _random(name, _LARGE), bound)


def _random(name: str, size: int) -> Prepared:
    """Prepare numbers of float32, whose mean tells whether they are those of the distribution."""
    rng, theirs = random.default_rng(1), cupy.random.default_rng(1)
    out = torch.empty(size, device="cuda")
    mine = kd.as_array(out)
    of_torch: dict[str, Callable[[], Any]] = {
        "uniform": out.uniform_,
        "normal": out.normal_,
        "exponential": out.exponential_,
    }
    of_ours: dict[str, Callable[[], Any]] = {
        "uniform": lambda: rng.random(out=mine),
        "normal": lambda: rng.normal(out=mine),
        "exponential": lambda: rng.exponential(out=mine),
    }
    of_cupy: dict[str, Callable[[], Any]] = {
        "uniform": lambda: theirs.random(size, dtype=np.float32),
        "normal": lambda: theirs.standard_normal(size, dtype=np.float32),
        "exponential": lambda: theirs.standard_exponential(size, dtype=np.float32),
    }
    launches = {"ours": of_ours[name], "torch": of_torch[name], "CuPy": of_cupy[name]}
    mean = {"uniform": 0.5, "normal": 0.0, "exponential": 1.0}[name]

    def error(found: Any) -> float:
        array = found if isinstance(found, torch.Tensor) else torch.from_dlpack(found)
        return abs(float(array.mean(dtype=torch.float64)) - mean)

    return Prepared(launches, {}, error, 1e-3, out.nbytes)
