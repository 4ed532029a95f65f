"""Kernels that the C programs of these tests launch."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd


@kd.kernel
def axpy(a, x, y):
    i = kd.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


@kd.kernel
def scale(x, factors, out):
    """Multiply and add, in two dimensions; `factors` is a tuple."""
    i, j = kd.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] * factors[0] + factors[1]


@kd.kernel
def sum_blocks(x, out):
    """Add the elements of each block, in shared memory."""
    shared = kd.shared.array(64, np.float32)
    thread = kd.threadIdx.x
    i = kd.blockIdx.x * 64 + thread
    shared[thread] = x[i] if i < x.size else np.float32(0)
    kd.syncthreads()
    width = 32
    while width > 0:
        if thread < width:
            shared[thread] += shared[thread + width]
        kd.syncthreads()
        width //= 2
    if thread == 0:
        out[kd.blockIdx.x] = shared[0]


@kd.kernel
def reverse_blocks(x, count):
    """Reverse each block, in dynamic shared memory of `count` elements."""
    shared = kd.shared.array(0, np.int32)
    thread = kd.threadIdx.x
    if thread < count:
        shared[thread] = x[kd.blockIdx.x * count + thread]
    kd.syncthreads()
    if thread < count:
        x[kd.blockIdx.x * count + thread] = shared[count - 1 - thread]


@kd.kernel
def share_of_all(x, total):
    """Divide each element by the sum of all, after a barrier of the grid."""
    i = kd.grid(1)
    kd.atomic.add(total, 0, x[i])
    kd.grid_group().sync()
    x[i] = x[i] / total[0]


@kd.kernel
def rotate(z, by, flag, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = z[i] * by if flag else z[i]
