"""sgkit: distances of genetic vectors, against NumPy and the package's CPU functions."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from support import generator, skip_init

skip_init("sgkit", "sgkit.distance")

from sgkit.distance import metrics  # noqa: E402


@pytest.mark.parametrize("shape", [(7, 9, 31), (40, 33, 100)])
def test_euclidean(shape):
    rng = generator()
    first, second = (rng.random((n, shape[2]), dtype=np.float32) for n in shape[:2])
    ours = np.sqrt(metrics.euclidean_map_gpu(first, second)[:, :, 0])
    np.testing.assert_allclose(ours, cdist(first, second), rtol=1e-4)


def test_missing_values():
    rng = generator()
    first, second = (rng.random((n, 21), dtype=np.float32) for n in (5, 6))
    first[rng.random(first.shape) < 0.2] = -1
    ours = metrics.euclidean_map_gpu(first, second)
    kept = np.where((first >= 0)[:, None], (first[:, None] - second) ** 2, 0).sum(-1)
    np.testing.assert_allclose(ours[:, :, 0], kept, rtol=1e-4)


@pytest.mark.parametrize("shape", [(7, 9, 31), (20, 33, 100)])
def test_correlation(shape):
    rng = generator()
    first, second = (rng.random((n, shape[2]), dtype=np.float32) for n in shape[:2])
    sums = metrics.correlation_map_gpu(first, second)
    ours = np.empty(sums.shape[:2], np.float32)
    for i, j in np.ndindex(*ours.shape):
        ours[i, j] = metrics.correlation_reduce_gpu(sums[i, j][None])
    np.testing.assert_allclose(ours, cdist(first, second, "correlation"), rtol=2e-3, atol=1e-4)
