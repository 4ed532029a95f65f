"""aydin: its uniform filter, against SciPy's, as the package's own tests compare them."""

import numpy as np
import pytest
from scipy.ndimage import uniform_filter
from support import generator, skip_init

skip_init("aydin")

from aydin.util.fast_uniform_filter.numba_gpu_uf import numba_gpu_uniform_filter  # noqa: E402


@pytest.mark.parametrize("size", [3, 4, 7])
@pytest.mark.parametrize("shape", [(31, 45), (9, 22, 17), (4, 5, 6, 7)])
def test_filter(shape, size):
    image = generator().random(shape, dtype=np.float32)
    expected = uniform_filter(image, size, mode="nearest")
    np.testing.assert_allclose(numba_gpu_uniform_filter(image, size), expected, atol=1e-5)
