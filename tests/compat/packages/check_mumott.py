"""mumott: projections of tensor fields, against the package's CPU projector and NumPy."""

import numpy as np
import pytest
from mumott.core import cuda_kernels
from mumott.core.geometry import Geometry, GeometryTuple
from mumott.methods.projectors import SAXSProjector, SAXSProjectorCUDA
from numba import cuda
from scipy.spatial.transform import Rotation
from support import generator


def geometry(rng, volume, projections):
    made = Geometry()
    made.volume_shape = np.array(volume)
    made.projection_shape = np.array((volume[0] + 2, volume[2] + 1))
    made.j_direction_0, made.k_direction_0 = np.array([1.0, 0, 0]), np.array([0, 0, 1.0])
    made.p_direction_0 = np.array([0, 1.0, 0])
    for rotation in Rotation.random(projections, rng=int(rng.integers(1 << 30))).as_matrix():
        made.append(GeometryTuple(rotation=rotation, j_offset=rng.uniform(-1, 1), k_offset=0.2))
    return made


@pytest.mark.parametrize("channels", [1, 5, 12])
def test_projector(channels):
    rng = generator()
    shape = geometry(rng, (9, 10, 11), 7)
    ours, theirs = SAXSProjectorCUDA(shape), SAXSProjector(shape)
    field = rng.random((9, 10, 11, channels), dtype=np.float32)
    expected = theirs.forward(field.astype(theirs.dtype))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(ours.forward(field), expected, rtol=1e-3, atol=1e-4 * scale)
    data = rng.random(expected.shape, dtype=np.float32)
    expected = theirs.adjoint(data.astype(theirs.dtype))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(ours.adjoint(data), expected, rtol=1e-3, atol=1e-4 * scale)


SHAPE = 6, 7, 5, 4


def on_device(rng, count):
    host = [rng.standard_normal(SHAPE).astype(np.float32) for _ in range(count)]
    return host, [cuda.to_device(each) for each in host]


def test_weighted_difference():
    (data, value, weights), device = on_device(generator(), 3)
    cuda_kernels.cuda_weighted_difference(SHAPE)(*device)
    expected = value * weights - data * weights
    np.testing.assert_allclose(device[1].copy_to_host(), expected, atol=1e-5)


def test_weighted_sign():
    (data, value, weights), device = on_device(generator(), 3)
    cuda_kernels.cuda_weighted_sign(SHAPE)(*device)
    expected = np.copysign(weights, value - data)
    np.testing.assert_allclose(device[1].copy_to_host(), expected, rtol=1e-6)


def test_sum_and_difference():
    (first, second), device = on_device(generator(), 2)
    cuda_kernels.cuda_sum(SHAPE)(*device)
    np.testing.assert_array_equal(device[0].copy_to_host(), first + second)
    cuda_kernels.cuda_difference(SHAPE)(*device)
    np.testing.assert_array_equal(device[0].copy_to_host(), first + second - second)


def test_contraction():
    rng = generator()
    rows, columns = 3, 4
    field = rng.standard_normal(SHAPE).astype(np.float32)
    matrix = rng.standard_normal((SHAPE[0], rows, columns)).astype(np.float32)
    out = cuda.to_device(np.zeros((*SHAPE[:3], rows), np.float32))
    kernel = cuda_kernels.cuda_framewise_contraction(SHAPE[:3], rows, columns)
    kernel(cuda.to_device(field), cuda.to_device(matrix), out)
    expected = np.einsum("ijkh,igh->ijkg", field, matrix)
    np.testing.assert_allclose(out.copy_to_host(), expected, rtol=1e-4, atol=1e-5)


def test_lower_bound():
    (value,), device = on_device(generator(), 1)
    cuda_kernels.cuda_lower_bound(SHAPE, 0.25)(*device)
    np.testing.assert_array_equal(device[0].copy_to_host(), np.maximum(value, np.float32(0.25)))
