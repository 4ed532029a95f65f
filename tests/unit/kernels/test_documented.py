"""Kernels and device functions as tools for documentation see them: as functions."""

from __future__ import annotations

import doctest
import inspect
import pydoc
import sys
import textwrap
from types import ModuleType
from typing import Any

import pytest

MODULE = '''
"""Kernels of a user."""
import kerneldsl as kd

__all__ = ["axpy", "twice", "spaced", "Group"]

@kd.kernel
def axpy(a: float, x, out):
    """Multiply x by a.

    >>> axpy.__name__
    'axpy'
    """
    i = kd.grid(1)
    out[i] = a * x[i]

@kd.func
def twice(x: float) -> float:
    """Double a number.

    >>> twice(2)
    4
    """
    return 2 * x

@kd.kernel(space=kd.Space(block=[64]))
def spaced(x, *, block):
    """Write the block."""
    x[kd.grid(1)] = block

class Group:
    """Kernels in a class."""

    inner = axpy
    of_both = twice
'''


@pytest.fixture
def module(tmp_path, monkeypatch) -> Any:
    path = tmp_path / "documented_kernels.py"
    path.write_text(textwrap.dedent(MODULE))
    made = ModuleType("documented_kernels")
    made.__file__ = str(path)
    exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), vars(made))
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("axpy", "(a: float, x, out)"),
        ("twice", "(x: float) -> float"),
        ("spaced", "(x, *, block)"),
    ],
)
def test_autodoc_takes_them_for_functions(module, name, signature) -> None:
    """Autodoc asks `isroutine`, of what it finds in a module and of that module."""
    found = getattr(module, name)
    assert inspect.isroutine(found)
    assert not inspect.isclass(found)
    assert not inspect.isdatadescriptor(found)
    assert found.__module__ == module.__name__
    assert found.__name__ == found.__qualname__ == name
    assert str(inspect.signature(found)) == signature
    assert (name, found) in inspect.getmembers(module, inspect.isroutine)


def test_help_shows_their_own_text(module) -> None:
    shown = pydoc.render_doc(module.axpy, renderer=pydoc.plaintext)  # type: ignore[attr-defined]
    assert "axpy(a: float, x, out)\n    Multiply x by a." in shown
    shown = pydoc.render_doc(module, renderer=pydoc.plaintext)  # type: ignore[attr-defined]
    functions = shown.partition("FUNCTIONS")[2]
    for line in ("axpy(a: float, x, out)", "twice(x: float) -> float", "Write the block."):
        assert line in functions


def test_their_examples_are_found(module) -> None:
    found = {test.name: test for test in doctest.DocTestFinder().find(module) if test.examples}
    assert {"documented_kernels.axpy", "documented_kernels.twice"} <= set(found)
    for test in found.values():
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_in_a_class_they_are_no_methods(module) -> None:
    group = module.Group()
    assert group.inner is module.Group.inner is module.axpy
    assert group.of_both(3) == 6


def test_sphinx_documents_them(module, tmp_path) -> None:
    from sphinx.application import Sphinx

    (tmp_path / "conf.py").write_text("extensions = ['sphinx.ext.autodoc']\n")
    (tmp_path / "index.rst").write_text(".. automodule:: documented_kernels\n   :members:\n")
    source, out = str(tmp_path), str(tmp_path / "out")
    Sphinx(source, source, out, out, "text", status=None, warning=None).build()
    shown = (tmp_path / "out" / "index.txt").read_text()
    for line in (
        "documented_kernels.axpy(a: float, x, out)",
        "documented_kernels.twice(x: float) -> float",
        "documented_kernels.spaced(x, *, block)",
        "Multiply x by a.",
    ):
        assert line in shown
