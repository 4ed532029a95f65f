"""Formatting of numbers, values and tables: units, counts, versions, aligned text, HTML, dicts.

The command line draws its tables with rich. Values that are printed in an interpreter use these
tables, which need no other package.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from kerneldsl.utilities.shown import Shown

if TYPE_CHECKING:
    from kerneldsl.utilities.html import Html

__all__ = [
    "AsDict",
    "AsTable",
    "ascii_identifier",
    "format_bytes",
    "format_count",
    "format_decimal_bytes",
    "format_duration",
    "format_percent",
    "format_version",
    "html_table",
    "text_table",
]


def format_bytes(count: float) -> str:
    """Write a number of bytes in powers of 1024.

    Examples
    --------
    >>> format_bytes(1536), format_bytes(80 * 2**30), format_bytes(12)
    ('1.5 KiB', '80 GiB', '12 bytes')
    """
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(count) >= size:
            shown = count / size
            return f"{shown:.3g} {unit}" if abs(shown) < 999.5 else f"{shown:.0f} {unit}"
    return f"{count:.0f} byte{'s' * (count != 1)}"


def format_decimal_bytes(count: int) -> str:
    """Write a number of bytes in powers of 1000, in which bandwidths are given.

    Examples
    --------
    >>> format_decimal_bytes(134_217_728), format_decimal_bytes(999), format_decimal_bytes(1)
    ('134 MB', '999 bytes', '1 byte')
    """
    if count < 1000:
        return format_count(count, "byte")
    return _in_units(count, ("KB", "MB", "GB", "TB"), 1e3)


def format_duration(nanoseconds: float) -> str:
    """Write a time in the unit that suits it.

    Examples
    --------
    >>> format_duration(1500), format_duration(2.5e9), format_duration(12), format_duration(999.9)
    ('1.5 µs', '2.5 s', '12 ns', '1 µs')
    """
    return _in_units(nanoseconds, ("ns", "µs", "ms", "s"), 1.0)


def format_percent(share: float, form: str = ".3g") -> str:
    """Write a share of one.

    Examples
    --------
    >>> format_percent(0.7171), format_percent(0.375, ".0f")
    ('71.7 %', '38 %')
    """
    return f"{100 * share:{form}} %"


def _in_units(number: float, units: Sequence[str], first: float) -> str:
    """Write three digits, in the unit that leaves one to three of them before the point."""
    for unit in units:
        # Rounded first: 999.9 of a unit is 1 of the next.
        rounded = float(f"{number / first:.3g}")
        if rounded < 1000:
            return f"{rounded:g} {unit}"
        first *= 1e3
    return f"{number * 1e3 / first:.0f} {units[-1]}"


def format_count(number: int, noun: str, plural: str | None = None) -> str:
    """Write a number of things.

    Examples
    --------
    >>> format_count(1, "block"), format_count(0, "block"), format_count(2, "entry", "entries")
    ('1 block', '0 blocks', '2 entries')
    """
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def format_version(version: tuple[int, int]) -> str:
    """Write a version, or a compute capability.

    Examples
    --------
    >>> format_version((12, 4))
    '12.4'
    """
    return f"{version[0]}.{version[1]}"


def text_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Align columns as text.

    ``None`` is shown as an en dash, a line break as a space; no line has trailing spaces.

    Examples
    --------
    >>> print(text_table(("name", "bytes"), [("a", 16), ("long", None)]))
    name  bytes
    a     16
    long  –
    """
    cells = [tuple(headers), *(tuple(_text(cell) for cell in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )


def html_table(
    headers: Sequence[str], rows: Iterable[Sequence[object]], caption: str | None = None
) -> Html:
    """Write the same as the card of a notebook, with everything escaped."""
    from kerneldsl.utilities.html import card, table  # terminals do without

    return card(caption, table(headers, rows))


def _text(cell: object) -> str:
    return "–" if cell is None else " ".join(str(cell).split())


class AsDict:
    """Base of dataclasses that programs read as dictionaries."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        from dataclasses import asdict

        return asdict(self)


class AsTable(Shown):
    """Base of values that an interpreter and a notebook show as a table."""

    __slots__ = ()

    def _table(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        """Return the headers and the rows."""
        raise NotImplementedError

    def _caption(self) -> str | None:
        """Return the caption of the table in a notebook."""
        return None

    def __repr__(self) -> str:
        return text_table(*self._table())


def ascii_identifier(name: str) -> str:
    """Return a Python name in the letters, digits and ``_`` of ASCII.

    Examples
    --------
    >>> ascii_identifier("axpy"), ascii_identifier("<lambda>"), ascii_identifier("größe")
    ('axpy', '_lambda_', 'gr_u00f6_u00dfe')
    """
    return "".join(
        c if c.isascii() and c.isalnum() else "_" if c.isascii() else f"_u{ord(c):04x}"
        for c in name
    )
