"""Sectors and wavefronts of warps, against counting byte by byte and word by word."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneldsl.explain.requests import (
    count_distinct,
    count_least_wavefronts,
    count_sectors,
    count_wavefronts,
)
from tests.support.extent import examples
from tests.support.recorded import sectors_of, wavefronts_of

_SIZES = st.sampled_from([1, 2, 4, 8, 16])


@st.composite
def _warps(draw):
    """Addresses of some warps, mostly affine in the lane, and which lanes are at work."""
    nbytes = draw(_SIZES)
    count = draw(st.integers(1, 3))
    rows, masks = [], []
    for _ in range(count):
        if draw(st.booleans()):
            stride, start = draw(st.integers(-70, 70)), draw(st.integers(0, 300))
            row = [(start + stride * lane) * nbytes + 70 * 32 * nbytes for lane in range(32)]
        else:
            row = [nbytes * draw(st.integers(0, 200)) for _ in range(32)]
        rows.append(row)
        bits = draw(st.integers(0, 2**32 - 1) | st.just(2**32 - 1))
        masks.append([bool(bits >> lane & 1) for lane in range(32)])
    return nbytes, np.array(rows, np.int64), np.array(masks)


@given(_warps(), st.integers(0, 31))
@settings(max_examples=examples(150), deadline=None)
def test_sectors_are_those_that_bytes_lie_in(warps, shift):
    nbytes, addresses, masks = warps
    addresses = addresses + shift
    wanted = [
        sectors_of([int(a) for a, on in zip(row, mask, strict=True) if on], nbytes)
        for row, mask in zip(addresses, masks, strict=True)
    ]
    assert count_sectors(addresses, masks, nbytes).tolist() == wanted


@given(_warps())
@settings(max_examples=examples(150), deadline=None)
def test_wavefronts_are_the_words_of_the_busiest_bank(warps):
    nbytes, addresses, masks = warps
    wanted = [
        wavefronts_of({n: int(a) for n, a in enumerate(row) if mask[n]}, nbytes)
        for row, mask in zip(addresses, masks, strict=True)
    ]
    assert count_wavefronts(addresses, masks, nbytes).tolist() == wanted
    least = count_least_wavefronts(masks, nbytes)
    assert (least <= count_wavefronts(addresses, masks, nbytes)).all()
    in_order = np.broadcast_to(np.arange(32) * nbytes, addresses.shape)
    assert count_wavefronts(in_order, masks, nbytes).tolist() == least.tolist()


def test_no_lane_asks_for_nothing():
    none = np.zeros((2, 32), bool)
    addresses = np.zeros((2, 32), np.int64)
    assert count_sectors(addresses, none, 4).tolist() == [0, 0]
    assert count_wavefronts(addresses, none, 8).tolist() == [0, 0]
    assert count_least_wavefronts(none, 16).tolist() == [0, 0]
    assert count_distinct(addresses, none).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("nbytes", "stride", "wavefronts"),
    # The guide's own examples: strides 1, 2 and 3 of 32-bit words, and wider ones in order.
    [(4, 1, 1), (4, 2, 2), (4, 3, 1), (4, 32, 32), (4, 0, 1), (8, 1, 2), (16, 1, 4), (8, 16, 32)],
)
def test_strides_of_the_guide(nbytes, stride, wavefronts):
    addresses = (np.arange(32, dtype=np.int64) * stride * nbytes)[None]
    assert count_wavefronts(addresses, np.ones((1, 32), bool), nbytes).tolist() == [wavefronts]
