"""Differences between the arguments that a launch leaves and those of the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.arrays import assert_same_bits

__all__ = ["compare"]


def compare(got: list[list[Any]], expected: list[list[Any]]) -> str:
    """Return the first difference between two lists of arguments; no text where there is none."""
    for data_set, (left, right) in enumerate(zip(got, expected, strict=True)):
        for position, (a, b) in enumerate(zip(left, right, strict=True)):
            if isinstance(a, np.ndarray):
                try:
                    assert_same_bits(a, b, f"argument {position}, data set {data_set}")
                except AssertionError as error:
                    return str(error)
    return ""
