"""Types of array elements and scalars. Packed numbers take 4 or 2 bits each."""

import numpy as np

import kerneldsl as kd


@kd.kernel
def unpack(words, out):
    i = kd.grid(1)
    out[i] = kd.packed(words, kd.int4)[i] * kd.float16(0.5)


words = kd.int4.pack(np.array([-8, -1, 0, 1, 2, 3, 6, 7]))
out = np.empty(8, np.float16)
unpack.forall(8)(words, out)
print(out)
#: [-4.  -0.5  0.   0.5  1.   1.5  3.   3.5]
