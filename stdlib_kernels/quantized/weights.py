"""Quantized matrices, with the scales of their rows and groups."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kerneldsl.errors import ArgumentTypeError
from kerneldsl.repeating.recorded import bytes_after_word
from stdlib_kernels.arrays import is_contiguous
from stdlib_kernels.checks import Array, check_alike, check_array, check_same_kind
from stdlib_kernels.parameters import dtype_of, wrong_value
from stdlib_kernels.quantized.formats import Format

__all__ = [
    "FLOATS",
    "WHOLE",
    "Weights",
    "check_scales",
    "check_zeros",
    "fitting_group",
    "float_dtype_of",
    "of_each_row",
    "scales_of",
]

#: Dtypes of floats that are multiplied by quantized numbers.
FLOATS = ("float32", "float16", "bfloat16")
#: Rows and columns of the blocks that scales are of, if they are neither of rows nor of all.
BLOCK = 128
#: Numbers of a group along k are a multiple of these, which an instruction adds.
UNIT = 16
#: Extent of a group that contains a whole row.
WHOLE = 1 << 40
#: Permitted scales, in words of errors.
_SCALES = (
    f"Rows have one scale together, one each, or one for each {BLOCK}. Along k there is one, one "
    f"for each of equal parts that are multiples of {UNIT}, or else one for each {BLOCK}"
)


class Weights(NamedTuple):
    """The right factor of a product, and the scales of both."""

    format: Format
    #: (n, elements).
    words: Array
    #: (n, or n / `BLOCK`; groups).
    scales: Array
    zeros: Array | None
    #: (m; 1, or groups) of the left factor, if that has numbers of 8 bits.
    x_scales: Array
    #: Rows, and numbers along k, that have the same scale.
    height: int
    group: int

    @property
    def as_words(self) -> Array | None:
        """Integers as words of uint32; ``None`` if words are not aligned, or not of one row."""
        chosen, words = self.format, self.words
        if chosen.numbers is not None:
            return words
        is_packed = is_contiguous(words) and words.shape[1] % 4 == 0 and not bytes_after_word(words)
        return words.view(np.uint32) if is_packed and not chosen.is_float else None

    def part(self, rows: slice) -> Weights:
        """Return those of some of the rows, which begin at a multiple of `height`."""
        own = slice(rows.start // self.height, -(-rows.stop // self.height))
        zeros = None if self.zeros is None else self.zeros[own]
        return self._replace(words=self.words[rows], scales=self.scales[own], zeros=zeros)

    def groups(self, columns: int) -> dict[str, Any]:
        """Return constants of kernels with tiles of so many columns, which `share` scales."""
        share = columns if self.height == 1 else 1
        return {"group": self.group, "height": self.height, "share": share}


def extents_of(counts: tuple[int, int], shape: tuple[int, int]) -> tuple[int | None, int | None]:
    """Return the rows, and the numbers of a row, that share one of so many scales.

    ``None`` is wrong. Groups of a row are equal parts, or else blocks of `BLOCK`. The last block
    may be shorter.
    """
    (count, groups), (rows, inner) = counts, shape
    height = 1 if count in (1, rows) else BLOCK if count == -(-rows // BLOCK) else None
    if groups == 1:
        return height, WHOLE
    if groups and inner and inner % groups == 0 and inner // groups % UNIT == 0:
        return height, inner // groups
    return height, BLOCK if groups and groups == -(-inner // BLOCK) else None


def fitting_group(group: int, inner: int, chosen: Format) -> int:
    """Return the length of parts of a group, so that an int32 holds sums of products with int8."""
    most = (2**31 - 1) // (128 * int(max(chosen.largest, -chosen.smallest)))
    if min(group, inner) <= most:
        return group
    if group == WHOLE:
        return BLOCK
    units = group // UNIT
    return group // next(n for n in range(2, units + 1) if units % n == 0 and group // n <= most)


def scales_of(group: Any, shape: tuple[int, int], chosen: Format) -> tuple[int, int]:
    """Return the shape of the scales of groups, or raise an error if they would be read as others.

    `group` has rows and columns.
    """
    counts = -(-shape[0] // group[0]), max(-(-shape[1] // group[1]), 1)
    # If no count is given, `dequantize` reads all numbers that the words have room for.
    for inner in (shape[1], chosen.elements(shape[1]) * chosen.per_element):
        found = extents_of(counts, (shape[0], inner))
        if any(n > 1 and a != b for n, a, b in zip(counts, found, group, strict=True)):
            limit = (
                f"In a matrix of shape {shape}, groups have 1, {BLOCK} or all rows, and as columns "
            )
            limit += f"all, {BLOCK}, or a multiple of {UNIT} that divides {shape[1]}"
            remedy = "Pass such a group, or None for one scale for each row"
            raise wrong_value("group", group, limit, remedy)
    return counts


def of_each_row(scales: Array, rows: int) -> Array:
    """Return scales for each of so many rows, a view, if there is one for all."""
    if scales.shape[0] != 1 or rows == 1:
        return scales
    shape = (rows, scales.shape[1])
    if isinstance(scales, np.ndarray):
        return np.broadcast_to(scales, shape)
    return scales.broadcast_to(shape)


def check_scales(
    name: str, scales: Array, extents: tuple[int, int], like: Array
) -> tuple[int, int]:
    """Return the rows, and the numbers of a row, that have the same scale, or raise an error."""
    check_array(name, scales, dtypes=("float32", "float16"), ndim=2)
    check_same_kind(name, scales, "the matrix", like)
    height, group = extents_of(tuple(scales.shape), extents)
    if height is None or group is None:
        name = f"for a matrix of shape {extents}, the shape of {name}"
        raise wrong_value(name, tuple(scales.shape), _SCALES, "Give it the shape (rows, groups)")
    return height, group


def check_zeros(zeros: Array | None, scales: Array, chosen: Format) -> None:
    """Refuse zeros of another dtype or shape, or for a format without them."""
    if zeros is None:
        return
    if not chosen.has_zeros:
        limit = "This format has no zero points, and zeros was given"
        raise wrong_value("format", chosen.name, limit, "Omit zeros")
    check_array("zeros", zeros, dtypes=("uint8",))
    check_alike("zeros", zeros, "scales", scales)


def float_dtype_of(dtype: Any, default: Any = None) -> np.dtype[Any]:
    """Return the dtype of a result, by default float32."""
    if dtype is None:
        return np.dtype(np.float32 if default is None else default)
    found = dtype_of(dtype, None, kinds="f")
    if found.name not in FLOATS:
        limit, remedy = f"It must be of {', '.join(FLOATS)}", "Omit dtype, or convert the result"
        raise wrong_value("dtype", str(found), limit, remedy, ArgumentTypeError)
    return found
