"""Pages of the examples, made from the programs themselves."""

from __future__ import annotations

import ast
from pathlib import Path

__all__ = ["example_page"]

_EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example_page() -> str:
    """Return the page of the examples, as Markdown: each with the beginning of its docstring."""
    parts = ["# Examples", "Each is a program that runs by itself and checks its own result.", ""]
    for file in sorted(_EXAMPLES.glob("*.py")):
        source = file.read_text(encoding="utf-8")
        about = (ast.get_docstring(ast.parse(source)) or "").partition("\n\nRun it")[0]
        parts += [f"## {file.stem}", about, f"```python\n{source.rstrip()}\n```", ""]
    return "\n\n".join(parts)
