"""Find words to avoid, fragments and long sentences; ``words.toml`` holds the words."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.prose.texts import Paragraph, paragraphs

__all__ = ["LONGEST", "Finding", "findings", "in_paragraph"]

#: Words that a sentence has at most, by the kind of text. When they were chosen, one sentence of
#: twenty-five was longer in pages, docstrings and comments; the rest of them can be split.
LONGEST = {"page": 30, "docstring": 25, "comment": 25}
_SENTENCE = re.compile(r".+?(?:[.!?][\"')»*_]*(?=\s+(?:[^a-z\s]|code\b))|:(?=\s*\Z)|\Z)", re.DOTALL)
_WORD = re.compile(r"\w[\w'’./+-]*")
#: Beginnings of a label that only the line before it, or its author, explains.
_FRAGMENT = re.compile(
    r"(?:Of|By(?! default)|By how much|From which|The same|Those|Which|What|How|Where|Its|Their)\b"
)


@dataclass(frozen=True)
class Finding:
    """One thing to rewrite.

    Attributes
    ----------
    line : int
        Line of the file.
    message : str
        What was found, and what is better.
    """

    line: int
    message: str


@cache
def _words() -> tuple[re.Pattern[str], list[str]]:
    """Return one pattern with a group for each entry of the list, and the better words."""
    with (Path(__file__).parent / "words.toml").open("rb") as file:
        words = tomllib.load(file)["words"]
    groups = "|".join("(" + pattern.replace(" ", r"\s+") + ")" for pattern in words)
    return re.compile(rf"\b(?:{groups})\b"), list(words.values())


def in_paragraph(paragraph: Paragraph) -> Iterator[Finding]:
    """Yield the words to avoid in a paragraph, its beginning, and then its long sentences."""
    pattern, better = _words()

    def line_of(offset: int) -> int:
        return paragraph.line + paragraph.text.count("\n", 0, offset)

    for match in pattern.finditer(paragraph.text.lower()):
        found = " ".join(match[0].split())
        instead = better[(match.lastindex or 0) - 1]
        yield Finding(line_of(match.start()), f'"{found}": better {instead}')
    fragment = _FRAGMENT.match(paragraph.text) if paragraph.is_label else None
    if fragment is not None:
        yield Finding(
            paragraph.line,
            f'"{fragment[0]} …" describes nothing by itself: begin with the thing and its unit',
        )
    limit = LONGEST[paragraph.kind]
    for sentence in _SENTENCE.finditer(paragraph.text):
        count = len(_WORD.findall(sentence[0]))
        if count > limit:
            yield Finding(
                line_of(sentence.start()),
                f"a sentence of {count} words in a {paragraph.kind} (at most {limit}): split it",
            )


def findings(file: Path) -> list[Finding]:
    """Return what to rewrite in a file, by line."""
    found = [each for paragraph in paragraphs(file) for each in in_paragraph(paragraph)]
    return sorted(found, key=lambda finding: finding.line)
