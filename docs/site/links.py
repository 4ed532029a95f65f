"""Check the links of a built site without the network: pages, files and anchors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["broken_links"]

#: Attributes that lead somewhere.
_LEADING = {"href", "src", "poster", "data-src"}
#: Pages that Sphinx makes for scripts, which fill in their anchors.
_MADE_BY_SCRIPTS = {"search.html"}


@dataclass
class _Page(HTMLParser):
    """The links of one page, and the anchors that it has."""

    path: Path
    links: list[tuple[int, str]] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag leads to, and what it can be found by."""
        for name, value in attrs:
            if name in _LEADING and value is not None:
                self.links.append((self.getpos()[0], value))
            elif value and (name == "id" or (name == "name" and tag == "a")):
                self.anchors.add(value)


def broken_links(html: Path) -> list[str]:
    """Return a line for each link in a folder of pages that leads nowhere.

    Parameters
    ----------
    html : Path
        The folder that Sphinx wrote. Links to other hosts are not followed.

    Returns
    -------
    list of str
        ``page:line: link: what is missing``, in the order of the pages.
    """
    return [line for path in sorted(html.rglob("*.html")) for line in _broken_in(path, html)]


@cache
def _page(path: Path) -> _Page:
    return _Page(path)


def _broken_in(path: Path, html: Path) -> Iterator[str]:
    for line, link in _page(path).links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        where = f"{path.relative_to(html)}:{line}: {link}"
        if not target.is_relative_to(html.resolve()):
            yield f"{where}: leads out of the site"
        elif not target.exists():
            yield f"{where}: no such page or file"
        elif parts.fragment and not _has_anchor(target, unquote(parts.fragment)):
            yield f"{where}: no such anchor"


def _has_anchor(target: Path, anchor: str) -> bool:
    if target.suffix != ".html" or target.name in _MADE_BY_SCRIPTS:
        return True  # a place in an image or a script
    return anchor in _page(target).anchors
