"""yasfpy: light that particles scatter, against the package's CPU functions."""

import numpy as np
import pytest
from support import generator, skip_init

skip_init("yasfpy", "yasfpy.functions")

from yasfpy.functions import cpu_numba as cpu  # noqa: E402
from yasfpy.functions import cuda_numba as gpu  # noqa: E402

LMAX, PARTICLES, CHANNELS = 2, 3, 4
JMAX = PARTICLES * 2 * LMAX * (LMAX + 2)
NMAX = JMAX // PARTICLES
BLOCK = (8, 8, 2)


def blocks(*extents):
    return tuple(-(-n // b) for n, b in zip(extents, BLOCK, strict=True))


def numbers(rng, *shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


@pytest.fixture
def tables():
    rng = generator()
    orders = 2 * LMAX + 1
    return {
        "rng": rng,
        "idx": cpu.compute_idx_lookups(LMAX, PARTICLES),
        "translation": numbers(rng, NMAX, NMAX, orders),
        "plm": rng.standard_normal(((LMAX + 1) * (2 * LMAX + 1), PARTICLES, PARTICLES)),
        "sph_h": numbers(rng, orders, PARTICLES, PARTICLES, CHANNELS),
        "e_phi": numbers(rng, 4 * LMAX + 1, PARTICLES, PARTICLES),
    }


def test_particle_interaction(tables):
    x = numbers(tables["rng"], JMAX)
    real, imag = np.zeros((2, JMAX, CHANNELS))
    rest = tables["translation"], tables["plm"], tables["sph_h"], tables["e_phi"]
    grid = blocks(JMAX, JMAX, CHANNELS)
    gpu.particle_interaction_gpu[grid, BLOCK](LMAX, PARTICLES, tables["idx"], x, real, imag, *rest)
    expected = cpu.particle_interaction(LMAX, PARTICLES, tables["idx"], x, *rest)
    np.testing.assert_allclose(real + 1j * imag, expected, rtol=1e-9)


def test_cross_section(tables):
    sfc = numbers(tables["rng"], PARTICLES, NMAX, CHANNELS)
    rest = tables["translation"], tables["plm"], tables["sph_h"], tables["e_phi"]
    real, imag = np.zeros((2, CHANNELS))
    grid = blocks(JMAX, JMAX, CHANNELS)
    gpu.compute_scattering_cross_section_gpu[grid, BLOCK](
        LMAX, PARTICLES, tables["idx"], sfc, *rest, real, imag
    )
    expected = cpu.compute_scattering_cross_section(LMAX, PARTICLES, tables["idx"], sfc, *rest)
    np.testing.assert_allclose(real + 1j * imag, expected, rtol=1e-9)
