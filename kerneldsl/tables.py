"""Small tables for ``repr`` and notebooks: text with aligned columns, and HTML.

The command line draws its own with rich; values that a person prints in an interpreter use these,
which need nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["format_bytes", "format_duration", "html_table", "text_table"]


def format_bytes(count: float) -> str:
    """A number of bytes for a reader, in powers of 1024.

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


def format_duration(nanoseconds: float) -> str:
    """A time for a reader, in the unit that suits it.

    Examples
    --------
    >>> format_duration(1500), format_duration(2.5e9), format_duration(12)
    ('1.5 µs', '2.5 s', '12 ns')
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def text_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Align columns as text.

    Parameters
    ----------
    headers : sequence of str
        One for each column.
    rows : iterable of sequence
        What stands in each row; ``None`` is shown as an en dash, a line break as a space.

    Returns
    -------
    str
        Lines without trailing spaces, the last one without an end.

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
) -> str:
    """The same as HTML, with everything escaped.

    Parameters
    ----------
    headers : sequence of str
        One for each column.
    rows : iterable of sequence
        What stands in each row; ``None`` is shown as an en dash.
    caption : str, optional
        What stands above the table.
    """
    from html import escape  # a table of every entity; terminals do without

    head = "".join(f"<th style='text-align:left'>{escape(h)}</th>" for h in headers)
    body = "".join(
        "<tr>"
        + "".join(f"<td style='text-align:left'>{escape(_text(cell))}</td>" for cell in row)
        + "</tr>"
        for row in rows
    )
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(cell: object) -> str:
    return "–" if cell is None else " ".join(str(cell).split())
