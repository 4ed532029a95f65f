"""Kernels with names of other letters than those of ASCII."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd


@kd.kernel
def zählen(x):  # noqa: PLC2401 -- symbols of objects have no such names
    x[kd.grid(1)] += 1


@kd.kernel
def 数える(x, rounds):  # noqa: PLC2401
    tile = kd.shared.array(4, np.float64)
    t = kd.threadIdx.x
    for _ in range(rounds):
        tile[t] = x[t]
        kd.syncthreads()
        x[t] = tile[3 - t] + 1


def test_names_of_other_letters():
    x = np.arange(4.0)
    with kd.use("cpu"):
        zählen.forall(4)(x)
        数える[1, 4](x, 2)
    assert x.tolist() == [3.0, 4.0, 5.0, 6.0]
