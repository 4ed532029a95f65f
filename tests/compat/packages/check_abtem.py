"""abtem: potentials of atoms on a grid, against NumPy and the package's CPU function."""

import itertools

import cupy
import numpy as np
import pytest
from support import generator, skip_init

skip_init("abtem", "abtem.core")

from abtem.core import _cuda  # noqa: E402


def test_crop():
    rng = generator()
    images = rng.standard_normal((5, 40, 45)).astype(np.complex64)
    corners = rng.integers(0, 20, (5, 2))
    ours = _cuda.batch_crop_2d(cupy.asarray(images), cupy.asarray(corners), (17, 21))
    theirs = [image[x : x + 17, y : y + 21] for image, (x, y) in zip(images, corners, strict=True)]
    np.testing.assert_array_equal(cupy.asnumpy(ours), theirs)


def test_run_length_sums():
    rng = generator()
    array = rng.random((6, 90))
    separators = np.concatenate([[0], np.sort(rng.integers(0, 90, 12)), [90]])
    ours = cupy.zeros((6, 13))
    _cuda.sum_run_length_encoded(cupy.asarray(array), ours, cupy.asarray(separators))
    theirs = [array[:, a:b].sum(1) for a, b in itertools.pairwise(separators)]
    np.testing.assert_allclose(cupy.asnumpy(ours), np.array(theirs).T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_radial_functions(dtype):
    rng = generator()
    atoms, radii = 9, 64
    sampling = np.array([0.1, 0.12], dtype)
    positions = rng.uniform(0, 6, (atoms, 2)).astype(dtype)
    gpts = np.geomspace(0.02, 2.0, radii).astype(dtype)
    dt = float(np.log(gpts[1] / gpts[0]))
    functions = rng.random((atoms, radii)).astype(dtype)
    derivatives = (np.diff(functions, axis=1) / np.diff(gpts)).astype(dtype)
    reach = np.arange(-18, 19)
    disk = np.stack(np.meshgrid(reach, reach, indexing="ij"), -1).reshape(-1, 2)
    counts = rng.integers(1, len(disk), atoms)
    image = np.zeros((60, 50), dtype)
    ours = cupy.asarray(image.copy())
    given = positions, disk, counts, sampling, gpts, functions, derivatives
    _cuda.interpolate_radial_functions(ours, *map(cupy.asarray, given))
    for i in range(atoms):
        for offset in disk[: counts[i]]:
            k, m = np.round(positions[i] / sampling).astype(int) + offset
            if not (0 <= k < 60 and 0 <= m < 50):
                continue
            r = np.hypot(*(np.array([k, m]) * sampling - positions[i]))
            index = int(np.floor(np.log(r / gpts[0] + 1e-12) / dt))
            if index < 0:
                image[k, m] += functions[i, 0]
            elif index < radii - 1:
                image[k, m] += functions[i, index] + (r - gpts[index]) * derivatives[i, index]
    wrong = ~np.isclose(cupy.asnumpy(ours), image, rtol=1e-3, atol=1e-3)
    # In float32 a radius at the edge of an interval may fall into the next one.
    assert wrong.mean() <= (0.01 if dtype == np.float32 else 0)
