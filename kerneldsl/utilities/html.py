"""HTML for notebooks: the one place that writes it.

Every value is escaped unless an `element` made it, so that neither a kernel's name nor an array's
content can become markup. A `card` brings its style with it. There is no JavaScript, so a page that
was saved or printed shows the same. Viewers of notebooks that are not trusted remove the style and
the attributes: elements and text alone must be legible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["Html", "card", "element", "facts_table", "fold", "items", "join", "table"]

#: Class of what is around a card; the style is of what is in it alone.
_CARD_CLASS = "kerneldsl"


class Html(str):
    """Text that is HTML already; any other text is escaped."""

    __slots__ = ()


def join(*parts: object) -> Html:
    """Return parts one after the other; what is not `Html` is escaped.

    Examples
    --------
    >>> join("a < b", element("b", "&"))
    'a &lt; b<b>&amp;</b>'
    """
    from html import escape  # a table of every entity; terminals do without

    return Html("".join(each if isinstance(each, Html) else escape(str(each)) for each in parts))


def element(name: str, *parts: object, **attributes: object) -> Html:
    """Return an element with its parts.

    Parameters
    ----------
    name : str
        Its tag.
    *parts
        What it holds; what is not `Html` is escaped.
    **attributes
        Its attributes; ``class_`` is ``class``. One that is ``None`` or ``False`` is left out, of
        one that is ``True`` the name alone is written.

    Examples
    --------
    >>> element("td", "1 < 2", class_="n")
    '<td class="n">1 &lt; 2</td>'
    """
    head = name
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        head += f" {key.rstrip('_')}" + ("" if value is True else f'="{join(value)}"')
    return Html(f"<{head}>{join(*parts)}</{name}>")


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """Return a table; ``None`` is shown as an en dash."""
    head = element("tr", *(element("th", each) for each in headers))
    body = [element("tr", *(element("td", _cell(cell)) for cell in row)) for row in rows]
    return element("table", element("thead", head), element("tbody", *body))


def facts_table(facts: Iterable[tuple[str, object]]) -> Html:
    """Return a table of names and values, without the facts that are ``None``."""
    rows = (
        element("tr", element("th", name), element("td", value))
        for name, value in facts
        if value is not None
    )
    return element("table", element("tbody", *rows))


def items(texts: Iterable[object]) -> Html:
    """Return a list of texts; nothing if there are none."""
    listed = [element("li", each) for each in texts]
    return element("ul", *listed) if listed else Html()


def fold(summary: object, *parts: object, is_open: bool = False) -> Html:
    """Return parts that a reader unfolds."""
    return element("details", element("summary", summary), *parts, open=is_open)


def card(title: object, *parts: object) -> Html:
    """Return a card: its style, its title, and its parts."""
    from kerneldsl.utilities.html_style import STYLE

    head = () if title is None else (element("p", element("strong", title), class_="title"),)
    return element("div", element("style", Html(STYLE)), *head, *parts, class_=_CARD_CLASS)


def _cell(value: object) -> object:
    return "–" if value is None else value
