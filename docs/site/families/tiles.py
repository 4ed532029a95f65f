"""Arrays of constant shape that are values of the whole block. The guide is :doc:`/docs/tiles`."""

import numpy as np

import kerneldsl as kd


@kd.kernel
def normalize(x, out):
    row = kd.blockIdx.x  # a block for each row
    v = kd.tile.load(x[row], 0, 8)  # beyond the end of a row there are zeros
    kd.tile.store(out[row], 0, v / v.sum())


x = np.array([[1, 1, 2], [0, 3, 1]], np.float32)
out = np.empty_like(x)
normalize[2, 32](x, out)
print(out)
#: [[0.25 0.25 0.5 ]
#:  [0.   0.75 0.25]]
