"""The part of a module's text that its kernels need, for installations without source files."""

from __future__ import annotations

import ast
from collections.abc import Iterable

__all__ = ["text_of_functions"]


def text_of_functions(text: str, lines: Iterable[int]) -> str:
    """Return the statements of a module that hold some functions, and its imports.

    - `text`: the module.
    - `lines`: a line of each function.
    - returns: other lines are empty, so that lines keep their numbers. Imports stay, because the
      interpreter compiles calls of imported names in another way.

    Examples
    --------
    >>> text_of_functions("import math\\nKEY = 3\\ndef f(x):\\n    return x\\n", [3])
    'import math\\n\\ndef f(x):\\n    return x\\n'
    """
    wanted = set(lines)
    kept: set[int] = set()
    for node in ast.parse(text).body:
        decorators = getattr(node, "decorator_list", ())
        first = min([node.lineno, *(each.lineno for each in decorators)])
        span = range(first, (node.end_lineno or first) + 1)
        if isinstance(node, ast.Import | ast.ImportFrom) or not wanted.isdisjoint(span):
            kept.update(span)
    rows = text.splitlines()
    last = max(kept, default=0)
    return "".join(
        f"{row}\n" if number in kept else "\n" for number, row in enumerate(rows[:last], 1)
    )
