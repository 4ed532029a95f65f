"""Private names of Numba and llvmlite are in one package, and what is said when one has moved."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import numba
import pytest
from numba.core.base import BaseContext
from numba.core.codegen import CodeLibrary, JITCodeLibrary

from kerneldsl import CompileError
from kerneldsl.lowering.numba_internals.moved import moved_name, overriding
from tests.support.programs import run_program

ROOT = Path(__file__).parents[3]
PRIVATE = ROOT / "kerneldsl/lowering/numba_internals"
PACKAGES = ("kerneldsl", "targets", "stdlib_kernels", "kerneldsl_demo")
#: What the package's docstring calls documented: modules whose names are all public, and names.
PUBLIC_MODULES = {"numba", "numba.extending", "numba.core.cgutils"}
PUBLIC_MODULES |= {"llvmlite", "llvmlite.ir", "llvmlite.binding"}
PUBLIC_NAMES = {"numba.core.cgutils"}
#: Packages that ``numba`` has as attributes.
PRIVATE_PACKAGES = {"numba.core", "numba.np", "numba.cpython", "numba.misc"}
#: Underscored names that are documented: of Numba's structures (in the example of "Extending
#: Numba"), of AST nodes and of named tuples.
DOCUMENTED = {"_getvalue", "_fields", "_field_defaults", "_replace"}
#: What reads a name of Numba without importing it, since it works where Numba is not imported.
UNIMPORTED = {
    "kerneldsl/cuda.py",  # programs read these modules as attributes of numba.cuda
    "kerneldsl/cache/overloads.py",  # answers "not cacheable" where one has moved
    "kerneldsl/frontend/foreign.py",  # answers "not overloaded" where one has moved
    "kerneldsl/language/structures.py",  # answers "no struct" where one has moved
    "targets/cpu/runtime/threads.py",  # takes the next pool where one has moved
}


@cache
def modules() -> tuple[tuple[str, tuple[ast.AST, ...]], ...]:
    """The nodes of every module of the product outside of the package, by its path."""
    return tuple(
        (str(path.relative_to(ROOT)), tuple(ast.walk(ast.parse(path.read_text()))))
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if PRIVATE not in path.parents
    )


def is_private(name: str) -> bool:
    """Whether a full name that is imported is not documented."""
    root, _, last = name.rpartition(".")
    if name.partition(".")[0] not in ("numba", "llvmlite"):
        return False
    if name in PRIVATE_PACKAGES or last.startswith("_"):
        return True
    return not (name in PUBLIC_MODULES | PUBLIC_NAMES or root in PUBLIC_MODULES)


def imported_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def dotted(node: ast.expr) -> str:
    """``numba.core.config`` of an expression that is written so."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def test_no_module_imports_a_private_name():
    found = [
        f"{path}: {name}"
        for path, nodes in modules()
        for name in imported_names(nodes)
        if is_private(name)
    ]
    assert not found


def test_no_module_reads_a_private_attribute():
    """Of a module of theirs by its full name, or with an underscore that none of ours has."""
    ours = set()
    for _, nodes in modules():
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                ours.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                ours.add(node.id if isinstance(node, ast.Name) else node.attr)
    found = []
    for path, nodes in modules():
        imported = list(imported_names(nodes))
        uses = {name.partition(".")[0] for name in imported}
        uses |= {name.split(".")[2] for name in imported if name.count(".") > 1}
        if not uses & {"numba", "llvmlite", "numba_internals"}:
            continue
        for node in nodes:
            if isinstance(node, ast.Attribute):
                is_theirs = re.match("_[^_]", node.attr) and node.attr not in ours | DOCUMENTED
                if is_theirs or is_private(dotted(node)):
                    found.append(f"{path}:{node.lineno}: {dotted(node)}")
    assert not found


def test_private_names_in_texts_are_where_numba_may_be_missing():
    private = re.compile(r"(numba\.(core|np|cpython|misc)|llvmlite\.\w+)\.[\w.]+")
    found = {
        path
        for path, nodes in modules()
        for node in nodes
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and private.fullmatch(node.value)
    }
    assert found <= UNIMPORTED


@pytest.mark.parametrize(
    ("statement", "is_caught"),
    [
        ("from numba import njit, types", False),
        ("from numba.core import cgutils", False),
        ("from numba.core import config", True),
        ("from numba.core.compiler import Flags", True),
        ("from numba.extending import _Intrinsic", True),
        ("import numba.core.config as config", True),
        ("import llvmlite.binding as llvm", False),
        ("from llvmlite.ir.instructions import CallInstr", True),
        ("from numbers import Number", False),
    ],
)
def test_what_counts_as_private(statement, is_caught):
    names = list(imported_names(ast.walk(ast.parse(statement))))
    assert any(map(is_private, names)) is is_caught


# ---------------------------------------------------------------------------- a name that moved


#: In the order in which a first launch imports them: what follows needs what stands before it.
MOVED = """
import importlib, os, sys
import numpy as np
import numba
import kerneldsl as kd

@kd.kernel
def fill(out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = 1

def launch(target):
    with kd.use(target):
        out = np.zeros(4)
        fill.forall(4)(out)
    return out.tolist()

for target, module, owner, name, file in (
    ("cpu", "compiler", "", "DefaultPassBuilder", "compiling.py"),
    ("cpu", "compiler_lock", "", "global_compiler_lock", "compiling.py"),
    ("cpu", "codegen", "CPUCodeLibrary", "_optimize_final_module", "host_code.HostLibrary"),
    ("cpu", "codegen", "CPUCodeLibrary", "_finalize_final_module", "host_code.HostLibrary"),
    ("null", "callconv", "", "MinimalCallConv", "device_code.py"),
    ("null", "base", "BaseContext", "insert_const_string", "device_target.DeviceContext"),
    ("null", "target_extension", "", "dispatcher_registry", "device_target.py"),
):
    holder = importlib.import_module(f"numba.core.{module}")
    holder = getattr(holder, owner) if owner else holder
    saved = holder.__dict__[name]
    delattr(holder, name)
    try:
        launch(target)
    except kd.CompileError as error:
        text = str(error)
        for part in (f"numba {numba.__version__} has no numba.core.{module}", f".{name}, which",
                     "numba_internals", file, "tested with numba>=", "docs/releases.md"):
            assert part in text, (name, part, text)
    else:
        raise AssertionError(f"nothing was said of {name}")
    setattr(holder, name, saved)
print(launch("cpu"))
"""


def test_a_launch_says_which_name_a_release_has_moved(tmp_path):
    cache = str(tmp_path / "cache")
    done = run_program(tmp_path, MOVED, KERNELDSL_FALLBACK="never", KERNELDSL_CACHE_DIR=cache)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "[1.0, 1.0, 1.0, 1.0]"


def raised_at(file: str, statement: str, **names: object) -> BaseException:
    """What a statement of a file raises."""
    with pytest.raises((AttributeError, ImportError)) as caught:
        exec(compile(statement, file, "exec"), dict(names))
    return caught.value


OURS = str(PRIVATE / "anywhere.py")


@pytest.mark.parametrize(
    ("statement", "thing", "missing"),
    [
        ("thing.gone", numba, "numba.gone"),
        ("thing.gone", BaseContext, "numba.core.base.BaseContext.gone"),
        ("thing.gone", numba.types.int64, "numba.core.types.scalars.Integer.gone"),
        ("import numba.gone", None, "numba.gone"),
        ("from numba.core.base import gone", None, "numba.core.base.gone"),
        ("from llvmlite.ir import gone", None, "llvmlite.ir.gone"),
    ],
)
def test_a_name_that_is_not_there(statement, thing, missing):
    error = moved_name(raised_at(OURS, statement, thing=thing))
    assert isinstance(error, CompileError)
    assert error.value == missing
    assert f"{missing}, which kerneldsl/lowering/numba_internals/anywhere.py:1 needs" in str(error)


def test_it_is_found_among_the_causes():
    inner = raised_at(OURS, "thing.gone", thing=numba)
    outer = RuntimeError("Numba's own words")
    outer.__cause__ = inner
    assert moved_name(outer).value == "numba.gone"


@pytest.mark.parametrize(
    ("file", "statement", "thing"),
    [
        (numba.__file__, "thing.gone", numba),  # a fault of Numba's
        (str(ROOT / "user.py"), "thing.gone", numba),  # of a program's
        (OURS, "thing.gone", ModuleType("another")),
        (OURS, "thing.gone", 1),
        (OURS, "import another_that_is_missing", None),
        (OURS, "raise AttributeError('made by hand')", None),
    ],
)
def test_other_errors_are_left_alone(file, statement, thing):
    assert moved_name(raised_at(file, statement, thing=thing)) is None


def test_without_numba_that_is_not_what_is_said():
    assert moved_name(ModuleNotFoundError("No module named 'numba'", name="numba")) is None


def test_a_method_that_nothing_calls_any_more():
    with pytest.raises(CompileError, match=r"has no numba\.core\.codegen\.CodeLibrary\.renamed"):

        @overriding("own")
        class Library(CodeLibrary):
            def own(self):
                """It has that for itself."""

            def finalize(self):
                """This is one of the base's."""

            def renamed(self):
                """This is not."""


def test_a_method_of_a_class_beside_the_base():
    @overriding(beside=JITCodeLibrary)
    class Library(CodeLibrary):
        def get_pointer_to_function(self, name):
            """The base has no such method; the CPU's libraries do."""

    assert issubclass(Library, CodeLibrary)
