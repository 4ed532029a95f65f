"""Indices of a thread in its block and in the grid: ``kd.grid(n)`` is computed from the others."""

import numpy as np

import kerneldsl as kd


@kd.kernel
def places(out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = 100 * kd.blockIdx.x + kd.threadIdx.x


out = np.zeros(6, np.int32)
places[2, 4](out)  # two blocks of four threads
print(out)
#: [  0   1   2   3 100 101]
