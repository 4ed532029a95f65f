"""swiftsimio: the projection of particles, against the package's CPU back end."""

import numpy as np
import pytest
from numba import cuda
from support import generator, skip_init

skip_init("swiftsimio", "swiftsimio.visualisation", "swiftsimio.visualisation.projection_backends")

from swiftsimio.visualisation.projection_backends import fast, gpu  # noqa: E402


@pytest.mark.parametrize(("particles", "size"), [(1000, 64), (257, 33)])
def test_projection(particles, size):
    rng = generator()
    x, y = rng.random((2, particles))
    mass = rng.random(particles, dtype=np.float32)
    lengths = rng.uniform(0.001, 0.1, particles).astype(np.float32)
    image = cuda.to_device(np.zeros((size, size), np.float32))
    blocks = (-(-particles // 16), 1, 1)
    gpu.scatter_gpu[blocks, (16, 1, 1)](x + 0.0, y + 0.0, mass, lengths, 0.0, 0.0, image)
    expected = fast.scatter(x=x, y=y, m=mass, h=lengths, res=size, box_x=0.0, box_y=0.0)
    np.testing.assert_allclose(image.copy_to_host(), expected, rtol=1e-3, atol=1e-3)


def test_device_function():
    radii, width = np.linspace(0, 0.2, 100, dtype=np.float32), np.float32(0.11)
    out = np.full(100, np.nan, np.float32)

    @cuda.jit
    def kernel(radii, width, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = gpu.kernel(radii[i], width)

    kernel[4, 32](radii, width, out)
    expected = [fast.kernel(each, width) for each in radii]
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-6)
