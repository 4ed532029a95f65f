"""locate-pixelcolor-numbacuda: the positions of colours in a picture, against NumPy."""

import numpy as np
import pytest
from locate_pixelcolor_numbacuda import search_colors
from support import generator


@pytest.mark.parametrize(
    ("shape", "levels"), [((37, 53, 3), 6), ((8, 200, 3), 5), ((120, 90, 3), 9)]
)
def test_positions(shape, levels):
    # The package starts three threads for each pixel, so that a third of the pixels may match.
    rng = generator()
    picture = rng.integers(0, levels, shape, dtype=np.uint8)
    colors = np.unique(rng.integers(0, levels, (4, 3)), axis=0)
    found = {tuple(each) for each in search_colors(picture, colors)[0].tolist()}
    hits = (picture[:, :, None, :] == colors).all(-1).any(-1)
    assert found == {tuple(each) for each in np.argwhere(hits).tolist()}


def test_no_position():
    picture = np.zeros((16, 16, 3), np.uint8)
    assert search_colors(picture, np.array([[1, 2, 3]])).size == 0
