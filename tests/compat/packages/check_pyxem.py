"""pyxem: correlation of diffraction templates with a polar image, against NumPy."""

import numpy as np
import pytest
from support import generator, skip_init

skip_init("pyxem", "pyxem.utils")

from pyxem.utils.cuda_utils import TPB, _correlate_polar_image_to_library_gpu  # noqa: E402


@pytest.mark.parametrize(("templates", "spots", "angles"), [(5, 40, 360), (9, 255, 100)])
def test_correlation(templates, spots, angles):
    rng = generator()
    image = rng.random((angles, 60), dtype=np.float32)
    radii = rng.integers(1, 60, (templates, spots))
    turns = rng.integers(0, angles, (templates, spots))
    weights = rng.random((templates, spots), dtype=np.float32)
    ours = np.full((2, templates, angles), np.nan, np.float32)
    grid = templates, -(-angles // TPB)
    _correlate_polar_image_to_library_gpu[grid, (1, TPB)](image, radii, turns, weights, *ours)
    shifts = np.arange(angles)[:, None]
    for i in range(templates):
        for mirror, sign in enumerate((1, -1)):
            hit = image[(sign * turns[i] + shifts) % angles, radii[i]]
            np.testing.assert_allclose(ours[mirror, i], hit @ weights[i], rtol=1e-4)
