"""Only front ends read the syntax of kernels."""

from __future__ import annotations

import ast
from pathlib import Path

_ROOT = Path(__file__).parents[2]
#: Packages that read programs.
_FRONT_ENDS = ("kerneldsl/frontend", "kerneldsl/ir/frontend", "kerneldsl/symbolic/frontend")
#: Modules that read or write other text of Python.
_OTHER_TEXT = {
    "kerneldsl/cards/magics.py": "cells of notebooks",
    "kerneldsl/compat/numba_cuda/caching.py": "names that a file assigns",
    "kerneldsl/kernels/pickling.py": "source of functions that are sent to other processes",
    "kerneldsl/language/signatures.py": "signatures",
    "kerneldsl/launch/own_code.py": "parameters of code for a GPU",
    "kerneldsl/shipping/forms.py": "source of packages",
    "kerneldsl/tools/cli/find.py": "names of kernels in a file",
}


def _imports_ast(text: str) -> bool:
    imports = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import))
    return any(name.name == "ast" for node in imports for name in node.names)


def test_syntax_is_read_by_front_ends() -> None:
    found = set()
    for package in ("kerneldsl", "targets", "stdlib_kernels"):
        for path in (_ROOT / package).rglob("*.py"):
            name = path.relative_to(_ROOT).as_posix()
            if not name.startswith(_FRONT_ENDS) and _imports_ast(path.read_text(encoding="utf-8")):
                found.add(name)
    assert found == _OTHER_TEXT.keys()
