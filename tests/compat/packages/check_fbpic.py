"""fbpic: particles and fields, against the package's CPU functions.

fbpic hands numba.cuda's PTX to CuPy for its launches. Here cuda.jit launches the same functions.
"""

import numpy as np
import pytest
from fbpic.fields import cuda_methods as fields
from fbpic.fields import numba_methods as fields_cpu
from fbpic.particles.gathering import cuda_methods as gather
from fbpic.particles.gathering import threading_methods as gather_cpu
from fbpic.particles.push import cuda_methods as push
from fbpic.particles.push import numba_methods as push_cpu
from fbpic.particles.spin import cuda_methods as spin
from fbpic.particles.spin import numba_methods as spin_cpu
from numba import cuda
from support import generator

N = 1001


def launch(kernel, grid, block, arguments):
    """Return what the kernel leaves in copies of its arguments."""
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    cuda.jit(kernel.python_func)[grid, block](*copies)
    return [a for a in copies if isinstance(a, np.ndarray)]


def expect(function, arguments):
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    function(*copies)
    return [a for a in copies if isinstance(a, np.ndarray)]


def compare(ours, theirs, rtol=1e-10):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12 * max(1e-300, np.abs(b).max()))


def vectors(rng, count):
    return [rng.standard_normal(N) for _ in range(count)]


def test_push_x():
    a = vectors(generator(), 7)
    common = (1e-15, 1.0, 0.5, 1.0)
    ours = launch(push.push_x_gpu, 8, 128, [*a, *common])
    compare(ours, expect(push_cpu.push_x_numba, [*a, N, *common]))


def test_push_p():
    rng = generator()
    a = vectors(rng, 3)
    a = [
        *a,
        1 / np.sqrt(1 + sum(u * u for u in a)),
        *(1e9 * v for v in vectors(rng, 3)),
        *vectors(rng, 3),
    ]
    common = [*a, -1.6e-19, 9.1e-31, N, 1e-15]
    compare(launch(push.push_p_gpu, 8, 128, common), expect(push_cpu.push_p_numba, common))


def test_push_s():
    rng = generator()
    fieldlike = [1e9 * v for v in vectors(rng, 3)]
    common = [*vectors(rng, 9), *fieldlike, *vectors(rng, 3), -1.6e-19, 9.1e-31, N, 1e-15, 1e-3]
    compare(launch(spin.push_s_gpu, 8, 128, common), expect(spin_cpu.push_s_numba, common))


@pytest.mark.parametrize("order", ["linear", "cubic"])
def test_gather(order):
    rng = generator()
    nz, nr = 33, 21
    grids = [rng.standard_normal((nz, nr)) + 1j * rng.standard_normal((nz, nr)) for _ in range(12)]
    x, y = rng.uniform(-8, 8, (2, N))
    z = rng.uniform(0.5, nz - 1.5, N)
    arguments = [x, y, z, 9.0, 1.0, 0.0, nz, 1.0, 0.5, nr, *grids, *vectors(rng, 6)]
    ours = launch(getattr(gather, f"gather_field_gpu_{order}"), 8, 128, arguments)
    if order == "cubic":
        arguments += [1, np.array([0, N])]
    theirs = expect(getattr(gather_cpu, f"gather_field_numba_{order}"), arguments)
    compare(ours, theirs[: len(ours)])


def spectral(rng, shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


@pytest.mark.parametrize("use_true_rho", [True, False])
def test_push_fields(use_true_rho):
    rng = generator()
    shape = 37, 29
    grids = [spectral(rng, shape) for _ in range(11)]
    coefficients = [rng.standard_normal(shape) for _ in range(7)]
    arguments = [*grids, *coefficients, 1e-15, use_true_rho, *shape]
    ours = launch(fields.cuda_push_eb_standard, (37, 1), (1, 32), arguments)
    compare(ours, expect(fields_cpu.numba_push_eb_standard, arguments))


def test_filter():
    rng = generator()
    shape = 40, 17
    arguments = [spectral(rng, shape), *shape, rng.random(40), rng.random(17)]
    ours = launch(fields.cuda_filter_scalar, (40, 1), (1, 32), arguments)
    compare(ours, expect(fields_cpu.numba_filter_scalar, arguments))
