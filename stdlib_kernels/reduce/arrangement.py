"""The layout of a reduction over axes: any array as one of three axes, and how its parts are cut.

An array's axes are brought into the order of its memory, and neighbours that are both kept or both
reduced are joined. What is left is looked at in one of two forms, whichever has neighbouring
threads read neighbouring elements:

=========  ==========================  =========================================================
form       axes                        who reduces
=========  ==========================  =========================================================
rows       (kept, kept, reduced)       a block reduces one part of a row
columns    (kept, reduced, kept)       a thread reduces one part of a column
=========  ==========================  =========================================================

Each pass leaves one element of a part, in an array of the same form, until there is one part. The
order of evaluation depends only on shape and strides, so that a result has the same bits at every
launch and on every target.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch
from kerneldsl.utilities.dataclasses import dataclass
from stdlib_kernels.arrays import allocate, contiguous
from stdlib_kernels.checks import Array

__all__ = ["MAX_PARTS", "Arrangement", "Kernels", "arrange"]

#: The smallest number of elements of a row's part, so that a block is worth its cost.
MIN_ROW_PART = 4096
#: Elements of a row up to which it is one part: a second launch would cost more than it gains.
SINGLE_PART = 1 << 14
#: Approximate number of blocks for all parts of all rows.
ROW_BLOCKS = 4096
#: Largest number of parts of a row that one block can combine.
MAX_PARTS = 1 << 15
#: The smallest number of elements of a column's part.
MIN_COLUMN_PART = 64
#: Approximate number of threads for all parts of all columns: as many as a large device runs.
COLUMN_THREADS = 1 << 18
#: Threads of a block: normally, and if each block has little work.
BLOCK, WARP = 256, 32
#: Threads of a block for a single part that is larger than others, and the number of rows below
#: which it is used: more rows occupy a device with smaller blocks.
WIDE_BLOCK, FEW_ROWS = 1024, 256
#: Number of elements from which a row has more than one warp, and up to which many rows have two.
LONG_ROW, TWO_WARP_ROW = 1024, 8192
#: Rows shorter than this are reduced by a thread each.
SHORT_ROW = 64
#: Neighbouring columns below which threads are better placed along them.
FEW_COLUMNS = 8


class Kernels(NamedTuple):
    """A kernel for each form: ``(*inputs, *outputs, chunk, *others)``, launched for every part."""

    rows: Any
    columns: Any
    widest: int = WIDE_BLOCK
    """Threads of a block that the kernel of rows has the registers for."""


@dataclass(frozen=True)
class Arrangement:
    """Arrays of equal shape in one of the two forms."""

    inputs: tuple[Array, ...]
    by_rows: bool
    #: The largest number of elements of a row's part, with fewer than MAX_PARTS; 0 for no limit.
    largest_part: int = 0
    #: Elements of a row up to which it is one part.
    single_part: int = SINGLE_PART

    @property
    def kept(self) -> tuple[int, int]:
        """Extents of the two axes that are kept."""
        shape = self.inputs[0].shape
        return (shape[0], shape[1]) if self.by_rows else (shape[0], shape[2])

    @property
    def count(self) -> int:
        """Elements that become one."""
        return int(self.inputs[0].shape[2 if self.by_rows else 1])

    @property
    def chunk(self) -> int:
        """Elements of a part; of the last one perhaps fewer."""
        others = math.prod(self.kept)
        if self.by_rows:
            wanted = _whole(-(-self.count * others // ROW_BLOCKS))
            if self.count <= self.single_part:
                return max(wanted, self.single_part)
            if not self.largest_part or wanted >= self.count:
                return wanted
            return min(wanted, max(self.largest_part, _whole(-(-self.count // MAX_PARTS))))
        return max(MIN_COLUMN_PART, -(-self.count * others // COLUMN_THREADS))

    @property
    def parts(self) -> int:
        """The number of parts that a row or column is cut into; one at least."""
        return max(1, -(-self.count // self.chunk))

    def allocate(self, dtype: np.dtype[Any]) -> Array:
        """Return an array of this form with an element for each part."""
        (a, b), like = self.kept, self.inputs[0]
        return allocate(like, (a, b, self.parts) if self.by_rows else (a, self.parts, b), dtype)

    def of(self, *inputs: Array) -> Arrangement:
        """Return the arrangement of arrays that have this form, such as what a pass has left."""
        return replace(self, inputs=inputs)

    def launch(self, kernels: Kernels, *outputs: Any, **constants: Any) -> None:
        """Launch the kernel of the form on the inputs and `outputs`, with a block for each part."""
        (a, b), parts = self.kept, self.parts
        if self.by_rows:
            kernel, grid = kernels.rows, (a * b, parts)
            block = BLOCK if self.count > LONG_ROW else WARP
            if LONG_ROW < self.count <= TWO_WARP_ROW and a * b >= FEW_ROWS:
                block = 2 * WARP
            if MIN_ROW_PART < self.count <= self.single_part and a * b < FEW_ROWS:
                # Threads of numbers of 16 bytes have too many registers for the widest block.
                is_wide = max(each.dtype.itemsize for each in (self.inputs[0], outputs[0])) > 8
                block = min(kernels.widest, WIDE_BLOCK // 2 if is_wide else WIDE_BLOCK)
        else:
            block = BLOCK if b > WARP else WARP
            kernel, grid = kernels.columns, (a * -(-b // block), parts)
        launch(kernel, grid, block, *self.inputs, *outputs, **constants)


def _whole(elements: int) -> int:
    """Return a size of parts of rows that is not smaller."""
    return max(1, -(-elements // MIN_ROW_PART)) * MIN_ROW_PART


def arrange(
    x: Array, axes: tuple[int, ...], *, in_order: bool = False
) -> tuple[Arrangement, tuple[int, ...]]:
    """Bring an array that kernels can reach into one of the two forms, without a copy if possible.

    `axes` are reduced: from 0 on, in rising order; with `in_order` elements follow each other in C
    order along them. Returned are the arrangement, and the axes that are kept in its order.
    """
    kept = [i for i in range(x.ndim) if i not in axes]
    if x.size == 0:
        none = allocate(x, (1, math.prod(x.shape[i] for i in kept), 0), x.dtype)
        return _of_three(none, (False, False, True)), tuple(kept)
    by_stride = sorted(range(x.ndim), key=lambda i: -abs(x.strides[i]))
    ones = [i for i in by_stride if x.shape[i] == 1]
    order = [i for i in by_stride if x.shape[i] != 1]
    order_kept = [i for i in ones + order if i in kept]
    if in_order and (backwards := [i for i in order if i in axes]) != sorted(backwards):
        return _packed(x, axes, kept)
    first: Any = (*[0] * len(ones), ...)  # of one element a view, and no scalar
    view = x.transpose(ones + order)[first]
    view, is_reduced = _joined(view, [i in axes for i in order])
    if is_reduced.count(True) > 1 or is_reduced.count(False) > 2:
        return _packed(x, axes, kept)
    return _of_three(view, tuple(is_reduced)), tuple(order_kept)


def _joined(view: Array, is_reduced: list[bool]) -> tuple[Array, list[bool]]:
    """Join neighbouring axes of one sort through which memory goes on at one stride."""
    if isinstance(view, kd.DeviceArray) and view.layout != "C":
        return view, is_reduced
    extents: list[int] = []
    sorts: list[bool] = []
    for i, n in enumerate(view.shape):
        goes_on = i > 0 and view.strides[i - 1] == view.strides[i] * n
        if goes_on and sorts[-1] == is_reduced[i]:
            extents[-1] *= n
        else:
            extents.append(n)
            sorts.append(is_reduced[i])
    return view.reshape(tuple(extents)), sorts


def _packed(
    x: Array, axes: tuple[int, ...], kept: list[int]
) -> tuple[Arrangement, tuple[int, ...]]:
    """Arrange a copy with the reduced axes last."""
    view = contiguous(x.transpose((*kept, *axes)))
    rows = math.prod(view.shape[: len(kept)])
    return _of_three(view.reshape((1, rows, -1)), (False, False, True)), tuple(kept)


def _of_three(view: Array, is_reduced: tuple[bool, ...]) -> Arrangement:
    """Arrange up to three axes, with one or none reduced, in the order of memory."""
    reduced = [i for i, each in enumerate(is_reduced) if each]
    kept = [i for i, each in enumerate(is_reduced) if not each]
    count = math.prod(view.shape[i] for i in reduced)
    columns = view.shape[kept[-1]] if kept else 1
    is_last = not kept or (bool(reduced) and reduced[0] > kept[-1])
    by_rows = count == 0 or (count >= SHORT_ROW and (is_last or columns < FEW_COLUMNS))
    more = (None,) * (3 - len(is_reduced))
    missing = list(range(len(more)))
    view = view[(*more, ...)] if more else view
    kept, reduced = [i + len(more) for i in kept], [i + len(more) for i in reduced]
    while len(kept) < 2:
        kept.insert(0, missing.pop())
    reduced = reduced or [missing.pop()]
    order = (*kept, *reduced) if by_rows else (kept[0], *reduced, kept[1])
    return Arrangement((view.transpose(order),), by_rows)
