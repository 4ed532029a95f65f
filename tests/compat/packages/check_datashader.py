"""datashader: how aggregates are combined, against the package's CPU functions."""

import numpy as np
import pytest
from datashader import utils
from datashader.transfer_functions import _cuda_utils as gpu
from support import generator


def with_gaps(rng, shape, dtype):
    if np.issubdtype(dtype, np.floating):
        values = rng.integers(0, 9, shape).astype(dtype)
        values[rng.random(shape) < 0.3] = np.nan
        return values
    return rng.integers(-1, 9, shape).astype(dtype)


FOLDS = [
    (name, dtype, ndim)
    for name, dtype in (
        ("nanmax_n_in_place", np.float64),
        ("nanmin_n_in_place", np.float32),
        ("row_max_n_in_place", np.int64),
        ("row_min_n_in_place", np.int64),
    )
    for ndim in (3, 4)
]


@pytest.mark.parametrize(("name", "dtype", "ndim"), FOLDS)
def test_folds(name, dtype, ndim):
    rng = generator()
    shape = (17, 13, 3, 4)[-ndim:] if ndim == 4 else (17, 13, 4)
    ours, other = (with_gaps(rng, shape, dtype) for _ in range(2))
    theirs = ours.copy()
    fold = getattr(gpu, f"cuda_{name}_{ndim}d")
    fold[gpu.cuda_args((shape[1], shape[0], *shape[2:-1]))](ours, other)
    getattr(utils, f"{name}_{ndim}d")(theirs, other)
    np.testing.assert_array_equal(ours, theirs)


def test_row_min():
    rng = generator()
    ours, other = (with_gaps(rng, (21, 34, 3), np.int64) for _ in range(2))
    theirs = ours.copy()
    gpu.cuda_row_min_in_place[gpu.cuda_args((34, 21, 3))](ours, other)
    utils.row_min_in_place(theirs, other)
    np.testing.assert_array_equal(ours, theirs)


def test_masked_clip():
    rng = generator()
    data, mask = rng.standard_normal((41, 30)), rng.random((41, 30)) < 0.3
    expected = np.where(mask, data, np.clip(data, -0.5, 0.7))
    gpu.masked_clip_2d(data, mask, -0.5, 0.7)
    np.testing.assert_array_equal(data, expected)


def test_interpolation():
    rng = generator()
    x, points, values = rng.uniform(-0.1, 1.1, (25, 19)), np.sort(rng.random(30)), rng.random(30)
    x[rng.random(x.shape) < 0.1] = np.nan
    out = np.zeros_like(x)
    gpu.interp2d_kernel[gpu.cuda_args(x.shape)](x, points, values, -1.0, 2.0, out)
    np.testing.assert_allclose(out, np.interp(x, points, values, -1.0, 2.0), rtol=1e-9)
