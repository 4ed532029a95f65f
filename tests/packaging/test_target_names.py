"""The core names no target: what it has to know of one, the target tells it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kerneldsl
from kerneldsl.placement.registry import built_in_targets

CORE = Path(kerneldsl.__file__).parent
#: A target, or one device of it; alone, or quoted in a text.
NAME = rf"(?:{'|'.join(built_in_targets())})(?::\w*)?"
#: Where no target is meant: a kind of device, Numba's own targets, and a module of CuPy.
KINDS = {
    "contract/device.py",
    "contract/limits.py",
    "contract/info.py",
    "contract/info_fields.py",
    "placement/scores.py",
}
NUMBAS = {
    "lowering/narrow_floats.py",
    "lowering/numba_internals/overloads.py",
    "compat/numba_cuda/extending.py",
    "compat/numba_cuda/gufuncs.py",
    "compat/numba_cuda/vectorizers.py",
    "compat/numpy_as_cupy.py",
    "drop_in.py",
    "repeating/foreign_calls.py",  # torch's name of its devices
}


def _docstrings(tree: ast.Module) -> set[int]:
    """The constants that stand as statements: docstrings, and what explains an attribute."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def _names(source: str) -> Iterator[tuple[int, str]]:
    tree = ast.parse(source)
    prose = _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            for found in re.findall(rf"\A{NAME}\Z|(?<=['\"]){NAME}(?=['\"])", node.value):
                yield node.lineno, found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x = 'cuda'", ["cuda"]),
        ("x = f'cuda:{i}'", ["cuda:"]),
        ("x = 'pass device=\"null:1\"'", ["null:1"]),
        ("'cpu'\nx = 'the nullable cudart of a cpu'", []),
        ("def f():\n    '''Such as 'cuda'.'''", []),
    ],
)
def test_what_counts_as_a_name(source: str, found: list[str]) -> None:
    assert [name for _, name in _names(source)] == found


def test_the_core_names_no_target() -> None:
    named = []
    for path in sorted(CORE.rglob("*.py")):
        module = path.relative_to(CORE).as_posix()
        for line, name in _names(path.read_text(encoding="utf-8")):
            if module not in NUMBAS and not (name == "cpu" and module in KINDS):
                named.append(f"{module}:{line}: {name}")
    assert named == []
