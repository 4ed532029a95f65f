"""xarray-spatial: rasters, against the package's CPU functions.

The functions that start its kernels are called: xarray makes NumPy's arrays of those that stand in
for CuPy's, so that its public functions would choose the CPU.
"""

from importlib import import_module

import cupy
import numpy as np
import pytest
from support import generator

# The package has functions of the same names.
aspect, classify, curvature, hillshade, multispectral, slope = (
    import_module(f"xrspatial.{name}")
    for name in ("aspect", "classify", "curvature", "hillshade", "multispectral", "slope")
)

BANDS = ("arvi", 3), ("gci", 2), ("sipi", 3), ("ebbi", 3)


def compare(gpu, cpu, arrays, *rest, rtol=1e-5):
    ours = cupy.asnumpy(gpu(*map(cupy.asarray, arrays), *rest))
    np.testing.assert_allclose(ours, cpu(*arrays, *rest), rtol=rtol, atol=1e-5)


def raster(dtype=np.float32):
    return generator().uniform(0, 100, (37, 50)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_aspect(dtype):
    compare(aspect._run_cupy, aspect._run_numpy, [raster(dtype)], rtol=1e-4)


def test_slope():
    compare(slope._run_cupy, slope._run_numpy, [raster()], 0.5, 0.7)


def test_curvature():
    compare(curvature._run_cupy, curvature._run_numpy, [raster()], 0.5, rtol=1e-4)


def test_hillshade():
    compare(hillshade._run_cupy, hillshade._run_numpy, [raster()], 225, 25, rtol=1e-4)


@pytest.mark.parametrize("kind", ["slope", "aspect"])
def test_geodesic(kind):
    module = {"slope": slope, "aspect": aspect}[kind]
    data = raster(np.float64)
    lat, lon = np.meshgrid(np.linspace(40, 40.1, 37), np.linspace(5, 5.1, 50), indexing="ij")
    a2, b2 = 6378137.0**2, 6356752.314245**2
    ours = module._run_cupy_geodesic(cupy.asarray(data), lat, lon, a2, b2, 1.0)
    theirs = module._run_numpy_geodesic(data, lat, lon, a2, b2, 1.0)
    np.testing.assert_allclose(cupy.asnumpy(ours), theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "count"), BANDS)
def test_bands(name, count):
    rng = generator()
    bands = [rng.uniform(1, 9, (21, 33)).astype(np.float32) for _ in range(count)]
    compare(
        getattr(multispectral, f"_{name}_cupy"),
        getattr(multispectral, f"_{name}_cpu"),
        bands,
        rtol=1e-4,
    )


def test_bins():
    bins, values = np.array([10.0, 40.0, 80.0]), np.array([1.0, 2.0, 3.0])
    compare(classify._run_cupy_bin, classify._run_numpy_bin, [raster()], bins, values)
