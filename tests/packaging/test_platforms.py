"""Windows and macOS: everything imports there, and the commands say something sensible.

A child process takes away what such a system lacks (``tests/support/other_system.py``); and reading
the source shows that what only POSIX has stands behind a guard.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.other_system import MISSING_MODULES, MISSING_OS, MISSING_SIGNALS

ROOT = Path(__file__).parents[2]
PACKAGES = ("kerneldsl", "targets", "stdlib_kernels")
SYSTEMS = sorted(MISSING_OS)


@pytest.fixture(scope="module", params=SYSTEMS)
def report(request: pytest.FixtureRequest):
    """What a process that pretends to be on the system found."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KERNELDSL_")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.other_system", request.param],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_module_imports(report) -> None:
    files = sum(len(list((ROOT / package).rglob("*.py"))) for package in PACKAGES)
    missing = files - len(report["modules"]) - len(PACKAGES)
    assert missing <= 2, "only __main__ modules may be left out"


def test_a_kernel_runs(report) -> None:
    assert report["result"] == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("command", ["backends", "devices", "default", "status", "summary"])
def test_commands_answer(report, command: str) -> None:
    status, output, errors = report["commands"][command]
    assert status == 0, errors
    assert "Traceback" not in errors
    assert json.loads(output)


def test_the_doctor_answers(report) -> None:
    """With a remedy for each thing that it finds wrong in a machine that is put together so."""
    status, output, errors = report["commands"]["doctor"]
    answer = json.loads(output)
    assert "Traceback" not in errors
    assert status == (0 if answer["is_ok"] else 1)
    for check in answer["checks"]:
        assert check["found"]
        assert "could not be looked at" not in check["found"]
        assert check["status"] == "ok" or check["remedy"], check


def test_each_backend_has_a_reason(report) -> None:
    found = json.loads(report["commands"]["backends"][1])["backends"]
    assert {"cuda", "metal", "cpu"} <= {backend["name"] for backend in found}
    for backend in found:
        assert backend["reason"], backend
    assert [b["name"] for b in found if b["is_usable"]] == ["cpu"]


# ------------------------------------------------------------------------- guards, in the source


def _trees() -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def _asks_for_the_system(node: ast.AST, name: str) -> bool:
    """Whether an expression asks for a name of a module, or for the system."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and part.value == name:
            return True  # hasattr(os, "fork")
        if isinstance(part, ast.Attribute) and part.attr == "platform":
            return True  # sys.platform == "linux"
        if isinstance(part, ast.Name) and part.id in ("system", "system_name"):
            return True
    return False


def _catches_its_absence(node: ast.AST) -> bool:
    if not isinstance(node, ast.Try):
        return False
    caught = {
        name.id
        for handler in node.handlers
        if handler.type is not None
        for name in ast.walk(handler.type)
        if isinstance(name, ast.Name)
    }
    return bool(caught & {"AttributeError", "ImportError", "ModuleNotFoundError"})


def _is_guarded(parents: list[ast.AST], node: ast.AST, name: str) -> bool:
    """Whether a use stands inside a guard, or below one that leaves the function."""
    for parent in parents:
        if isinstance(parent, ast.If | ast.IfExp | ast.While) and _asks_for_the_system(
            parent.test, name
        ):
            return True
        if isinstance(parent, ast.BoolOp) and _asks_for_the_system(parent.values[0], name):
            return True
        if _catches_its_absence(parent):
            return True
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in parent.body:
                if statement.lineno >= node.lineno:
                    break
                if (
                    isinstance(statement, ast.If)
                    and isinstance(statement.body[-1], ast.Return | ast.Raise)
                    and _asks_for_the_system(statement.test, name)
                ):
                    return True
    return False


def _uses(tree: ast.Module) -> Iterator[tuple[list[ast.AST], ast.AST, str]]:
    """Every use of something that a system lacks: what it stands in, itself, its name."""
    lacking = {name for names in MISSING_OS.values() for name in names}
    modules = {name for names in MISSING_MODULES.values() for name in names}
    signals = {name for names in MISSING_SIGNALS.values() for name in names}

    def visit(
        node: ast.AST, parents: list[ast.AST]
    ) -> Iterator[tuple[list[ast.AST], ast.AST, str]]:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = node.value.id
            if (owner == "os" and node.attr in lacking) or (
                owner == "signal" and node.attr in signals
            ):
                yield parents, node, node.attr
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in modules:
                    yield parents, node, alias.name
        elif isinstance(node, ast.ImportFrom):
            if node.module in modules:
                yield parents, node, str(node.module)
            for alias in node.names:
                if (node.module == "os" and alias.name in lacking) or (
                    node.module == "signal" and alias.name in signals
                ):
                    yield parents, node, alias.name
        for child in ast.iter_child_nodes(node):
            yield from visit(child, [*parents, node])

    yield from visit(tree, [])


def test_what_only_posix_has_stands_behind_a_guard() -> None:
    found = 0
    bare = []
    for name, tree in _trees():
        for parents, node, used in _uses(tree):
            found += 1
            if not _is_guarded(parents, node, used):
                bare.append(f"{name}:{node.lineno}: {used}")
    assert bare == []
    assert found > 5  # else the search found nothing to check


@pytest.mark.parametrize(
    ("source", "is_guarded"),
    [
        ("import os\nos.fork()", False),
        ("import os\ndef f():\n    return os.getuid()", False),
        ("import fcntl", False),
        ("from os import fork", False),
        ("import signal\nsignal.SIGKILL", False),
        ("import os\nif hasattr(os, 'getuid'):\n    os.fork()", False),
        ("import os\nif hasattr(os, 'fork'):\n    os.fork()", True),
        ("import os, sys\nif sys.platform == 'linux':\n    os.sched_getaffinity(0)", True),
        ("import os\nn = os.getuid() if hasattr(os, 'getuid') else 0", True),
        ("try:\n    import fcntl\nexcept ImportError:\n    fcntl = None", True),
        ("import os\ntry:\n    os.fork()\nexcept OSError:\n    pass", False),
        (
            "import os\ndef f():\n    if not hasattr(os, 'fork'):\n        return\n    os.fork()",
            True,
        ),
        ("import os\ndef f():\n    if not hasattr(os, 'fork'):\n        g()\n    os.fork()", False),
    ],
)
def test_guards_are_seen(source: str, is_guarded: bool) -> None:
    ((parents, node, name),) = _uses(ast.parse(source))
    assert _is_guarded(parents, node, name) is is_guarded
