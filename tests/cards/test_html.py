"""The one place that writes HTML: what it is given stays text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneldsl.cards.code import highlighted_lines, listing
from kerneldsl.utilities.formatting import html_table
from kerneldsl.utilities.html import Html, card, element, facts_table, fold, items, style, table
from tests.cards.reading import plain_card, read_card
from tests.support.extent import examples

_TEXT = st.text("<>&\"'/=;!- ab7é∑\u202e", max_size=20) | st.sampled_from(
    ["<script>alert(1)</script>", "</style><b>", '" onclick="x', "&lt;", "<!--", "]]>", "</div>"]
)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(_TEXT, min_size=1, max_size=5))
def test_every_value_is_shown_as_it_is(texts: list[str]) -> None:
    shown = card(
        texts[0],
        table(texts, [texts]),
        facts_table((each, each) for each in texts),
        items(texts),
        fold(texts[0], element("p", texts[0], title=texts[0])),
        listing(texts[0], "python", remarks={1: texts}),
        listing(texts[0], None),
    )
    text = read_card(shown)
    for each in texts:
        assert each in text


@settings(max_examples=examples(100), deadline=None)
@given(_TEXT, _TEXT)
def test_tables_of_statistics_are_cards(header: str, value: str) -> None:
    text = read_card(html_table((header, "n"), [(value, None)], caption=value))
    assert value in text
    assert "–" in text


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(_TEXT, max_size=5).map("\n".join), st.sampled_from(["python", "ptx", "gas", None]))
def test_highlighting_changes_no_code(code: str, language: str | None) -> None:
    lines = highlighted_lines(code, language)
    assert len(lines) == code.count("\n") + 1
    assert read_card(card(None, *(element("pre", line, "\n") for line in lines))) == code + "\n"


def test_words_are_highlighted_where_pygments_is() -> None:
    pytest.importorskip("pygments")
    (line,) = highlighted_lines("if x: return 'a', 7  # so", "python")
    for kind, word in (("word", "if"), ("text", "a"), ("number", "7"), ("comment", "# so")):
        assert re.search(rf'<span class="{kind}">[^<]*{word}', line), kind


def test_without_pygments_code_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pygments.lexers", None)
    assert highlighted_lines("if x < 1:\n  pass", "python") == ["if x &lt; 1:", "  pass"]


@pytest.mark.parametrize("language", ["python", "ptx", None])
@pytest.mark.parametrize("first", [1, 9, 998])
def test_without_style_code_has_lines_and_numbers_apart(language: str | None, first: int) -> None:
    code = "// made\n\nif x:\n\tadd  1; <b>"
    shown = plain_card(listing(code, language, first=first, remarks={first + 2: ["slow", "late"]}))
    width = len(str(first + 3))
    rows = [f"{first + n:{width}}  {line}" for n, line in enumerate(code.split("\n"))]
    rows[3:3] = [" " * width + "  ^ slow", " " * width + "  ^ late"]
    assert shown == "\n".join(rows) + "\n"


def test_without_style_tables_folds_and_titles_stand_apart() -> None:
    shown = card(
        "title",
        facts_table((("shape", 3), ("left out", None), ("dtype", "int8"))),
        table(("a", "b"), [(1, None)]),
        items(("one", "two")),
        fold("more", element("p", "folded")),
    )
    assert plain_card(shown).split("\n") == [
        *("title", "| shape | 3 ", "| dtype | int8 ", "| a | b ", "| 1 | – "),
        *("one", "two", "more", "folded", ""),
    ]


def test_a_long_listing_says_what_it_leaves_out() -> None:
    text = read_card(card(None, listing("\n".join(["x"] * 1000), None)))
    assert "more lines are not shown" in text
    assert len(text) < 10_000


def test_a_long_line_is_cut_and_takes_no_other_into_its_string() -> None:
    pytest.importorskip("pygments")
    table = f'@t = constant c"{chr(92)}00' * 10_000
    shown = str(listing(f'{table}"\ndefine i32 @f()', "llvm", whole="kernel.llvm(…) returns it."))
    text = read_card(card(None, Html(shown)))
    assert "…" in text
    assert "Long lines are cut. kernel.llvm(…) returns it." in text
    assert '<span class="word">define</span>' in shown
    assert len(shown) < 1000


def test_the_style_is_small_and_has_balanced_braces() -> None:
    assert len(style()) < 4096
    assert style().count("{") == style().count("}")
    assert "<" not in style()
    used = set(re.findall(r"var\((--\w+)", style()))
    defined = set(re.findall(r"(--\w+):", style()))
    assert used == defined
    # Light, dark by the system, and what pages say of themselves: each sets every color.
    assert style().count("--paper:") == style().count("--note:") == 4


def _luminance(color: str) -> float:
    """Relative luminance of a hex color; W3C, WCAG 2.1, "relative luminance"."""
    digits = color[1:] if len(color) == 7 else "".join(2 * each for each in color[1:])
    parts = [int(digits[n : n + 2], 16) / 255 for n in (0, 2, 4)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def test_text_can_be_read_in_light_and_dark() -> None:
    """WCAG 2.1 asks for a contrast of 4.5 between text and what is behind it."""
    schemes = [dict(re.findall(r"(--\w+):(#\w+)", part)) for part in style().split("color-scheme:")]
    schemes = [each for each in schemes if "--paper" in each]
    assert len(schemes) == 4
    for colors in schemes:
        for behind in ("--paper", "--shade"):
            for name in ("--ink", "--faint", "--word", "--text", "--number", "--note"):
                low, high = sorted(_luminance(colors[each]) for each in (behind, name))
                assert (high + 0.05) / (low + 0.05) >= 4.5, (name, behind, colors)
