"""A kernel over elements, and one over blocks with shared memory and barriers."""

import numpy as np

import kerneldsl as kd


@kd.kernel(signature="float32, float32[::1], float32[::1]")
def axpy(a, x, y):
    """Compute ``y = a * x + y``."""
    i = kd.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


@kd.kernel(signature="float32[::1], float32[::1]", block=256)
def sum_blocks(x, sums):
    """Add the elements of each block of 256."""
    shared = kd.shared.array(256, np.float32)
    thread = kd.threadIdx.x
    i = kd.blockIdx.x * 256 + thread
    shared[thread] = x[i] if i < x.size else np.float32(0)
    kd.syncthreads()
    width = 128
    while width > 0:
        if thread < width:
            shared[thread] += shared[thread + width]
        kd.syncthreads()
        width //= 2
    if thread == 0:
        sums[kd.blockIdx.x] = shared[0]
