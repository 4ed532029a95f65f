"""How indices are mapped: the value, its tiles, and the grids that cover an extent."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldsl.analysis.traits import KernelTraits
from kerneldsl.contract import ONE_EACH, ElementMapping
from kerneldsl.errors import LaunchConfigError
from targets.cuda.compile.mapping import map_extent
from targets.null.devices import H100


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"items": (3, 1, 1)}, "powers of two"),
        ({"items": (32, 1, 1)}, "powers of two"),
        ({"items": (0, 1, 1)}, "powers of two"),
        ({"items": (16, 8, 1)}, "64 together"),
        ({"vector": 2}, "does not divide"),
        ({"items": (4, 1, 1), "vector": 3}, "does not divide"),
        ({"order": "shuffled"}, "shuffled"),
        ({"axes": (0, 2)}, "not a permutation"),
        ({"grid_stride": "zy"}, "zy"),
    ],
)
def test_mappings_that_do_not_exist(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ElementMapping(**fields)


def test_axes_are_reversed_unless_they_are_given() -> None:
    assert [ONE_EACH.axes_of(ndim) for ndim in (1, 2, 3)] == [(0,), (1, 0), (2, 1, 0)]
    turned = ElementMapping(axes=(0, 1))
    assert turned.axes_of(2) == (0, 1)
    with pytest.raises(ValueError, match="rank 3"):
        turned.axes_of(3)


def test_a_mapping_is_its_own_description() -> None:
    mapping = ElementMapping((8, 2, 1), 4, "contiguous", (0, 1), "xyz")
    again = eval(repr(mapping))  # noqa: S307 - our own repr
    assert again == mapping
    assert hash(again) == hash(mapping)
    assert mapping.item_count == 16
    assert not mapping.is_one_each
    assert ElementMapping(axes=(0, 1)).is_one_each


@pytest.mark.parametrize("n", [1, 1023, 1024, 1025, 2**31 + 1, 2**40])
def test_blocks_cover_the_extent_and_no_more(n: int) -> None:
    mapping = ElementMapping((4, 1, 1), 4)
    (tile, _, _) = mapping.tile((256, 1, 1))
    blocks = mapping.blocks((n,), (256, 1, 1))
    assert blocks[1:] == (1, 1)
    assert (blocks[0] - 1) * tile < n <= blocks[0] * tile


def test_blocks_follow_the_axes() -> None:
    mapping = ElementMapping((4, 2, 1), 4)
    assert mapping.blocks((100, 1000), (32, 8, 1)) == (8, 7, 1)
    turned = ElementMapping((4, 2, 1), 4, axes=(0, 1))
    assert turned.blocks((1000, 100), (32, 8, 1)) == (8, 7, 1)
    assert ElementMapping((1, 2, 2)).blocks((8, 9, 10), (5, 3, 1)) == (2, 2, 4)


def _traits() -> KernelTraits:
    none: frozenset[int] = frozenset()
    return KernelTraits(False, True, frozenset({1}), False, False, 0, none, ())


def test_a_launch_has_as_many_blocks_as_its_mapping_says() -> None:
    mapping = ElementMapping((8, 1, 1), 4)
    config = map_extent(
        _traits(), H100, (10_000,), (128, 1, 1), max_block_threads=1024, mapping=mapping
    )
    assert config.grid_dim == (10, 1, 1)


def test_only_axes_that_are_walked_are_cut() -> None:
    long = (10**6, 8)
    walked = ElementMapping((1, 2, 1))
    config = map_extent(_traits(), H100, long, None, max_block_threads=1024, mapping=walked)
    assert config.grid_dim == (1, 62500, 1)
    config = map_extent(_traits(), H100, (10**7, 8), None, max_block_threads=1024, mapping=walked)
    assert config.grid_dim == (1, 65535, 1)
    straight = ElementMapping((1, 2, 1), grid_stride="")
    with pytest.raises(LaunchConfigError, match="MAX_GRID_DIM_Y"):
        map_extent(_traits(), H100, (10**7, 8), None, max_block_threads=1024, mapping=straight)
