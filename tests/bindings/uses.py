"""Find what a module asks of the bindings, by reading its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Imported", "Used", "imports_of", "sources", "uses_of"]


@dataclass(frozen=True)
class Used:
    """A function, type or member of ``cuda.bindings.driver`` that the code names.

    Parameters
    ----------
    path : tuple of str
        ``("cuMemAlloc",)``, or ``("CUjit_option", "CU_JIT_…")``.
    argument_count : int or None
        Positional arguments of a call; ``None`` where it is not called there, or with a star.
    place : str
        ``file:line``.
    """

    path: tuple[str, ...]
    argument_count: int | None
    place: str


@dataclass(frozen=True)
class Imported:
    """A name that is imported from a package of CUDA's.

    Parameters
    ----------
    module : str
        Such as ``cuda.core``.
    name : str or None
        What is taken from it; ``None`` for the module itself.
    place : str
        ``file:line``.
    """

    module: str
    name: str | None
    place: str


def _path_of(node: ast.AST) -> tuple[str, ...] | None:
    """The names after ``api`` in ``api.a.b`` and in ``driver.api.a.b``."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        names.append(node.id)
    names.reverse()
    if "api" not in names[:-1]:
        return None
    path = tuple(names[names.index("api") + 1 :])
    return path if path[0].startswith(("cu", "CU")) else None


def _called_by(node: ast.Call) -> tuple[ast.AST, list[ast.expr]]:
    """The function of a call and its arguments, also through ``driver.call(function, …)``."""
    is_through = isinstance(node.func, ast.Attribute | ast.Name) and (
        node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
    ) in ("call", "_call")
    if is_through and node.args and _path_of(node.args[0]):
        return node.args[0], node.args[1:]
    return node.func, node.args


def uses_of(source: str, name: str) -> Iterator[Used]:
    """Everything that a module's text takes from an object called ``api``.

    Names that are asked for by ``hasattr`` somewhere in the module may be missing, and are left
    out.

    Parameters
    ----------
    source : str
        The module's text.
    name : str
        Of the file, for `Used.place`.
    """
    tree = ast.parse(source)
    asked_for = {
        argument.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("hasattr", "getattr")
        for argument in node.args[1:2]
        if isinstance(argument, ast.Constant)
    }
    called: dict[int, int | None] = {}
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function, arguments = _called_by(node)
            starred = any(isinstance(a, ast.Starred) for a in arguments)
            called[id(function)] = None if starred else len(arguments)
        if isinstance(node, ast.Attribute):
            inner.add(id(node.value))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or id(node) in inner:
            continue
        path = _path_of(node)
        if path and not asked_for & set(path):
            yield Used(path, called.get(id(node)), f"{name}:{node.lineno}")


def imports_of(source: str, name: str) -> Iterator[Imported]:
    """Everything that a module imports from ``cuda`` and the packages below it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "cuda":
                    yield Imported(alias.name, None, f"{name}:{node.lineno}")
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            if module.partition(".")[0] == "cuda":
                for alias in node.names:
                    yield Imported(module, alias.name, f"{name}:{node.lineno}")


def sources(folder: Path) -> Iterator[tuple[str, str]]:
    """Text and relative name of each module below a folder."""
    for path in sorted(folder.rglob("*.py")):
        yield path.read_text(encoding="utf-8"), str(path.relative_to(folder))
