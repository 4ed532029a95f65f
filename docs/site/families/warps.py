"""Exchange values among the 32 lanes of a warp, without shared memory.

``mask`` names the lanes that take part, and all of them call together.
"""

import numpy as np

import kerneldsl as kd


@kd.kernel
def warp_sum(x, out):
    lane = kd.threadIdx.x
    total = x[lane]
    for step in (16, 8, 4, 2, 1):
        total += kd.shfl_down_sync(0xFFFFFFFF, total, step)
    above = kd.ballot_sync(0xFFFFFFFF, x[lane] > 28)
    if lane == 0:
        out[0] = total
        out[1] = kd.popc(above)


x = np.arange(32)
out = np.zeros(2, np.int64)
warp_sum[1, 32](x, out)
print(out)
#: [496   3]
