"""Reading a card as a browser would, and as a viewer that removes style and attributes."""

from __future__ import annotations

from html.parser import HTMLParser

__all__ = ["plain_card", "read_card"]

#: All that cards are made of. Nothing in it runs, loads or leaves the card.
ELEMENTS = {
    *("div", "style", "p", "strong", "ul", "li", "pre", "span", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"class", "title", "open"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS, tag
        assert {name for name, _ in attrs} <= ATTRIBUTES, attrs
        self.open.append(tag)
        self.elements.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def read_card(html: str) -> str:
    """Return the text of a card, checked: one that is well-formed, with its style."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    assert reader.elements[:2] == ["div", "style"]
    assert reader.elements.count("style") == 1
    assert "prefers-color-scheme:dark" in html
    assert "color-scheme:light" in html
    assert "color-scheme:dark" in html
    return "".join(reader.text)


class _Plain(HTMLParser):
    """Elements and text alone, each element as a browser shows it without any style."""

    def __init__(self) -> None:
        super().__init__()
        self.in_pre = self.in_style = False
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.in_pre |= tag == "pre"
        self.in_style |= tag == "style"
        if tag in ("th", "td"):
            self.text += "| "
        elif tag not in ("span", "strong", "style"):
            self._end_line()

    def handle_endtag(self, tag: str) -> None:
        self.in_pre &= tag != "pre"
        self.in_style &= tag != "style"
        if tag in ("th", "td"):
            self.text += " "
        elif tag not in ("span", "strong", "style"):
            self._end_line()

    def handle_data(self, data: str) -> None:
        if not self.in_style:
            self.text += data if self.in_pre else " ".join(data.split())

    def _end_line(self) -> None:
        if self.text and not self.text.endswith("\n"):
            self.text += "\n"


def plain_card(html: str) -> str:
    """Return the text of a card of which a viewer removed the style and all attributes.

    Cells of tables have a bar before them; line breaks are those of elements, and in ``pre`` those
    of the text.
    """
    reader = _Plain()
    reader.feed(html)
    reader.close()
    return reader.text
