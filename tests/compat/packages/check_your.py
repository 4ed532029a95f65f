"""your: dedispersion of radio pulses, against NumPy and the package's CPU method."""

from types import SimpleNamespace

import numpy as np
import pytest
from support import generator, skip_init

skip_init("your", "your.utils")

from your.utils.gpu import gpu_dedisperse, gpu_dmt  # noqa: E402


def candidate(dtype):
    rng = generator()
    data = rng.integers(0, 200, (256, 32)).astype(dtype)
    header = SimpleNamespace(dtype=dtype, tsamp=0.000256)
    frequencies = np.linspace(1500, 1200, 32)
    return SimpleNamespace(
        chan_freqs=frequencies, data=data, your_header=header, dm=float(rng.uniform(5, 60))
    )


def delays(cand, dm):
    frequencies = cand.chan_freqs.astype(np.float32)
    inverse = 1 / frequencies[0] ** 2 - 1 / frequencies**2
    return -4148808.0 * dm * inverse / 1000 / cand.your_header.tsamp


def differing(exact, wanted):
    """Channels whose delay is so near an integer that rounding may decide."""
    return np.abs(exact - np.round(exact)) > wanted


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_dedispersion(dtype):
    cand = candidate(dtype)
    ours = gpu_dedisperse(cand).dedispersed
    exact = delays(cand, cand.dm)
    for channel in np.flatnonzero(differing(exact, 1e-3) | (np.arange(32) == 0)):
        expected = np.roll(cand.data[:, channel], -int(exact[channel]))
        np.testing.assert_array_equal(ours[:, channel], expected)


def test_bow_tie():
    cand = candidate(np.float32)
    ours = gpu_dmt(cand).dmt
    for row, dm in enumerate(np.linspace(0, 2 * cand.dm, 256, dtype=np.float32)):
        exact = delays(cand, dm)
        if row and not differing(exact[1:], 1e-3).all():
            continue
        shifts = exact.astype(int)
        expected = sum(np.roll(cand.data[:, c], -shifts[c]) for c in range(32))
        np.testing.assert_allclose(ours[row], expected, rtol=1e-6)
