"""Docstrings begin as NumPy's and CUDA's documents do."""

from __future__ import annotations

import ast
from pathlib import Path

_ROOT = Path(__file__).parents[2]
#: A function's docstring begins with a verb; a module's, class's or property's with a noun phrase.
_QUESTIONS = {"How", "What", "When", "Where", "Whether", "Which", "Who", "Why"}


def test_no_docstring_begins_with_a_question() -> None:
    found = []
    for package in ("kerneldsl", "targets", "stdlib_kernels", "benchmarks", "docs"):
        for file in sorted((_ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    text = ast.get_docstring(node) or "-"
                    if text.split()[0].rstrip(",") in _QUESTIONS:
                        found.append(f"{file.relative_to(_ROOT)}: {text.splitlines()[0]}")
    assert not found
