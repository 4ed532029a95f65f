"""Code as a card shows it: numbered lines, highlighted, joined to lines of the source.

Pygments distinguishes words, numbers and texts if it is installed. The colors are those of the
cards' style, so that they fit light and dark pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kerneldsl.utilities.html import JOIN_COUNT, Html, element, join

__all__ = ["highlighted_lines", "listing"]

#: Lines of code that a card shows, and characters of a line; notebooks store what they show. Tables
#: of constants are single lines of LLVM IR, with tens of thousands of characters.
_MAX_LINES, _MAX_LINE = 200, 240
#: Characters of all lines together.
_MAX_CHARACTERS = 16_000
#: Kinds of Pygments' tokens to classes of the style.
_CLASSES = (
    ("Comment", "comment"),
    ("Keyword", "word"),
    ("Operator.Word", "word"),
    ("Literal.String", "text"),
    ("Literal.Number", "number"),
)


def listing(
    text: str,
    language: str | None,
    *,
    first: int = 1,
    joins: Mapping[int, int] | None = None,
    remarks: Mapping[int, Sequence[object]] | None = None,
    whole: str = "",
) -> Html:
    """Return code with line numbers.

    Line breaks, and the space after a number, are characters: viewers of notebooks that are not
    trusted remove the style and every attribute.

    - `text`: the code.
    - `language`: Pygments' name of the language; ``None`` if it has none.
    - `first`: number of the first line.
    - `joins`: number of a line to the line of the source that it was made from; those of one line
      have one color.
    - `remarks`: number of a line to what is said below it.
    - `whole`: call that returns all of the code, if not all is shown.
    """
    joins, remarks = joins or {}, remarks or {}
    lines = text.rstrip("\n").split("\n")
    shown = _shown(lines)
    width = len(str(first + len(shown) - 1))
    rows = []
    # A line that is cut is plain: it may end within a string, which would go on in the next one.
    whole_lines = (line if line == lines[n] else "" for n, line in enumerate(shown))
    highlighted = highlighted_lines("\n".join(whole_lines), language)
    for number, (line, plain) in enumerate(zip(highlighted, shown, strict=True), first):
        source = joins.get(number)
        kind = "row" if source is None else f"row join{source % JOIN_COUNT}"
        title = None if source is None else f"line {source}"
        number_cell = element("span", f"{number:{width}}  ", class_="at")
        rows.append(element("span", number_cell, line or plain, class_=kind, title=title))
        rows += [
            element("span", " " * width, "  ^ ", each, class_="remark")
            for each in remarks.get(number, ())
        ]
    text = element("pre", *(join(row, "\n") for row in rows))
    if shown == lines:
        return text
    left_out = len(lines) - len(shown)
    what = f"{left_out} more lines are not shown" if left_out else "Long lines are cut"
    return join(text, element("p", f"{what}. {whole}".rstrip()))


def _shown(lines: Sequence[str]) -> list[str]:
    """Return the lines that a card shows, the long ones cut."""
    found: list[str] = []
    left = _MAX_CHARACTERS
    for line in lines[:_MAX_LINES]:
        found.append(line if len(line) <= _MAX_LINE else f"{line[: _MAX_LINE - 1]}…")
        left -= len(found[-1])
        if left < 0:
            break
    return found


def highlighted_lines(text: str, language: str | None) -> list[Html]:
    """Return the lines of code, with the kinds of their words marked where Pygments knows them."""
    lines: list[list[Html]] = [[]]
    for kind, value in _tokens(text, language):
        for n, part in enumerate(value.split("\n")):
            if n:
                lines.append([])
            if part:
                lines[-1].append(join(part) if kind is None else element("span", part, class_=kind))
    return [join(*parts) for parts in lines]


def _tokens(text: str, language: str | None) -> Iterator[tuple[str | None, str]]:
    lexer = None if language is None else _lexer(language)
    if lexer is None:
        yield None, text
        return
    for token, value in lexer.get_tokens(text):
        name = ".".join(token)
        yield next((c for prefix, c in _CLASSES if name.startswith(prefix)), None), value


def _lexer(language: str) -> Any:
    """Return Pygments' lexer of a language; ``None`` if there is none."""
    try:
        from pygments.lexers import get_lexer_by_name
        from pygments.util import ClassNotFound
    except ImportError:
        return None
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
