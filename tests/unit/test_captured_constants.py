"""Constants that a kernel captures: when two are the same, and which arrays are constant."""

from __future__ import annotations

import enum
import struct
from typing import Any

import numpy as np
import pytest

from kerneldsl.frontend.captured import constant_problem, make_captured, same_value


def read_only(values: Any) -> np.ndarray:
    array = np.array(values)
    array.flags.writeable = False
    return array


def nan_of(bits: int) -> float:
    return struct.unpack("d", struct.pack("Q", bits))[0]


class Colour(enum.IntEnum):
    RED = 1
    BLUE = 2


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (1.5, 1.5 + 0),
        (-0.0, -0.0),
        (nan_of(0x7FF8000000000000), nan_of(0x7FF8000000000000)),
        ((1, (2.0, "a")), (1, (2.0, "a"))),
        (np.float32(0.1), np.float32(0.1)),
        (10**6, int("1000000")),
        (complex(1, -0.0), complex(1, -0.0)),
    ],
)
def test_equal_constants_count_as_the_old_one(before: Any, now: Any) -> None:
    assert same_value(before, now) is before


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (0.0, -0.0),
        (nan_of(0x7FF8000000000000), nan_of(0xFFF8000000000000)),
        ((1, 2), (1, 2.0)),
        ((np.float32(0.1), 1), (0.1, 1)),
        (complex(0, 0.0), complex(0, -0.0)),
        (Colour.RED, Colour.BLUE),
        (True, 1),
        # repr shows eight digits, and leaves out the middle of a long array.
        ((read_only([0.123456789012, 1.0]),), (read_only([0.123456789999, 1.0]),)),
        ((read_only(np.arange(5000)),), (read_only(np.r_[0:2500, 0, 2501:5000]),)),
    ],
)
def test_other_constants_are_seen(before: Any, now: Any) -> None:
    assert same_value(before, now) is now


def test_an_array_is_itself_alone() -> None:
    array = read_only([1, 2])
    held = (array, 3)
    assert same_value(held, (array, 3)) is held
    copied = (read_only([1, 2]), 3)
    assert same_value(held, copied) is copied


def test_a_view_of_memory_that_can_be_written_is_no_constant() -> None:
    whole = np.array([1.0, 2.0])
    view = whole[:]
    view.flags.writeable = False
    told = constant_problem((view, 1))
    assert told is not None
    assert "view of memory that can be written" in told[0]
    assert "copy" in told[1]
    del whole
    assert constant_problem(view) is None  # nobody is left who could write it
    shared = np.frombuffer(bytearray(16))
    shared.flags.writeable = False
    assert constant_problem(shared) is not None


@pytest.mark.parametrize(
    "array",
    [
        read_only([1, 2]),
        read_only([1, 2])[1:],
        np.broadcast_to(read_only([1, 2]), (3, 2)),
        np.frombuffer(bytes(16)),
    ],
    ids=["whole", "view", "broadcast", "bytes"],
)
def test_what_nobody_can_write_is_constant(array: np.ndarray) -> None:
    assert constant_problem(array) is None


def test_the_array_below_a_captured_view_cannot_be_written_any_more() -> None:
    view = np.arange(6).reshape(2, 3)
    view.flags.writeable = False
    make_captured("view", "view", (view, 1), lambda: view)
    with pytest.raises(ValueError, match="read-only"):
        view.base[0] = 7
    sibling = view.T
    assert constant_problem((view, sibling)) is None
