"""NVIDIA's mathematical functions by their own names. The list is in :doc:`/docs/libdevice`."""

import numpy as np

import kerneldsl as kd


@kd.kernel
def lengths(x, y, z, out):
    i = kd.grid(1)
    out[i] = kd.libdevice.norm3d(x[i], y[i], z[i])


x, y, z = np.array([[3.0, 2.0], [4.0, 3.0], [0.0, 6.0]])
out = np.empty(2)
lengths.forall(2)(x, y, z, out)
print(out)
#: [5. 7.]
