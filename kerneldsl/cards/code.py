"""Code as a card shows it: numbered lines, highlighted, joined to lines of the source.

Pygments tells words, numbers and texts apart where it is installed; the colors are those of the
cards' style, so that they fit light and dark pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kerneldsl.utilities.html import Html, element, join
from kerneldsl.utilities.html_style import JOIN_COUNT

__all__ = ["highlighted_lines", "listing"]

#: Lines and characters of code that a card shows; notebooks store what they show.
_MAX_LINES, _MAX_CHARACTERS = 200, 40_000
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
) -> Html:
    """Return code with line numbers.

    Parameters
    ----------
    text : str
        The code.
    language : str or None
        What Pygments calls its language; ``None`` where it has no name for it.
    first : int
        Number of the first line.
    joins : mapping, optional
        Number of a line to the line of the source that it was made from; those of one line have
        one color.
    remarks : mapping, optional
        Number of a line to what is said below it.
    """
    joins, remarks = joins or {}, remarks or {}
    lines = text[:_MAX_CHARACTERS].rstrip("\n").split("\n")
    shown = lines[:_MAX_LINES]
    rows = []
    for number, line in enumerate(highlighted_lines("\n".join(shown), language), first):
        source = joins.get(number)
        kind = "row" if source is None else f"row join{source % JOIN_COUNT}"
        title = None if source is None else f"line {source}"
        rows.append(
            element("span", element("span", number, class_="at"), line, class_=kind, title=title)
        )
        rows += [element("span", each, class_="remark") for each in remarks.get(number, ())]
    left_out = text.rstrip("\n").count("\n") + 1 - len(shown)
    more = element("p", f"{left_out} more lines are not shown") if left_out else Html()
    return join(element("pre", *rows), more)


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
    """Return Pygments' lexer of a language; ``None`` where there is none."""
    try:
        from pygments.lexers import get_lexer_by_name
        from pygments.util import ClassNotFound
    except ImportError:
        return None
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
