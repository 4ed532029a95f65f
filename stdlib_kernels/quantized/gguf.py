"""Read blocks of GGUF files as quantized numbers of this package.

References
----------
GGML, "ggml-common.h" and "ggml-quants.c": the structures of blocks, and the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stdlib_kernels.checks import check_array
from stdlib_kernels.parameters import choice_of, wrong_value
from stdlib_kernels.quantized.encoding import Quantized
from stdlib_kernels.quantized.formats import pack

__all__ = ["read_gguf"]

_Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def _nibbles(data: _Bytes) -> Any:
    """Return the lower halves of 16 bytes, then the upper ones."""
    return np.concatenate([data & 15, data >> 4], axis=-1).astype(np.int8) - np.int8(8)


def _signed(data: _Bytes) -> Any:
    return data.view(np.int8)


def _trits(data: _Bytes) -> Any:
    """Return five digits of base 3 of each of 32 bytes, of 16 bytes, and four of 4 bytes."""
    parts = [_digits(data[..., a:b], n) for a, b, n in ((0, 32, 5), (32, 48, 5), (48, 52, 4))]
    return np.concatenate(parts, axis=-1)


def _digits(data: _Bytes, count: int) -> Any:
    """Return the first digits of all bytes, then the second ones, and so on.

    A byte is a fraction of 256 in base 3: three times it, above 8 bits, is the first digit.
    """
    powers = (3 ** np.arange(count)).astype(np.uint8)
    fractions = (data[..., None, :] * powers[:, None]).astype(np.uint16)
    digits = (fractions * 3 >> 8).astype(np.int8) - np.int8(1)
    return digits.reshape(*data.shape[:-1], count * data.shape[-1])


def _pairs_of_bits(data: _Bytes) -> Any:
    """Return the lowest two bits of 32 bytes, then the next ones; then those of 32 others."""
    halves = data.reshape(*data.shape[:-1], 2, 1, 32)
    found = halves >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
    return found.reshape(*data.shape[:-1], 256).astype(np.int8) - np.int8(1)


class _Type(NamedTuple):
    """A type of blocks."""

    format: str
    #: Numbers of a block.
    numbers: int
    #: Bytes of a block without its scale, a float16.
    nbytes: int
    #: Returns the numbers of blocks in order.
    read: Callable[[_Bytes], Any]
    is_scale_first: bool = True


TYPES = {
    "Q4_0": _Type("int4", 32, 16, _nibbles),
    "Q8_0": _Type("int8", 32, 32, _signed),
    "TQ1_0": _Type("ternary", 256, 52, _trits, is_scale_first=False),
    "TQ2_0": _Type("ternary", 256, 64, _pairs_of_bits, is_scale_first=False),
}


def read_gguf(blocks: np.ndarray[Any, Any], type: str) -> tuple[Quantized, str]:
    """Read the blocks of a matrix in a GGUF file.

    Parameters
    ----------
    blocks : ndarray of uint8, of shape (n, bytes of a row)
        The blocks of each row.
    type : str
        "Q4_0", "Q8_0", "TQ1_0" or "TQ2_0".

    Returns
    -------
    Quantized
        Packed numbers, and a scale in float16 for each 32 or 256 of them.
    str
        Their format, for `matmul` and `dequantize`.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If the type is unknown, a row is not of whole blocks, or a ternary number is not -1, 0 or 1.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels import quantized
    >>> block = np.array([0, 0x3C] + [0x19] * 16, np.uint8)  # the scale 1, then pairs (1, -7)
    >>> numbers, format = quantized.read_gguf(block[None], "Q4_0")
    >>> quantized.dequantize(*numbers, format=format)[0, [0, 15, 16, 31]].tolist()
    [1.0, 1.0, -7.0, -7.0]
    """
    chosen = TYPES[choice_of("type", type, tuple(TYPES))]
    check_array("blocks", blocks, dtypes=("uint8",), ndim=2)
    nbytes = chosen.nbytes + 2
    if blocks.shape[1] % nbytes:
        limit = f"A block of {type} has {nbytes} bytes, for {chosen.numbers} numbers"
        raise wrong_value("the shape of blocks", blocks.shape, limit, "Reshape the data to (n, -1)")
    each = np.ascontiguousarray(blocks).reshape(blocks.shape[0], -1, nbytes)
    at = 2 * chosen.is_scale_first
    scale = each[..., :2] if chosen.is_scale_first else each[..., -2:]
    codes = chosen.read(np.ascontiguousarray(each[..., at : at + chosen.nbytes]))
    words = pack(codes.reshape(blocks.shape[0], -1), chosen.format)
    scales = np.ascontiguousarray(scale).view(np.dtype("<f2"))[..., 0].astype(np.float16)
    return Quantized(words, scales), chosen.format
