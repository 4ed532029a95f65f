"""The same launch by other libraries, and with their arrays, where they are installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import kerneldsl as kd

__all__ = ["peers"]

_SOURCE = r"""
extern "C" __global__ void axpy(float a, const float *x, const float *y, float *out, long long n)
{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}
"""
_BLOCK = 256

Run = Callable[[int], None]


def peers(axpy: Any, n: int) -> dict[str, Run]:
    """Return every contestant that can be had; the others are named with the reason."""
    found: dict[str, Run] = {}
    for name, make in (
        ("forall, torch tensors", lambda: _ours_with_torch(axpy, n)),
        ("torch.add(out=)", lambda: _torch(n)),
        ("forall, CuPy arrays", lambda: _ours_with_cupy(axpy, n)),
        ("CuPy RawKernel", lambda: _cupy(n)),
        ("cuda.core launch", lambda: _cuda_core(n)),
        ("Triton", lambda: _triton(n)),
        ("numba-cuda", lambda: _numba_cuda(n)),
    ):
        try:
            run = make()
            run(1)
        except Exception as error:  # noqa: BLE001 -- a peer that does not work is left out
            print(f"{name}: left out, {type(error).__name__}: {str(error)[:100]}")
        else:
            found[name] = run
    return found


def _ours_with_torch(axpy: Any, n: int) -> Run:
    import torch

    x, y, out = (torch.rand(n, device="cuda") for _ in range(3))

    def run(count: int) -> None:
        for _ in range(count):
            axpy.forall(n)(2.0, x, y, out)

    return run


def _torch(n: int) -> Run:
    import torch

    x, y, out = (torch.rand(n, device="cuda") for _ in range(3))

    def run(count: int) -> None:
        for _ in range(count):
            torch.add(x, y, alpha=2.0, out=out)

    return run


def _ours_with_cupy(axpy: Any, n: int) -> Run:
    import cupy

    x, y, out = (cupy.random.random(n, dtype=cupy.float32) for _ in range(3))

    def run(count: int) -> None:
        for _ in range(count):
            axpy.forall(n)(2.0, x, y, out)

    return run


def _cupy(n: int) -> Run:
    import cupy

    kernel = cupy.RawKernel(_SOURCE, "axpy")
    x, y, out = (cupy.random.random(n, dtype=cupy.float32) for _ in range(3))
    a, size, grid, block = np.float32(2), np.int64(n), (-(-n // _BLOCK),), (_BLOCK,)

    def run(count: int) -> None:
        for _ in range(count):
            kernel(grid, block, (a, x, y, out, size))

    return run


def _cuda_core(n: int) -> Run:
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

    device = Device()
    device.set_current()
    options = ProgramOptions(arch=f"sm_{device.arch}")
    code = Program(_SOURCE, code_type="c++", options=options).compile("cubin")
    kernel, stream = code.get_kernel("axpy"), device.default_stream
    config = LaunchConfig(grid=-(-n // _BLOCK), block=_BLOCK)
    arrays = [kd.zeros(n, np.float32) for _ in range(3)]
    pointers = [array.pointer for array in arrays]
    a, size = np.float32(2), np.int64(n)

    def run(count: int, _keep: Any = arrays) -> None:
        for _ in range(count):
            launch(stream, config, kernel, a, *pointers, size)

    return run


def _triton(n: int) -> Run:
    import torch
    from launch_triton import axpy as kernel

    x, y, out = (torch.rand(n, device="cuda") for _ in range(3))
    grid = (-(-n // 1024),)

    def run(count: int) -> None:
        for _ in range(count):
            kernel[grid](2.0, x, y, out, n, BLOCK=1024)

    return run


def _numba_cuda(n: int) -> Run:
    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack  # older numba-cuda wants it of NumPy
    from numba import cuda

    @cuda.jit
    def kernel(a, x, y, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a * x[i] + y[i]

    host = np.zeros(n, np.float32)
    x, y, out = (cuda.to_device(host) for _ in range(3))
    a, blocks = np.float32(2), -(-n // _BLOCK)

    def run(count: int) -> None:
        for _ in range(count):
            kernel[blocks, _BLOCK](a, x, y, out)

    return run
