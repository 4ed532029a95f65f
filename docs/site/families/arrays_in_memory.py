"""Make arrays in a kernel: of a block, of a thread, and constants."""

import numpy as np

import kerneldsl as kd

WEIGHTS = np.array([0.25, 0.5, 0.25], np.float32)


@kd.kernel
def smooth(x, out):
    tile = kd.shared.array(10, kd.float32)  # of the block: eight elements and their neighbours
    weights = kd.const.array_like(WEIGHTS)
    t = kd.threadIdx.x
    tile[t + 1] = x[t]
    if t == 0:
        tile[0], tile[9] = x[0], x[7]
    kd.syncthreads()
    total = kd.float32(0)
    for k in range(3):
        total += weights[k] * tile[t + k]
    out[t] = total


x = np.array([0, 0, 0, 4, 0, 0, 0, 0], np.float32)
out = np.zeros_like(x)
smooth[1, 8](x, out)
print(out)
#: [0. 0. 1. 2. 1. 0. 0. 0.]
