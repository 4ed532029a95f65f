"""Numbers of fewer than 8 bits, packed into the words of an array.

The first number of a word is in its lowest bits, so that the memory may be read as bytes or as
words of 32 bits. They are not element types: the elements of the array are the words.

References
----------
R. Yuan et al., "BitNet b1.58" (2024): weights of -1, 0 and 1 in two bits, as their values plus 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.utilities.dataclasses import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "PACKED_NUMBERS",
    "WORD_DTYPES",
    "PackedNumbers",
    "int2",
    "int4",
    "ternary",
    "uint2",
    "uint4",
]

#: Dtypes of arrays that numbers are packed in.
WORD_DTYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64")


@dataclass(frozen=True, slots=True)
class PackedNumbers:
    """A format of packed numbers with 2 or 4 bits.

    Parameters
    ----------
    name : str
        The name in ``kd``, such as ``"int4"``.
    bits : int
        Bits of a number: 2 or 4.
    smallest, largest : int
        The range of values.
    is_twos_complement : bool
        Whether the bits are the value's lowest ones; else they are the value minus `smallest`.

    Examples
    --------
    >>> words = int4.pack([1, 2, 3, -1, 0, 0, 0, 7])
    >>> int4.unpack(words)
    array([ 1,  2,  3, -1,  0,  0,  0,  7], dtype=int8)
    """

    name: str
    bits: int
    smallest: int
    largest: int
    is_twos_complement: bool = True

    @property
    def dtype(self) -> str:
        """Name of the element type that a number is read as: ``"int8"`` or ``"uint8"``."""
        return "int8" if self.smallest < 0 else "uint8"

    def pack(self, values: npt.ArrayLike, dtype: Any = "uint32") -> npt.NDArray[Any]:
        """Pack values into words, along the last axis.

        Parameters
        ----------
        values : array_like of int, of shape (..., n)
            From `smallest` to `largest`; `n` is a multiple of the numbers in a word.
        dtype : dtype, optional
            Of the words: an integer of 8, 32 or 64 bits.

        Returns
        -------
        ndarray, of shape (..., n * bits / bits of a word)

        Raises
        ------
        ArgumentValueError
            If a value is out of range, or `n` is not such a multiple.
        ArgumentTypeError
            If the values are not integers, or `dtype` is not a dtype of words.

        Examples
        --------
        >>> [hex(word) for word in int4.pack([1, 2, 3, -1, 0, 0, 0, 7])]
        ['0x7000f321']
        """
        import numpy as np

        words, given = np.dtype(dtype), np.asarray(values)
        self._check_words(words)
        if given.dtype.kind not in "iu":
            raise ArgumentTypeError(
                f"kd.{self.name}.pack was given values of dtype {given.dtype}",
                value=given.dtype,
                limit="Values are integers",
                remedy="Round them: np.rint(values).astype(np.int8)",
            )
        if given.size and not self.smallest <= given.min() <= given.max() <= self.largest:
            raise ArgumentValueError(
                f"kd.{self.name}.pack was given values from {given.min()} to {given.max()}",
                value=int(given.min()),
                limit=f"Values of kd.{self.name} are {self.smallest} to {self.largest}",
                remedy=f"Clip them: np.clip(values, {self.smallest}, {self.largest})",
            )
        per_byte = 8 // self.bits
        per_word = per_byte * words.itemsize
        if given.ndim == 0 or given.shape[-1] % per_word:
            raise ArgumentValueError(
                f"kd.{self.name}.pack was given values of shape {given.shape}",
                value=given.shape,
                limit=f"The last axis is a multiple of the {per_word} numbers in a {words} word",
                remedy="Pad it with zeros",
            )
        codes = given.astype(np.int16) - (0 if self.is_twos_complement else self.smallest)
        places = (codes & ((1 << self.bits) - 1)).astype(np.uint8)
        places = places.reshape(*given.shape[:-1], given.shape[-1] // per_byte, per_byte)
        shifts = np.arange(0, 8, self.bits, dtype=np.uint8)
        packed = np.bitwise_or.reduce(places << shifts, axis=-1, dtype=np.uint8)
        return np.ascontiguousarray(packed).view(words)

    def unpack(self, words: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Unpack the values in words along the last axis; the inverse of `pack`.

        Parameters
        ----------
        words : ndarray of an integer of 8, 32 or 64 bits, of shape (..., n)

        Returns
        -------
        ndarray of int8 or uint8, of shape (..., n * bits of a word / bits)

        Raises
        ------
        ArgumentTypeError
            If the dtype is not a dtype of words.

        Examples
        --------
        >>> ternary.unpack(ternary.pack([-1, 0, 1, 1], "uint8"))
        array([-1,  0,  1,  1], dtype=int8)
        """
        import numpy as np

        given = np.ascontiguousarray(words)
        self._check_words(given.dtype)
        shifts = np.arange(0, 8, self.bits, dtype=np.uint8)
        codes = given.view(np.uint8)[..., np.newaxis] >> shifts & np.uint8((1 << self.bits) - 1)
        values = codes.astype(np.int8)
        if not self.is_twos_complement:
            values += np.int8(self.smallest)
        elif self.smallest < 0:
            values = (values << (8 - self.bits)) >> (8 - self.bits)
        per_byte = 8 // self.bits
        shape = (*given.shape[:-1], given.shape[-1] * given.itemsize * per_byte)
        return values.reshape(shape).astype(self.dtype)

    def _check_words(self, dtype: Any) -> None:
        if dtype.name not in WORD_DTYPES or not dtype.isnative:
            raise ArgumentTypeError(
                f"numbers of kd.{self.name} are not packed in words of dtype {dtype}",
                value=dtype,
                limit=f"Words are of {', '.join(WORD_DTYPES)}",
            )

    def __repr__(self) -> str:
        return f"kerneldsl.{self.name}"


int4 = PackedNumbers("int4", 4, -8, 7)
uint4 = PackedNumbers("uint4", 4, 0, 15)
int2 = PackedNumbers("int2", 2, -2, 1)
uint2 = PackedNumbers("uint2", 2, 0, 3)
#: -1, 0 and 1; the bits are the value plus 1.
ternary = PackedNumbers("ternary", 2, -1, 1, is_twos_complement=False)

#: Each by its name.
PACKED_NUMBERS = {each.name: each for each in (int4, uint4, int2, uint2, ternary)}
