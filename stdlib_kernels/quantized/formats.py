"""Formats of quantized numbers, and how they are packed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import kerneldsl as kd
from stdlib_kernels.arrays import to_host, to_like
from stdlib_kernels.checks import Array, check_array
from stdlib_kernels.functions import library_function
from stdlib_kernels.parameters import choice_of, integer_of, wrong_value

__all__ = ["FORMATS", "Format", "check_words", "format_of", "pack", "unpack"]


class Format(NamedTuple):
    """A format of numbers that are multiplied by a scale."""

    #: Name of the format; also of the dtype, or of the packed numbers in ``kd``.
    name: str
    #: Number that the largest absolute value is scaled to.
    largest: float
    #: Packing of numbers of fewer than 8 bits in words of uint32.
    numbers: Any = None
    #: Whether each group may have a number that means 0.
    has_zeros: bool = False

    @property
    def is_float(self) -> bool:
        """True for floats of 8 bits."""
        return self.name.startswith("float8")

    @property
    def bits(self) -> int:
        """Bits of a number."""
        return 8 if self.numbers is None else int(self.numbers.bits)

    @property
    def smallest(self) -> float:
        """The least number."""
        if self.numbers is None:
            return -self.largest - (not self.is_float)
        return float(self.numbers.smallest)

    @property
    def bias(self) -> int:
        """The number without a sign that means 0, after `flip`; 0 for a format with zeros."""
        if self.numbers is None:
            return 128
        return -int(self.numbers.smallest)

    @property
    def flip(self) -> int:
        """Bits of a word to be changed, so that numbers have no sign and are larger by `bias`."""
        is_signed = self.numbers is None or (self.numbers.is_twos_complement and self.bias > 0)
        return 0xFFFFFFFF // (2**self.bits - 1) << (self.bits - 1) if is_signed else 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of numbers that are not packed."""
        name = self.name if self.numbers is None else self.numbers.dtype
        found: np.dtype[Any] = np.dtype(getattr(kd, name))
        return found

    @property
    def stored(self) -> np.dtype[Any]:
        """Dtype of the array with packed numbers: of words, or of the numbers themselves."""
        return self.dtype if self.numbers is None else np.dtype(np.uint32)

    @property
    def per_element(self) -> int:
        """Numbers in an element of such an array."""
        return 1 if self.numbers is None else 32 // self.bits

    def elements(self, count: int) -> int:
        """Return the elements of a row of so many numbers."""
        return -(-count // self.per_element)


FORMATS = {
    each.name: each
    for each in (
        Format("int8", 127),
        Format("int4", 7, kd.int4),
        Format("uint4", 15, kd.uint4, has_zeros=True),
        Format("ternary", 1, kd.ternary),
        Format("float8_e4m3fn", 448),
        Format("float8_e5m2", 57344),
    )
}


def format_of(name: Any) -> Format:
    """Return a format by its name."""
    return FORMATS[choice_of("format", name, tuple(FORMATS))]


def check_words(words: Any, chosen: Format, ndim: int | None = None) -> None:
    """Refuse packed numbers of another dtype or rank: their bits are not to be converted."""
    stored, found = chosen.stored, getattr(words, "dtype", None)
    formats = [repr(name) for name, each in FORMATS.items() if each.stored == found]
    remedy = f"Pass quantized.quantize(w, {chosen.name!r}), or quantized.pack of its numbers"
    if formats:
        remedy = f"Pass the format of words of {found}: {' or '.join(formats)}"
    elif found is not None and found.kind in "biu" and found.itemsize == stored.itemsize:
        remedy = f"Pass words.view({stored.name!r}), if these are bits of that dtype"
    check_array("words", words, dtypes=(stored.name,), ndim=ndim, dtype_remedy=remedy)


@library_function
def pack(codes: Array, format: str) -> Any:
    """Pack numbers of a format along the last axis, as `matmul` reads them.

    Parameters
    ----------
    codes : ndarray or device array of shape (…, k)
        Integers of a narrow format; for other formats, numbers of its dtype, which are returned.
    format : str
        One of those of `quantize`.

    Returns
    -------
    array of shape (…, elements)
        Of uint32, or of the format's dtype. Same kind as `codes`. What is left of the last word of
        a row contains zeros.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If the format is unknown, or a number is not one of the format.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels import quantized
    >>> words = quantized.pack(np.array([[-1, 0, 1]], np.int8), "ternary")
    >>> quantized.unpack(words, "ternary", 3)
    array([[-1,  0,  1]], dtype=int8)
    """
    chosen = format_of(format)
    numbers = chosen.numbers
    if numbers is None:
        check_array("codes", codes, dtypes=(chosen.name,))
        return codes
    check_array("codes", codes, kinds="iu")
    host = to_host(codes)
    if not host.ndim:
        raise wrong_value("the shape of codes", host.shape, "It must have rows")
    rest = -host.shape[-1] % chosen.per_element
    padded = np.pad(host, [(0, 0)] * (host.ndim - 1) + [(0, rest)])
    return to_like(codes, numbers.pack(padded))


@library_function
def unpack(words: Array, format: str, count: int | None = None) -> Any:
    """Unpack numbers of a format; the inverse of `pack`.

    Parameters
    ----------
    words : ndarray or device array of shape (…, elements)
        As `pack` returns them.
    format : str
        One of those of `quantize`.
    count : int, optional
        Numbers of a row; by default all that words have room for.

    Returns
    -------
    array of shape (…, count)
        Of the format's dtype. Same kind as `words`.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If the format is unknown, `words` has another dtype, or a row fewer numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels import quantized
    >>> quantized.unpack(np.array([[0x21]], np.uint32), "uint4", 2).tolist()
    [[1, 2]]
    """
    chosen = format_of(format)
    check_words(words, chosen)
    host = to_host(words)
    if not host.ndim:
        raise wrong_value("the shape of words", host.shape, "It must have rows")
    if chosen.numbers is not None:
        host = chosen.numbers.unpack(host)
    room = host.shape[-1]
    wanted = room if count is None else integer_of("count", count, 0)
    if wanted > room:
        raise wrong_value("count", wanted, f"A row of words holds {room} numbers")
    return to_like(words, np.ascontiguousarray(host[..., :wanted]))
