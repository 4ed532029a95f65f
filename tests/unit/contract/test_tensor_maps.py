"""What tensor maps describe, and where they are among the parameters."""

from __future__ import annotations

import pytest

from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.contract.tensor_maps import (
    TENSOR_MAP_BYTES,
    MapGeometry,
    TensorMap,
    can_be_mapped,
    map_geometry,
    map_offsets,
    pad_for_maps,
)
from kerneldsl.language.signatures import parse_signature

_MAP = TensorMap(1, (1, 0), (64, 128), 128)


def _geometry(signature: str, *values: int) -> MapGeometry:
    layout = ParameterLayout(("a", "b"), parse_signature(signature))
    return map_geometry(_MAP, layout.arrays[1], values)


def test_strides_of_contiguous_arrays_follow_from_their_extents():
    found = _geometry("float32[::1], bfloat16[:, ::1]", 16, 4, 32, 100, 64)
    assert found == MapGeometry(32, (64, 100), (128,))


def test_strides_that_are_passed_are_those_of_the_map():
    found = _geometry("float32[::1], bfloat16[:, :]", 16, 4, 32, 100, 64, 512, 2)
    assert found == MapGeometry(32, (64, 100), (512,))


@pytest.mark.parametrize(
    ("shape", "strides", "unit_axis", "expected"),
    [
        ((4, 4), (64, 4), 1, True),
        ((4, 4), (4, 64), 0, True),
        ((4, 4), (64, 64), None, False),
        ((4, 4), (-64, 4), 1, False),
        ((4, 4), (0, 4), 1, False),
        ((4, 4), (2**40, 4), 1, False),
        ((2**31, 4), (64, 4), 1, False),
        ((1,) * 6, (16,) * 5 + (4,), 5, False),
        ((0, 4), (64, 4), 1, False),
        ((4, 0), (64, 4), 1, False),
    ],
)
def test_arrays_that_a_map_can_describe(shape, strides, unit_axis, expected):
    assert can_be_mapped(shape, strides, unit_axis) == expected


def test_maps_are_aligned_behind_the_other_parameters():
    assert map_offsets(72, 2) == (128, 256)
    assert map_offsets(128, 1) == (128,)
    maps = [bytes([number]) * TENSOR_MAP_BYTES for number in (1, 2)]
    found = pad_for_maps(b"\x07" * 72, maps)
    assert (len(found), found[71], found[72], found[128], found[256]) == (384, 7, 0, 1, 2)
