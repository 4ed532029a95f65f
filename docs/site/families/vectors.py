"""Read and write two or four numbers by one access; say what caches should do."""

import numpy as np

import kerneldsl as kd


@kd.kernel
def scale(x, out):
    i = kd.grid(1)
    xs, outs = kd.view(x, kd.float32x4), kd.view(out, kd.float32x4)
    if i < outs.size:
        v = kd.load(xs, i, cache="streaming")  # read once
        outs[i] = v * 10


x = np.arange(8, dtype=np.float32)
out = np.empty_like(x)
scale.forall(2)(x, out)
print(out)
#: [ 0. 10. 20. 30. 40. 50. 60. 70.]
