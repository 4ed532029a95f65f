"""Instructions by PTX's names, on the CPU too; and any text of PTX, on a GPU alone."""

import numpy as np

import kerneldsl as kd


@kd.kernel
def swap_bytes(x, out):
    i = kd.grid(1)
    out[i] = kd.nv.prmt(x[i], 0, 0x0123)


x = np.array([0x11223344], np.uint32)
out = np.zeros_like(x)
swap_bytes.forall(1)(x, out)
print(hex(out[0]))
#: 0x44332211
