"""pyrebel: elements of an array that are not zero, and edges of images, against NumPy."""

import numpy as np
import pytest
from pyrebel.getnonzeros import get_non_zeros
from pyrebel.utils import decrement_by_one_cuda
from support import generator


@pytest.mark.parametrize("length", [1, 511, 512, 513, 5000, 300_001])
def test_non_zeros(length):
    values = generator().integers(0, 3, length).astype(np.int32)
    values[0] = 1
    np.testing.assert_array_equal(get_non_zeros(values), values[values != 0])


def test_other_than_a_number():
    values = generator().integers(0, 4, 3000).astype(np.int32)
    np.testing.assert_array_equal(get_non_zeros(values, 2), values[values != 2])


def test_decrement():
    values = generator().integers(-9, 9, 700).astype(np.int32)
    np.testing.assert_array_equal(decrement_by_one_cuda(values), values - 1)
