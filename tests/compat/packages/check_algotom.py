"""algotom: tomographic reconstruction and correlation, against the package's CPU functions."""

import numpy as np
import pytest
from algotom.rec import reconstruction as rec
from algotom.rec import vertrec
from algotom.util import correlation
from numba import set_num_threads
from support import generator

#: algotom's function for the CPU adds to one array from several threads, and loses what they add.
set_num_threads(1)


@pytest.mark.parametrize("edge_pad", [False, True])
def test_back_projection(edge_pad):
    sinogram = generator().random((40, 61), dtype=np.float32)
    angles = np.linspace(0, np.pi, 40, dtype=np.float32)
    arguments = (sinogram, angles, np.float32(29.5))
    ours = rec.back_projection_gpu(*arguments, edge_pad=edge_pad)
    np.testing.assert_allclose(
        ours, rec.back_projection_cpu(*arguments, edge_pad=edge_pad), rtol=2e-4, atol=2e-3
    )


@pytest.mark.parametrize("shape", [(36, 48), (36, 5, 48)])
def test_filtered_back_projection(shape):
    sinogram = generator().random(shape, dtype=np.float32)
    ours = rec.fbp_reconstruction(sinogram, 23.5, apply_log=False, gpu=True, ncore=1)
    theirs = rec.fbp_reconstruction(sinogram, 23.5, apply_log=False, gpu=False, ncore=1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_vertical_reconstruction():
    projections = generator().random((30, 16, 40), dtype=np.float32)
    common = {"alpha": 0.0, "apply_log": False, "ncore": 1}
    ours = vertrec.vertical_reconstruction(projections, 20, 19.5, gpu=True, **common)
    theirs = vertrec.vertical_reconstruction(projections, 20, 19.5, gpu=False, **common)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("depth", [(), (4,)])
def test_correlation_map(depth):
    rng = generator()
    reference = rng.random((*depth, 24, 27), dtype=np.float32)
    image = rng.random((*depth, 9, 7), dtype=np.float32)
    ours = correlation.generate_correlation_map(reference, image, gpu=True)
    theirs = correlation.generate_correlation_map(reference, image, gpu=False)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dim", [1, 2])
def test_local_shifts(dim):
    reference = generator().random((5, 30, 34), dtype=np.float32)
    image = np.roll(reference, (1, -2), axis=(1, 2))
    common = {"dim": dim, "win_size": 5, "margin": 4, "ncore": 1}
    ours = correlation.find_local_shifts(reference, image, gpu=True, **common)
    theirs = correlation.find_local_shifts(reference, image, gpu=False, **common)
    np.testing.assert_allclose(ours, theirs, atol=5e-3)
