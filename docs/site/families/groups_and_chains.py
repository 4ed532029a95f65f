"""Combine a value of each thread over a warp or block; pass a value from block to block."""

import numpy as np

import kerneldsl as kd


@kd.kernel
def statistics(x, out):
    v = x[kd.threadIdx.x]
    total, largest = kd.block.sum(v), kd.block.max(v)
    before = kd.block.exclusive_scan(v)
    out[kd.threadIdx.x] = before
    if kd.threadIdx.x == 0:
        out[4], out[5] = total, largest


x = np.array([3, 1, 4, 1], np.float32)
out = np.zeros(6, np.float32)
statistics[1, 4](x, out)
print(out)
#: [0. 3. 4. 8. 9. 4.]
