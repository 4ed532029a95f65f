"""The plans that an element kernel could be launched with, and the extents that one of them serves.

Candidates are every legal block and mapping. Planning each extent separately would compile and
compare again for extents that differ by little. So plans are made for classes of extents. A class
only saves time: all its extents fit the grids of the same blocks. So the choice for the largest of
them is legal for each, and no extent that fits is refused.

References
----------
CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kerneldsl.contract import ONE_EACH, DeviceLimits, Dim3, ElementMapping, HostShare, Resources

if TYPE_CHECKING:
    from kerneldsl.planner.space import Member
    from kerneldsl.planner.work import ElementWork

__all__ = [
    "BLOCK_THREADS",
    "Candidate",
    "Choice",
    "Compiled",
    "block_shapes",
    "element_mappings",
    "extent_class",
    "fit_grid",
    "grid_ends",
    "walked_axes",
]

#: Maps the compile-time parameters and the mapping of each compiled kernel to its resources.
Compiled: TypeAlias = dict[tuple[tuple[Any, ...], ElementMapping], Resources]

#: Threads of a block that are tried.
BLOCK_THREADS = (32, 64, 96, 128, 160, 192, 256, 384, 512, 640, 768, 1024)
_ITEMS = (1, 2, 4, 8, 16)
_VECTORS = (1, 2, 4, 8, 16)
#: Operations of a thread beyond which items are not multiplied: their code is unrolled, and what
#: they save is little compared with the body.
_MAX_OPERATIONS = 2048
#: Items along the second axis of the extent from the last, where neighbours are read along it.
_ROWS = (1, 2, 4)


class Candidate(NamedTuple):
    """A block, and how the extent's indices are mapped to threads."""

    #: Threads of a block.
    block_dim: Dim3
    #: Mapping of indices to threads.
    mapping: ElementMapping = ONE_EACH
    #: The member of the kernel's space, if it has one.
    member: Member | None = None
    #: Division of the work among CPU threads, if it was measured.
    host: HostShare | None = None

    @property
    def block_threads(self) -> int:
        x, y, z = self.block_dim
        return x * y * z


class Choice(NamedTuple):
    """A decision: block, mapping and member, and what was compiled to find them."""

    #: The chosen plan.
    candidate: Candidate
    #: Kernels that were compiled to choose it, with their resources.
    compiled: Compiled
    #: True if measurements decided; false if the cost model did.
    is_measured: bool = False


def block_shapes(ndim: int, limits: DeviceLimits, max_threads: int) -> Iterator[Dim3]:
    """Return blocks of whole warps for an extent's rank, a block's first axis along its last."""
    most = min(max_threads, limits.max_threads_per_block)
    warp = limits.warp_size
    for threads in BLOCK_THREADS:
        if threads > most or threads % warp:
            continue
        for shape in _shapes_of(ndim, threads, warp):
            if all(n <= top for n, top in zip(shape, limits.max_block_dim, strict=True)):
                yield shape
    if most < min(BLOCK_THREADS):
        yield most, 1, 1


def _shapes_of(ndim: int, threads: int, warp: int) -> Iterator[Dim3]:
    yield threads, 1, 1
    if ndim == 1 or threads & (threads - 1):
        return
    for width in (warp // 2, warp, 2 * warp, 4 * warp):
        rows = threads // width
        if rows > 1:
            yield width, rows, 1
            if ndim == 3 and rows >= 4 and width == warp:
                yield width, rows // 2, 2


def element_mappings(ndim: int, work: ElementWork) -> Iterator[ElementMapping]:
    """Return the mappings worth trying for a body: items along the last axis, vectors, rows.

    A vector is of use where neighbours are touched, and no wider than 16 bytes.
    """
    operations = work.operations + work.double_operations
    for items in _ITEMS:
        if items > 1 and items * operations > _MAX_OPERATIONS:
            break
        for vector in _VECTORS:
            if vector <= min(items, work.max_vector):
                yield ElementMapping(items=(items, 1, 1), vector=vector)
    if ndim == 1:
        return
    for rows in _ROWS[1:]:
        for items in _ITEMS[:3]:
            if rows * items * operations > _MAX_OPERATIONS:
                break
            vector = min(items, work.max_vector)
            mapping = ElementMapping(items=(items, rows, 1), vector=vector)
            # Rows next to each other share what a stencil reads; groups along a row stay apart.
            yield replace(mapping, order="contiguous") if vector == items else mapping


def walked_axes(
    mapping: ElementMapping, extent: tuple[int, ...], narrowest: Dim3, max_grid: Dim3
) -> ElementMapping:
    """Return the mapping with grid-stride loops along the axes where a grid may be too small.

    `narrowest` are the fewest threads that a block may have along each axis.
    """
    blocks = mapping.blocks(extent, narrowest)
    walked = "".join(
        axis for axis, count, top in zip("xyz", blocks, max_grid, strict=True) if count > top
    )
    return replace(mapping, grid_stride=walked)  # type: ignore[arg-type]


def fit_grid(
    mapping: ElementMapping, extent: tuple[int, ...], block_dim: Dim3, max_grid: Dim3
) -> Dim3 | None:
    """Return the grid of a plan, cut to the device's limits along axes of grid-stride loops.

    ``None`` where the device allows fewer blocks than an axis needs that is not walked along.

    Examples
    --------
    >>> most = (2**31 - 1, 65535, 65535)
    >>> fit_grid(ElementMapping(grid_stride="x"), (2**40,), (256, 1, 1), most)
    (2147483647, 1, 1)
    >>> fit_grid(ElementMapping(grid_stride=""), (2**40,), (256, 1, 1), most) is None
    True
    """
    blocks = mapping.blocks(extent, block_dim)
    for axis, count, top in zip("xyz", blocks, max_grid, strict=True):
        if count > top and axis not in mapping.grid_stride:
            return None
    x, y, z = (min(count, top) for count, top in zip(blocks, max_grid, strict=True))
    return x, y, z


def extent_class(extent: tuple[int, ...], ends: Sequence[Sequence[int]] = ()) -> tuple[int, ...]:
    """Return the largest extents of a class: each rounded up to 3 significant bits, or an end.

    A plan is made for the largest extents of a class, so that it does not depend on which of them
    came first. A class ends with the extents in `ends` along each axis, as :func:`grid_ends` gives
    them. There are none by default, since threads walk where a grid is too small.

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
    """Return the largest extents that grids of some blocks cover along x, y and z.

    `tiles` are the indices that a block of each sort serves.

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
