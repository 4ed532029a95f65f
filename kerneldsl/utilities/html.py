"""HTML for notebooks: the one place that writes it.

Every value is escaped unless an `element` made it, so that neither a kernel's name nor an array's
content can become markup. A `card` brings its style with it. There is no JavaScript, so a page that
was saved or printed shows the same. Viewers of notebooks that are not trusted remove the style and
the attributes: elements and text alone must be legible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

__all__ = [
    "JOIN_COUNT",
    "Html",
    "card",
    "element",
    "facts_table",
    "fold",
    "items",
    "join",
    "style",
    "table",
]

_LIGHT = (
    "color-scheme:light;--paper:#fff;--ink:#1f2328;--faint:#656d76;--line:#d8dee4;--shade:#f6f8fa;"
    "--word:#8250df;--text:#0a6c3d;--number:#0550ae;--note:#9a6700;--join:42%"
)
_DARK = (
    "color-scheme:dark;--paper:#161b22;--ink:#e6edf3;--faint:#8d96a0;--line:#30363d;--shade:#0d1117;"
    "--word:#d2a8ff;--text:#7ee787;--number:#79c0ff;--note:#e3b341;--join:62%"
)
#: Selectors of light and of dark pages.
_PAGES = {
    _LIGHT: ("[data-jp-theme-light=true]", "[data-theme=light]", ".vscode-light"),
    _DARK: ("[data-jp-theme-light=false]", "[data-theme=dark]", ".vscode-dark"),
}
#: Hues by which lines of code are joined to lines of the source.
_HUES = (210, 30, 130, 280, 0, 175, 55, 330)

JOIN_COUNT = len(_HUES)


@cache
def style() -> str:
    """Return the style of cards, light and dark.

    A card sets its own background and text colors, so that it is readable on any page. It follows
    the reader's system (``prefers-color-scheme``), unless the page has a theme. JupyterLab, VS
    Code, nbconvert and documentation themes name it by an attribute or a class.
    """
    rules = [
        f".kerneldsl{{{_LIGHT}}}",
        f"@media(prefers-color-scheme:dark){{.kerneldsl{{{_DARK}}}}}",
    ]
    for colors, pages in _PAGES.items():
        rules.append(",".join(f"{page} .kerneldsl" for page in pages) + f"{{{colors}}}")
    rules.append(
        ".kerneldsl{background:var(--paper);color:var(--ink);border:1px solid var(--line);"
        "border-radius:6px;padding:8px 12px;margin:4px 0;max-width:100%;overflow-x:auto;"
        "font:13px/1.5 system-ui,sans-serif}"
        ".kerneldsl .title{margin:0 0 6px}"
        ".kerneldsl strong{font-weight:600}"
        ".kerneldsl p,.kerneldsl ul{margin:4px 0}"
        ".kerneldsl table{border-collapse:collapse;margin:4px 0;color:inherit;font-size:inherit}"
        ".kerneldsl th,.kerneldsl td{text-align:left;vertical-align:top;padding:1px 14px 1px 0;"
        "background:none;border:0;color:inherit}"
        ".kerneldsl th{color:var(--faint);font-weight:500}"
        ".kerneldsl summary{cursor:pointer;color:var(--faint);margin:4px 0}"
        ".kerneldsl pre{font:12px/1.45 ui-monospace,monospace;background:var(--shade);"
        "color:inherit;border-radius:4px;padding:6px 0;margin:4px 0;max-height:32em;overflow:auto}"
        ".kerneldsl .row,.kerneldsl .remark{display:inline-block;box-sizing:border-box;"
        "min-width:100%;vertical-align:top;padding:0 8px;border-left:4px solid transparent;"
        "white-space:pre}"
        ".kerneldsl .at{color:var(--faint);user-select:none}"
        ".kerneldsl .word{color:var(--word)}.kerneldsl .text{color:var(--text)}"
        ".kerneldsl .number{color:var(--number)}.kerneldsl .comment{color:var(--faint)}"
        ".kerneldsl .remark{width:100%;color:var(--faint);padding-left:calc(8px + 6ch);"
        "text-indent:-6ch;white-space:pre-wrap}"
        ".kerneldsl .panes{display:grid;gap:0 16px}"
        ".kerneldsl .panes>*{min-width:0}"
        ".kerneldsl .panes:has(details[open]){"
        "grid-template-columns:repeat(auto-fit,minmax(min(100%,40em),1fr))}"
        ".kerneldsl .finding{color:var(--note)}"
    )
    rules += [
        f".kerneldsl .join{n}{{border-left-color:hsl({hue} 60% var(--join))}}"
        for n, hue in enumerate(_HUES)
    ]
    return "".join(rules)


#: Class of the element around a card; the style applies only inside it.
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
    head = () if title is None else (element("p", element("strong", title), class_="title"),)
    return element("div", element("style", Html(style())), *head, *parts, class_=_CARD_CLASS)


def _cell(value: object) -> object:
    return "–" if value is None else value
