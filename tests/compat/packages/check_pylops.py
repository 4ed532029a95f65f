"""pylops: operators of its CUDA engines, against the package's NumPy and Numba engines."""

import cupy
import numpy as np
import pytest
from pylops.signalprocessing import (
    FourierRadon2D,
    FourierRadon3D,
    NonStationaryConvolve2D,
    NonStationaryConvolve3D,
)
from pylops.waveeqprocessing import Kirchhoff
from support import generator

#: The CUDA kernels take the last frequency, and the CPU functions the one after it.
LAST = {"cuda": lambda n: (0, n - 1), "numba": lambda n: (0, n)}


def compare(make, rng, rtol, dtype=np.float32):
    ours, theirs = make("cuda"), make("numba")
    model = rng.standard_normal(ours.shape[1]).astype(dtype)
    data = rng.standard_normal(ours.shape[0]).astype(dtype)
    for a, b in (
        (ours.matvec(cupy.asarray(model)), theirs.matvec(model)),
        (ours.rmatvec(cupy.asarray(data)), theirs.rmatvec(data)),
    ):
        np.testing.assert_allclose(cupy.asnumpy(a), b, rtol=rtol, atol=rtol * np.abs(b).max())


def arrays(engine, *given):
    return [cupy.asarray(each) if engine == "cuda" else each for each in given]


def test_convolve_2d():
    rng = generator()
    filters = rng.standard_normal((3, 4, 5, 7)).astype(np.float32)

    def make(engine):
        (h,) = arrays(engine, filters)
        blocks = {"num_threads_per_blocks": (16, 16)} if engine == "cuda" else {}
        return NonStationaryConvolve2D(
            (31, 40), h, (5, 15, 25), (5, 15, 25, 35), engine=engine, dtype=np.float32, **blocks
        )

    compare(make, rng, 1e-4)


def test_convolve_3d():
    rng = generator()
    filters = rng.standard_normal((2, 2, 2, 3, 3, 3)).astype(np.float32)

    def make(engine):
        (h,) = arrays(engine, filters)
        blocks = {"num_threads_per_blocks": (4, 4, 4)} if engine == "cuda" else {}
        return NonStationaryConvolve3D(
            (13, 14, 15), h, (3, 9), (3, 9), (3, 9), engine=engine, dtype=np.float32, **blocks
        )

    compare(make, rng, 1e-4)


def test_radon_2d():
    rng = generator()
    taxis, haxis, paxis = np.arange(64) * 0.004, np.arange(21) * 10.0, np.linspace(-1e-3, 1e-3, 17)

    def make(engine):
        return FourierRadon2D(
            *arrays(
                engine, taxis.astype(np.float32), haxis.astype(np.float32), paxis.astype(np.float32)
            ),
            128,
            flims=LAST[engine](50),
            engine=engine,
            num_threads_per_blocks=(16, 16),
            dtype=np.float32,
        )

    compare(make, rng, 1e-3)


def test_radon_3d():
    rng = generator()
    taxis = np.arange(32) * 0.004
    axes = [
        np.arange(7) * 10.0,
        np.arange(6) * 10.0,
        np.linspace(-1e-3, 1e-3, 5),
        np.linspace(0, 1e-3, 4),
    ]

    def make(engine):
        return FourierRadon3D(
            *arrays(engine, *(a.astype(np.float32) for a in (taxis, *axes))),
            64,
            flims=LAST[engine](30),
            engine=engine,
            num_threads_per_blocks=(4, 4, 4),
            dtype=np.float32,
        )

    compare(make, rng, 1e-3)


@pytest.mark.parametrize("dynamic", [False, True])
def test_kirchhoff(dynamic):
    rng = generator()
    x, z = np.arange(24) * 4.0, np.arange(20) * 4.0
    places = np.vstack([np.linspace(8, 80, 4), np.full(4, 4.0)])
    time = np.arange(120) * 0.002
    wavelet = np.sinc(np.linspace(-2, 2, 11)).astype(np.float32)

    def make(engine):
        return Kirchhoff(
            z,
            x,
            time,
            places,
            places,
            1500.0,
            wavelet,
            5,
            mode="analytic",
            engine=engine,
            dynamic=dynamic,
            dtype=np.float64,
        )

    compare(make, rng, 5e-3, np.float64)  # steps, apertures and angles are float32
