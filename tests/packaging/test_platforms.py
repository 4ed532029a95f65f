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
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.extent import full_beyond
from tests.support.other_system import MISSING_MODULES, MISSING_OS, MISSING_SIGNALS

ROOT = Path(__file__).parents[2]
PACKAGES = ("kerneldsl", "targets", "stdlib_kernels", "kerneldsl_demo")
SYSTEMS = sorted(MISSING_OS)


@pytest.fixture(scope="module", params=full_beyond(SYSTEMS, ["win32"]))
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


def _lacks(system: str, name: str) -> bool:
    return name in MISSING_OS[system] + MISSING_MODULES[system] + MISSING_SIGNALS[system]


def _is_the_system(node: ast.AST) -> bool:
    """Whether an expression is the system's name: ``sys.platform``, or a variable called so."""
    if isinstance(node, ast.Attribute):
        return node.attr == "platform"
    return isinstance(node, ast.Name) and node.id in ("system", "system_name")


def _answer(test: ast.AST, system: str) -> bool | None:
    """What a condition is on a system; ``None`` where that depends on something else."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            answer = _answer(operand, system)
            return None if answer is None else not answer
        case ast.BoolOp(op=op, values=values):
            answers = [_answer(value, system) for value in values]
            decides = isinstance(op, ast.Or)
            if decides in answers:
                return decides
            return None if None in answers else not decides
        case ast.Call(func=ast.Name(id="hasattr" | "getattr"), args=[_, ast.Constant(value), *_]):
            return False if _lacks(system, value) else None
        case ast.Call(func=ast.Attribute(value=owner, attr="startswith"), args=[ast.Constant(v)]):
            return system.startswith(v) if _is_the_system(owner) else None
        case ast.Compare(left=left, ops=[op], comparators=[right]) if _is_the_system(left):
            try:
                value = ast.literal_eval(right)
            except ValueError:
                return None
            match op:
                case ast.Eq() | ast.NotEq():
                    return (system == value) is isinstance(op, ast.Eq)
                case ast.In() | ast.NotIn():
                    return (system in value) is isinstance(op, ast.In)
    return None


def _catches_its_absence(node: ast.Try) -> bool:
    caught = {
        name.id
        for handler in node.handlers
        if handler.type is not None
        for name in ast.walk(handler.type)
        if isinstance(name, ast.Name)
    }
    return bool(caught & {"AttributeError", "ImportError", "ModuleNotFoundError"})


def _keeps_out(parent: ast.AST, child: ast.AST, system: str) -> bool:
    """Whether a part of an expression or statement is never reached on a system, or may fail."""
    match parent:
        case ast.If() | ast.While():
            answer = _answer(parent.test, system)
            return (child in parent.body and answer is False) or (
                child in parent.orelse and answer is True
            )
        case ast.IfExp():
            answer = _answer(parent.test, system)
            return (child is parent.body and answer is False) or (
                child is parent.orelse and answer is True
            )
        case ast.BoolOp():
            before = parent.values[: parent.values.index(child)]  # type: ignore[arg-type]
            return isinstance(parent.op, ast.Or) in [_answer(value, system) for value in before]
        case ast.Try():
            return child in parent.body and _catches_its_absence(parent)
    # Below a condition that leaves the function.
    for statement in getattr(parent, "body", ()) if isinstance(parent, ast.FunctionDef) else ():
        if statement is child:
            break
        if (
            isinstance(statement, ast.If)
            and isinstance(statement.body[-1], ast.Return | ast.Raise)
            and _answer(statement.test, system) is True
        ):
            return True
    return False


def _is_guarded(parents: list[ast.AST], node: ast.AST, name: str) -> bool:
    """Whether a use is not reached on any system that lacks the name, or its lack is caught."""
    path = [*parents, node]
    return all(
        any(_keeps_out(parent, child, system) for parent, child in pairwise(path))
        for system in SYSTEMS
        if _lacks(system, name)
    )


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
        ("import os\nif hasattr(os, 'getuid'):\n    os.fork()", True),  # where one is, both are
        ("import os\nif hasattr(os, 'fork'):\n    os.sched_getaffinity(0)", False),
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
        ("import os, sys\nif sys.platform == 'win32':\n    os.fork()", False),
        ("import os, sys\nif sys.platform == 'win32':\n    f()\nelse:\n    os.fork()", True),
        ("import os, sys\nif sys.platform != 'win32':\n    os.sched_getaffinity(0)", False),
        ("import os, sys\nif sys.platform not in ('win32', 'darwin'):\n    os.pipe2(0)", True),
        ("import os\nif not hasattr(os, 'fork'):\n    os.fork()", False),
        ("import os\nif g() and hasattr(os, 'fork'):\n    os.fork()", True),
        ("import os\nif g() or hasattr(os, 'fork'):\n    os.fork()", False),
        ("import os\nf = hasattr(os, 'getuid') and os.getuid()", True),
        ("import os\nf = os.getuid() and hasattr(os, 'getuid')", False),
        ("try:\n    f()\nexcept ImportError:\n    import fcntl", False),
    ],
)
def test_guards_are_seen(source: str, is_guarded: bool) -> None:
    ((parents, node, name),) = _uses(ast.parse(source))
    assert _is_guarded(parents, node, name) is is_guarded
