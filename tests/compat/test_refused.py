"""What numba.cuda's kernels may not contain: each row of the migration page's table."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numba import types

import kerneldsl as kd
from kerneldsl import cuda


@pytest.fixture(autouse=True)
def cpu():
    with kd.use("cpu"):
        yield


@cuda.jit(device=True)
def _factorial(n):
    return 1 if n < 2 else n * _factorial(n - 1)


@cuda.jit(device=True)
def _apply(f, x):
    return f(x)


@cuda.vectorize(["float64(float64)"], target="cuda")
def _doubled(x):
    return 2 * x


@cuda.jit
def recursive(out):
    out[0] = _factorial(3)


@cuda.jit
def compared(texts, out):
    out[0] = texts[0] == "a"


@cuda.jit
def copies(out):
    own = out.copy()
    out[0] = own[1]


@cuda.jit
def lists(out):
    out[0] = len([1, 2])


@cuda.jit
def reads(out, n):
    size = n + 1

    def inner(x):
        return x + size

    out[0] = _apply(inner, 1)


@cuda.jit
def ufunc(out):
    _doubled(out, out)


def _pointer():
    return cuda.jit(types.int32(types.CPointer(types.int32)), device=True)(lambda x: x[0])


OUT = np.zeros(2)
LAUNCHES = {
    "a device function that calls itself": lambda: recursive[1, 1](OUT),
    "a string of an array in an expression (constants can be assigned)": lambda: compared[1, 1](
        np.array(["a"]), OUT
    ),
    "an array that a kernel allocates, as `x.copy()`": lambda: copies[1, 1](OUT),
    "a list": lambda: lists[1, 1](OUT),
    "a nested function as an argument that reads variables": lambda: reads[1, 1](OUT, 2),
    "a ufunc of `vectorize` or `guvectorize` in a kernel": lambda: ufunc[1, 1](OUT),
    "a pointer in the signature of a device function": _pointer,
}


@pytest.mark.parametrize("construct", cuda.REFUSED)
def test_each_row(construct):
    said, _ = cuda.REFUSED[construct]
    with pytest.raises(Exception, match=re.escape(said)):
        LAUNCHES[construct]()
