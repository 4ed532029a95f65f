"""Read the prose of Markdown pages, notebooks and Python files, without code."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["Paragraph", "paragraphs"]

#: Code, paths and roles, which count as one word. Newlines within are kept for line numbers.
_CODE = re.compile(r"(?::[\w:]+:)?(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"!?\[([^][]*)\](?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^][]*\])")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s")
_FENCE = re.compile(r"\s*(?:```|~~~)")
#: Statements without others in them, the most frequent ones.
_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.Return, ast.Import, ast.ImportFrom)
#: Underlines and directives.
_SKIPPED = re.compile(r"\s*(?:[-=~]{3,}\s*$|\.\. )")
#: What begins an example or a table, each of which a blank line ends.
_BLOCK = re.compile(r"\s*(?:>>>|=+ +=)")


@dataclass(frozen=True)
class Paragraph:
    """Text that belongs together.

    Attributes
    ----------
    line : int
        Line of the file on which it begins.
    text : str
        Its lines, in which code is replaced by ``code``.
    kind : str
        ``"page"``, ``"docstring"`` or ``"comment"``.
    is_label : bool
        Whether it alone describes a name: a ``#:`` comment, or a docstring of one paragraph.
    """

    line: int
    text: str
    kind: str
    is_label: bool = False


def paragraphs(file: Path) -> list[Paragraph]:
    """Return the prose of a file, in order; its suffix is ``.md``, ``.ipynb`` or ``.py``."""
    text = file.read_text(encoding="utf-8")
    read = {".py": _of_python, ".ipynb": _of_notebook, ".md": _of_markdown}[file.suffix]
    return sorted(read(text), key=lambda paragraph: paragraph.line)


def _without_code(text: str) -> str:
    text = _CODE.sub(lambda match: "code" + "\n" * match[0].count("\n"), text)
    return _LINK.sub(lambda match: match[1], text)


def _joined(
    lines: list[tuple[int, str]], kind: str, *, is_label: bool = False
) -> Iterator[Paragraph]:
    if lines:
        text = _without_code("\n".join(line for _, line in lines))
        yield Paragraph(lines[0][0], text, kind, is_label)
        lines.clear()


def _of_markdown(text: str) -> Iterator[Paragraph]:
    held: list[tuple[int, str]] = []
    in_code = False
    for number, line in enumerate(text.splitlines(), start=1):
        if _FENCE.match(line):
            yield from _joined(held, "page")
            in_code = not in_code
        elif in_code:
            continue
        elif line.lstrip().startswith("|"):
            yield from _joined(held, "page")
            # The signs of a table within code are escaped.
            for cell in re.split(r"(?<!\\)\||<br>", _without_code(line)):
                yield Paragraph(number, cell.strip(), "page")
        elif not line.strip() or line.startswith(("#", "<!--")):
            yield from _joined(held, "page")
            if line.startswith("#"):
                yield Paragraph(number, _without_code(line.lstrip("#")), "page")
        else:
            if _ITEM.match(line):
                yield from _joined(held, "page")
                line = _ITEM.sub("", line, count=1)
            held.append((number, line))
    yield from _joined(held, "page")


def _of_notebook(text: str) -> Iterator[Paragraph]:
    lines = [line.strip(" ,") for line in text.splitlines()]
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "markdown":
            # The strings of a source are on lines of their own.
            before = lines.index(json.dumps(cell["source"][0], ensure_ascii=False))
            for one in _of_markdown("".join(cell["source"])):
                yield replace(one, line=before + one.line)


def _of_python(text: str) -> Iterator[Paragraph]:
    tree = ast.parse(text)
    for node in (tree, *_definitions(tree.body)):
        for each in node.body:  # docstrings of attributes follow these
            match each:
                case ast.Expr(value=ast.Constant(value=str() as docstring), lineno=line):
                    yield from _of_docstring(docstring, line)
    held: list[tuple[int, str]] = []
    is_label = False
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.lstrip()
        words = stripped.lstrip("#:! ") if stripped.startswith("#") else ""
        if words and not words.startswith("--"):
            is_label = stripped.startswith("#:") if not held else is_label
            held.append((number, words))
        else:
            yield from _joined(held, "comment", is_label=is_label)
    yield from _joined(held, "comment", is_label=is_label)


def _definitions(
    body: list[ast.stmt],
) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Yield functions and classes, without the cost of a walk over expressions."""
    for node in body:
        if isinstance(node, _SIMPLE):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
        for field in ("body", "orelse", "finalbody"):
            yield from _definitions(getattr(node, field, []))


def _of_docstring(text: str, start: int) -> Iterator[Paragraph]:
    held: list[tuple[int, str]] = []
    indent, in_code, is_literal, in_references = 0, False, False, False
    for number, line in enumerate(text.splitlines(), start=start):
        depth = len(line) - len(line.lstrip())
        if line.strip() in ("References", "Examples", "Notes"):
            in_references = line.strip() == "References"
        if in_references:  # authors and titles
            yield from _joined(held, "docstring")
        elif not line.strip():
            # A literal block, announced by two colons, ends where the text is indented as before.
            is_literal = is_literal or bool(held and held[-1][1].endswith("::"))
            yield from _joined(held, "docstring")
            in_code = False
        elif is_literal and number > start and depth > indent:
            continue
        elif in_code or _BLOCK.match(line) or _SKIPPED.match(line):
            yield from _joined(held, "docstring")
            in_code = in_code or _BLOCK.match(line) is not None
        else:
            is_literal = False
            if _ITEM.match(line) or (held and number > start + 1 and depth != indent):
                yield from _joined(held, "docstring")
            indent = depth
            held.append((number, line.strip()))
    yield from _joined(held, "docstring", is_label="\n\n" not in text)
