"""Docstrings begin as NumPy's and CUDA's documents do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
PACKAGES = ("kerneldsl", "targets", "stdlib_kernels", "kerneldsl_demo")
_QUESTIONS = {"How", "What", "When", "Where", "Whether", "Which", "Who", "Why"}
#: First words that are no verbs, which ruff's D401 does not know for such.
_NOT_VERBS = {"All", "As", "By", "Each", "Every", "For", "In", "No", "Nothing", "Of", "One"} | {
    "Something",
    "That",
    "This",
    "Those",
    "Whatever",
}


@cache
def _docstrings() -> tuple[tuple[str, ast.AST, str], ...]:
    """Place, node and first word of each docstring."""
    return tuple(_read_docstrings())


def _read_docstrings() -> Iterator[tuple[str, ast.AST, str]]:
    for package in (*PACKAGES, "benchmarks", "docs"):
        for file in sorted((_ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    text = ast.get_docstring(node)
                    if text is not None:
                        where = f"{file.relative_to(_ROOT)}: {text.splitlines()[0]}"
                        yield where, node, text.split()[0].rstrip(",:.")


def _is_property(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(one).endswith("property") for one in node.decorator_list)


def may_be_a_verb(word: str) -> bool:
    """Return whether a word can be an imperative: no plural, no code, no name."""
    is_plural = word.endswith("s") and not word.endswith("ss")
    return bool(re.fullmatch("[A-Z][a-z]+", word)) and not is_plural and word not in _NOT_VERBS


def test_no_docstring_begins_with_a_question() -> None:
    assert not [where for where, _, word in _docstrings() if word in _QUESTIONS]


def test_a_functions_docstring_begins_with_a_verb() -> None:
    # Nouns and articles are ruff's affair (D401); this is what its list of words leaves out.
    assert not [
        where
        for where, node, word in _docstrings()
        if isinstance(node, ast.FunctionDef) and not _is_property(node) and not may_be_a_verb(word)
    ]


@pytest.mark.parametrize(
    ("word", "is_verb"),
    [("Return", True), ("Pass", True), ("Names", False), ("Every", False), ("``i32", False)],
)
def test_what_counts_as_a_verb(word: str, is_verb: bool) -> None:
    assert may_be_a_verb(word) == is_verb
