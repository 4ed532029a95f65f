"""Numbers of a few bits are packed into words and taken out again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.language.packed_numbers import PACKED_NUMBERS, WORD_DTYPES, PackedNumbers


@pytest.mark.parametrize("numbers", PACKED_NUMBERS.values(), ids=str)
@pytest.mark.parametrize("dtype", WORD_DTYPES)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_what_is_packed_is_unpacked(
    numbers: PackedNumbers, dtype: str, data: st.DataObject
) -> None:
    per_word = 8 * np.dtype(dtype).itemsize // numbers.bits
    rows, words = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 4))
    seed = data.draw(st.integers(0, 2**32))
    shape = (rows, words * per_word)
    values = np.random.default_rng(seed).integers(numbers.smallest, numbers.largest + 1, shape)
    packed = numbers.pack(values, dtype)
    assert (packed.dtype, packed.shape) == (np.dtype(dtype), (rows, words))
    found = numbers.unpack(packed)
    assert found.dtype.name == numbers.dtype
    np.testing.assert_array_equal(found, values)
    # The same bytes, whatever the words are.
    np.testing.assert_array_equal(packed.view(np.uint8), numbers.pack(values, "uint8"))


def test_the_first_number_is_in_the_lowest_bits() -> None:
    assert kd.int2.pack([1, -2, -1, 0], "uint8").tolist() == [0b00111001]
    assert kd.ternary.pack([-1, 0, 1, -1], "uint8").tolist() == [0b00100100]
    assert kd.uint4.pack(range(8)).tolist() == [0x76543210]


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: kd.int4.pack([0.5] * 8), kd.ArgumentTypeError, "np.rint"),
        (lambda: kd.int4.pack([8] * 8), kd.ArgumentValueError, "-8 to 7"),
        (lambda: kd.ternary.pack([2] * 16), kd.ArgumentValueError, "-1 to 1"),
        (lambda: kd.int4.pack([1] * 7), kd.ArgumentValueError, "multiple of the 8 numbers"),
        (lambda: kd.int4.pack(3), kd.ArgumentValueError, "shape"),
        (lambda: kd.int4.pack([1] * 8, "float32"), kd.ArgumentTypeError, "Words are of"),
        (lambda: kd.int4.unpack(np.zeros(3, np.int16)), kd.ArgumentTypeError, "Words are of"),
    ],
)
def test_what_cannot_be_packed_is_refused(make, kind, text) -> None:
    with pytest.raises(kind, match=text):
        make()
