"""Programs in the documentation's pages, and what the pages say that they print."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Block", "blocks_of", "prints"]

_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:```\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
#: What another machine prints otherwise.
_MEASURED = re.compile(r"\d+ GB/s on \w+ \([^)]*\)")


@dataclass(frozen=True)
class Block:
    """One program of a page."""

    code: str
    printed: str | None
    """The block of text that follows it."""


def blocks_of(page: Path) -> list[Block]:
    """Return the programs of a page in their order."""
    text = page.read_text(encoding="utf-8")
    return [Block(code, printed or None) for code, printed in _BLOCK.findall(text)]


def prints(shown: str, printed: str) -> bool:
    """Return whether a program printed what its page shows, where … stands for anything."""
    pattern = re.escape(_MEASURED.sub("…", shown.strip())).replace("…", ".*")
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None
