"""More cases of ``library.py`` on a CUDA device: random arrays, filters, small products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np
import torch
from contest import Bound, Case, Prepared
from cupyx.scipy import ndimage

import kerneldsl as kd
from stdlib_kernels import linalg, random, stencil

__all__ = ["cases"]

_LARGE = 1 << 28


def cases() -> Iterator[Case]:
    """Return the cases."""
    bound = (Bound("best peer", 1.6),)
    for name in ("uniform", "normal", "exponential"):
        yield Case(f"random {name} 2^28", lambda name=name: _random(name, _LARGE), bound)
    yield Case("matmul 2^20 of 8 x 8", lambda: _batched(1 << 20, 8), (Bound("best peer", 6.0),))
    yield Case("matrix by vector 16384", lambda: _by_vector(16384), (Bound("best peer", 1.0),))
    yield Case("gaussian 8192", lambda: _gaussian(8192), (Bound("best peer", 9.0),))
    yield Case("convolution 7 x 7, 8192", lambda: _convolution(8192), (Bound("best peer", 25.0),))


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


def _error_to(reference: Any) -> Callable[[Any], float]:
    scale = float(abs(reference).max())
    return lambda found: float(abs(cupy.from_dlpack(found) - reference).max()) / scale


def _gaussian(size: int) -> Prepared:
    x = cupy.random.random((size, size), dtype=np.float32)
    mine = kd.as_array(x)
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: stencil.gaussian_filter(mine, 2.0),
        "CuPy": lambda: ndimage.gaussian_filter(x, 2.0),
    }
    error = _error_to(ndimage.gaussian_filter(x.astype(np.float64), 2.0))
    return Prepared(launches, {}, error, 1e-5, 2 * x.nbytes)


def _convolution(size: int) -> Prepared:
    torch.backends.cudnn.allow_tf32 = False
    x = torch.rand(size, size, device="cuda")
    weights = torch.rand(7, 7, device="cuda")
    mine, theirs = kd.as_array(x), cupy.from_dlpack(x)
    on_host = weights.cpu().numpy()
    image, filters = x[None, None], weights[None, None]
    convolve = torch.nn.functional.conv2d
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: stencil.correlate(mine, on_host, "constant"),
        "torch": lambda: convolve(image, filters, padding=3)[0, 0],
        "CuPy": lambda: ndimage.correlate(theirs, cupy.from_dlpack(weights), mode="constant"),
    }
    wide = cupy.from_dlpack(x.double()), cupy.from_dlpack(weights.double())
    error = _error_to(ndimage.correlate(*wide, mode="constant"))
    return Prepared(launches, {}, error, 1e-5, 2 * x.nbytes)


def _batched(count: int, side: int) -> Prepared:
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.randn(count, side, side, device="cuda") for _ in range(2))
    one, two = kd.as_array(a), kd.as_array(b)
    ones, twos = cupy.from_dlpack(a), cupy.from_dlpack(b)
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: linalg.matmul(one, two),
        "torch": lambda: torch.bmm(a, b),
        "CuPy": lambda: cupy.matmul(ones, twos),
    }
    error = _error_to(cupy.from_dlpack(a.double() @ b.double()))
    return Prepared(launches, {}, error, 1e-5, 3 * a.nbytes)


def _by_vector(side: int) -> Prepared:
    a, x = torch.randn(side, side, device="cuda"), torch.randn(side, device="cuda")
    one, two = kd.as_array(a), kd.as_array(x)
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: linalg.matmul(one, two),
        "torch": lambda: a @ x,
    }
    error = _error_to(cupy.from_dlpack(a.double() @ x.double()))
    return Prepared(launches, {}, error, 1e-5, a.nbytes)
