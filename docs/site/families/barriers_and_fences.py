"""A barrier waits for the threads of a block; a fence orders what other blocks see.

The guide is in :doc:`/docs/language`.
"""

import numpy as np

import kerneldsl as kd


@kd.kernel
def reverse(x, out):
    tile = kd.shared.array(8, kd.float32)
    t = kd.threadIdx.x
    tile[t] = x[t]
    kd.syncthreads()  # every element is in the tile
    out[t] = tile[7 - t]


x = np.arange(8, dtype=np.float32)
out = np.empty_like(x)
reverse[1, 8](x, out)
print(out)
#: [7. 6. 5. 4. 3. 2. 1. 0.]
