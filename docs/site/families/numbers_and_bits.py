"""Arithmetic, bits and conversions that Python has no operator for."""

import numpy as np

import kerneldsl as kd


@kd.kernel
def bits(x, out):
    i = kd.grid(1)
    out[i, 0] = kd.popc(x[i])  # bits that are 1
    out[i, 1] = kd.clz(x[i])  # zeros above the highest 1
    out[i, 2] = kd.ffs(x[i])  # place of the lowest 1, from 1


x = np.array([0, 1, 40], np.uint32)
out = np.zeros((3, 3), np.int32)
bits.forall(3)(x, out)
print(out)
#: [[ 0 32  0]
#:  [ 1 31  1]
#:  [ 2 26  4]]
