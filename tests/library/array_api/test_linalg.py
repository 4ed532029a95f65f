"""The part of the standard's extension for linear algebra that exists, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from stdlib_kernels.array_api import linalg
from tests.support.extent import full_beyond

CALLS = {
    "cross": lambda p, x: p.cross(x[:, :3, :3], x[1, :3, :3]),
    "cross along another axis": lambda p, x: p.cross(x[:, :3], x[:, 1:4], axis=1),
    "cross of vectors": lambda p, x: p.cross(x[0, 0, :3], x[0, 1, :3]),
    **{f"diagonal {n}": lambda p, x, n=n: p.diagonal(x, offset=n) for n in (-7, -2, 0, 1, 3, 9)},
    "matrix_norm": lambda p, x: p.matrix_norm(x, keepdims=True),
    **{
        f"matrix_norm of order {n}": lambda p, x, n=n: p.matrix_norm(x, ord=n)
        for n in (1, -1, np.inf, -np.inf)
    },
    "outer": lambda p, x: p.outer(x[0, 0], x[0, :, 1]),
    "trace": lambda p, x: p.trace(x, offset=1, dtype=np.complex128),
    "vector_norm": lambda p, x: p.vector_norm(x, axis=(0, 2), ord=3),
}


@pytest.mark.parametrize(
    "name", full_beyond(CALLS, ["cross", "diagonal -2", "matrix_norm of order 1", "outer"])
)
@pytest.mark.parametrize("dtype", full_beyond(["float64", "int16", "complex64"], ["float64"]))
def test_against_numpy(to_kind, rng, name, dtype):
    source = np.round(rng.standard_normal((2, 5, 4)) * 9)
    source = (source + (1j * source[::-1] if dtype.startswith("c") else 0)).astype(dtype)
    for x in (source, source[:, ::-1, ::1]):
        wanted = CALLS[name](np.linalg, x)
        found = CALLS[name](linalg, to_kind(x))
        if isinstance(found, kd.DeviceArray):
            found = found.copy_to_host()
        assert (np.shape(found), found.dtype) == (np.shape(wanted), wanted.dtype)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_refusals(target):
    x = np.ones((2, 3))
    with pytest.raises(ArgumentValueError, match="three elements along axis 0"):
        linalg.cross(x, x, axis=0)
    with pytest.raises(ArgumentValueError, match=r"ord is 2.*copy_to_host"):
        linalg.matrix_norm(x, ord=2)
    with pytest.raises(ArgumentValueError, match="has no matrices"):
        linalg.trace(x[0])
    with pytest.raises(ArgumentValueError, match="2 dimensions"):
        linalg.outer(x, x[0])
