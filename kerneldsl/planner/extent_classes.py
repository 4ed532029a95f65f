"""Classes of extents: those that one plan serves.

Planning for each extent anew would compile and compare again and again for extents that differ by
little. A class is for speed alone: all its extents fit the grids of the same blocks, so that what
is chosen for the largest of them is legal for each, and nothing is refused that fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kerneldsl.target import Dim3

__all__ = ["extent_class", "grid_ends"]


def extent_class(extent: tuple[int, ...], ends: Sequence[Sequence[int]] = ()) -> tuple[int, ...]:
    """The largest extents of a class: each rounded up to three significant bits, or to an end.

    A plan is made for the largest extents of a class, so that it does not depend on which of them
    came first.

    Parameters
    ----------
    extent : tuple of int
        One to three extents.
    ends : sequence of sequence of int, optional
        Extents along each axis with which a class ends, as :func:`grid_ends` gives them; by default
        none: threads walk where a grid is too small.

    Returns
    -------
    tuple of int

    Examples
    --------
    >>> extent_class((1000, 3)), extent_class((1025,)), extent_class((0,))
    ((1024, 3), (1280,), (0,))
    >>> extent_class((64, 60_000), grid_ends([(64, 1, 1)], (2**31 - 1, 65535, 65535)))
    (64, 65535)
    """
    whole = [_round_up_bits(n) for n in extent]
    for axis, among in enumerate(ends[: len(whole)]):
        whole[axis] = min([whole[axis], *(end for end in among if end >= extent[axis])])
    return tuple(whole)


def grid_ends(tiles: Iterable[Dim3], max_grid_dim: Dim3) -> tuple[tuple[int, ...], ...]:
    """The largest extents that grids of some blocks cover along x, y and z.

    Parameters
    ----------
    tiles : iterable of tuple of int
        Indices of the extent that a block of each sort serves.
    max_grid_dim : tuple of int
        Blocks that the device allows along each axis.

    Returns
    -------
    tuple of tuple of int

    Examples
    --------
    >>> grid_ends([(64, 1, 1), (16, 4, 1)], (1000, 100, 100))
    ((16000, 64000), (100, 400), (100,))
    """
    widths = zip(*tiles, strict=True)
    return tuple(
        tuple(sorted({top * width for width in along}))
        for top, along in zip(max_grid_dim, widths, strict=True)
    )


def _round_up_bits(number: int) -> int:
    shift = max(number.bit_length() - 3, 0)
    return -(-number >> shift) << shift if number else 0
