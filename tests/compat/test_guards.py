"""numba.cuda's documented reduction, and others with a guard around the rest of a kernel."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl import cuda

N = 64


@cuda.jit(device=True)
def wait():
    cuda.syncthreads()


@cuda.jit
def array_sum(data):
    tid = cuda.threadIdx.x
    if tid < len(data):
        i = cuda.grid(1)
        held = cuda.shared.array(N, cuda.int32)
        held[tid] = data[i]
        cuda.syncthreads()
        s = 1
        while s < cuda.blockDim.x:
            if tid % (2 * s) == 0 and tid + s < len(data):
                held[tid] += held[tid + s]
            s *= 2
            cuda.syncthreads()
        if tid == 0:
            data[tid] = held[tid]


@cuda.jit
def otherwise(data):
    i = cuda.grid(1)
    held = cuda.shared.array(N, cuda.int32)
    if i >= data.size:
        pass
    else:
        held[i] = data[i]
        wait()
        data[i] = held[data.size - 1 - i]


@cuda.jit
def nested(data):
    i = cuda.grid(1)
    if i < data.size:  # noqa: SIM102
        if data[i] >= 0:
            held = cuda.shared.array(N, cuda.int32)
            held[i] = data[i]
            cuda.syncthreads()
            data[i] = held[data.size - 1 - i]


@cuda.jit
def more_follows(data):
    i = cuda.grid(1)
    if i < data.size:
        cuda.syncthreads()
    data[0] = i


@pytest.fixture(autouse=True)
def cpu():
    with kd.use("cpu"):
        yield


@pytest.mark.parametrize("count", [N, 33, 1])
def test_a_reduction(count):
    x = np.arange(count)
    array_sum[1, N](x)
    assert x[0] == count * (count - 1) // 2


@pytest.mark.parametrize("kernel", [otherwise, nested])
@pytest.mark.parametrize("count", [N, 33])
def test_threads_that_leave(kernel, count):
    x = np.arange(count)
    kernel[1, N](x)
    assert x.tolist() == list(range(count))[::-1]


def test_a_barrier_that_some_threads_miss_is_still_refused():
    with pytest.raises(Exception, match="this barrier may be divergent"):
        more_follows[1, N](np.arange(N))


def test_kernels_of_kerneldsl_keep_their_rule():
    with pytest.raises(kd.BarrierDivergenceError):
        kd.kernel(array_sum.py_func)[1, N](np.arange(N))
