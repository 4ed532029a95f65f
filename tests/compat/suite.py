"""Run a checkout of numba-cuda's own tests under the drop-in, and write a table of the results.

    python -m tests.compat.suite PATH [--only NAME …] [--jobs 2] [--json FILE]

PATH is the folder of the checkout or of the unpacked wheel that holds ``tests/cudapy``. Nothing of
it is part of this repository. Each test has one class: passed, host (a name or a method of the
host), language (the kernel is refused), different (a result differs), or not applicable, with the
reason. The tests of one module run in one process.

Without a GPU, a test that runs CUDA C++ or PTX, or a library that needs a GPU, is not applicable if
numba-cuda's simulator skips it as well (``skip_on_cudasim``). The table counts these tests, and has
the share with them, too. What else the simulator skips counts as on a GPU.

At most 15 tests compare the text of numba-cuda's own compiler, and fail for that
(:mod:`tests.compat.suite_left_out`). The table has the share with them and without them.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import subprocess
import sys
import types
import unittest
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import chain
from pathlib import Path
from typing import Never

import pytest

from tests.compat.suite_left_out import LEFT_OUT
from tests.compat.suite_support import SKIPPED_BY_SIMULATOR

CLASSES = ("passed", "host", "language", "different", "not applicable")
#: Modules of numba-cuda that are its compiler and its driver, and why tests of them say nothing
#: of programs. A test that uses one does not count.
INTERNAL = {
    "_compat": "the versions of cuda.core that numba-cuda knows",
    "cext": "numba-cuda's C extension",
    "codegen": "numba-cuda's compiler",
    "core": "numba-cuda's compiler",
    "cpython": "numba-cuda's compiler",
    "cuda_paths": "how numba-cuda finds the CUDA toolkit",
    "cudadrv.dummyarray": "numba-cuda's model of arrays",
    "cudadrv.linkable_code": "links code for a GPU",
    "cudadrv.libs": "how numba-cuda finds the CUDA toolkit",
    "cudadrv.nvrtc": "numba-cuda's binding of NVRTC",
    "cudadrv.nvvm": "numba-cuda's binding of NVVM",
    "descriptor": "numba-cuda's compiler",
    "deviceufunc": "numba-cuda's base classes of ufuncs",
    "flags": "numba-cuda's compiler",
    "fp8": "bindings that numba-cuda generates",
    "itanium_mangler": "numba-cuda's compiler",
    "libdevicefuncs": "numba-cuda's table of libdevice",
    "lowering": "numba-cuda's compiler",
    "memory_management": "numba-cuda's runtime for reference counts",
    "simulator": "numba-cuda's simulator",
    "target": "numba-cuda's compiler",
    "typeconv": "numba-cuda's compiler",
    "vector_types": "numba-cuda's compiler",
}


#: The same for names of modules that programs use.
NAMES = {
    "": (
        "links code for a GPU",
        "Archive Object",
    ),
    "compiler": ("numba-cuda's compiler", "CompilerBase PassManager run_frontend"),
    "cudadrv.driver": (
        "numba-cuda's binding of the driver",
        "_Linker _to_core_stream binding",
    ),
    "cudadrv.nvvm": (
        "numba-cuda's binding of NVVM",
        "CompilationUnit LibDevice NVVM add_ir_version compile_ir",
    ),
}
#: Packages that some tests need, which need not be installed.
PACKAGES = ("numba_cuda", "cupy", "cffi")
MISSING = "needs a package that is not installed"


class NotApplicable(unittest.SkipTest):
    """A test uses a part of numba-cuda that programs do not."""


class _Placeholder(types.ModuleType):
    """Stands for a module, a class or a function of numba-cuda's compiler; using it ends a test."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name)
        self.__dict__["_why"] = why
        self.__dict__["__path__"] = []

    def __repr__(self):
        return f"<_Placeholder {self.__name__}>"

    def _end(self) -> Never:
        raise NotApplicable(f"{self._why} ({self.__name__})")

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Placeholder(f"{self.__name__}.{name}", self._why)

    def __call__(self, *args, **named):
        self._end()

    def __mro_entries__(self, bases):
        self._end()

    def __bool__(self) -> bool:
        # Numba itself asks for classes of packages that need not be there; versions are the newest.
        return self._why in (MISSING, INTERNAL["_compat"]) or bool(self._end())

    def __iter__(self):
        self._end()

    def __getitem__(self, key):
        self._end()

    def __enter__(self):
        self._end()

    def __exit__(self, *exc):
        return None


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the suite, what its tests are written with, and placeholders."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def find_spec(self, fullname, path=None, target=None):
        # `from numba.cuda import x` looks for x below the name of the module that it has found.
        below = fullname.removeprefix("numba.cuda.").removeprefix("kerneldsl.cuda.")
        if below == fullname:
            return None
        is_internal = _why_internal(below) is not None
        if not is_internal and (below == "tests" or below.startswith("tests.")):
            place = self._root.joinpath(*below.split("."))
            if below == "tests.support":
                return importlib.machinery.ModuleSpec(fullname, self)
            if place.is_dir():
                spec = importlib.machinery.ModuleSpec(fullname, None, is_package=True)
                spec.submodule_search_locations = [str(place)]
                return spec
            return importlib.util.spec_from_file_location(fullname, place.with_suffix(".py"))
        if below in ("testing", "utils"):
            return importlib.machinery.ModuleSpec(fullname, self)
        if is_internal:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        from tests.compat import suite_support

        if spec.name.endswith((".testing", ".support", ".utils")):
            suite_support.DATA = self._root / "tests" / "data"
            made = types.ModuleType(spec.name)
            made.__dict__.update(
                {k: v for k, v in vars(suite_support).items() if not k.startswith("__")}
            )
            made.test_data_dir = suite_support.DATA
            return made
        below = spec.name.removeprefix("numba.cuda.").removeprefix("kerneldsl.cuda.")
        return _Placeholder(spec.name, _why_internal(below))

    def exec_module(self, module):
        return None


def _why_internal(below: str) -> str | None:
    return next(
        (why for name, why in INTERNAL.items() if below == name or below.startswith(name + ".")),
        None,
    )


# --------------------------------------------------------------------------- one module


#: What a message has that compares the text of compiled code with that of numba-cuda.
_TEXTS_OF_CODE = (
    "; ModuleID = ",
    "Generated by LLVM NVPTX Back-End",
    "FileCheck failed",
)


#: Functions that give the text of code, and those that the test which runs has called.
_GIVE_TEXT = ("inspect_llvm", "inspect_asm", "compile")
_called: set[str] = set()


def _note_reads_of_text() -> None:
    """Have :data:`_called` know which functions that give texts of code a test calls."""
    from kerneldsl.compat.numba_cuda import compiler, overloads

    for name in _GIVE_TEXT:
        owner = compiler if name == "compile" else overloads.Overload
        setattr(owner, name, _noting(name, getattr(owner, name)))


def _noting(name, function):
    @functools.wraps(function)
    def noted(*args, **named):
        _called.add(name)
        return function(*args, **named)

    return noted


#: How the reason of a test begins that a GPU alone can run.
_ON_GPU_ALONE = "code for a GPU alone"


def _outcome(error: BaseException, test: unittest.TestCase) -> tuple[str, str]:
    """Return the class of a test that fails, and why."""
    said = f"{type(error).__name__}: {error}"
    kind = _class_of(error)
    is_of_text = any(mark in said for mark in _TEXTS_OF_CODE)
    if kind == "different" and _called and "Mismatched elements" not in said:
        is_of_text = True
    if isinstance(error, AssertionError) and is_of_text:
        return "host", f"text of code: {said[:120]}"
    if kind == "not applicable":
        return kind, "extends numba-cuda's compiler"
    if not _needs_gpu(getattr(error, "error", error)):
        return kind, said
    kind = "not applicable" if _is_skipped_by_simulator(test) else kind
    return kind, f"{_ON_GPU_ALONE}: {said}"


def _is_skipped_by_simulator(test: unittest.TestCase) -> bool:
    method = getattr(test, getattr(test, "_testMethodName", ""), None)
    return any(hasattr(each, SKIPPED_BY_SIMULATOR) for each in (method, test))


def _needs_gpu(error: BaseException) -> bool:
    """Return whether a test calls what a GPU alone has, of kerneldsl or of another library."""
    from kerneldsl.errors import TargetUnavailableError

    no_device = ("CUDA_ERROR_NO_DEVICE", "cudaErrorNoDevice", '"cuda" is an NVIDIA driver library')
    return isinstance(error, TargetUnavailableError) or str(error).startswith(no_device)


def _class_of(error: BaseException) -> str:
    from numba.core.errors import NumbaError

    from kerneldsl.errors import ArgumentError, KernelError

    named = getattr(error, "error", error)
    if "_Placeholder" in str(named):
        return "not applicable"
    if _needs_gpu(named):
        return "host"
    if isinstance(named, ArgumentError):
        return "host"
    if isinstance(error, (NumbaError, KernelError)):
        return "language"
    if isinstance(error, AssertionError):
        said = str(error)
        is_of_words = "not raised" in said or "does not match" in said or "not found in" in said
        return "host" if is_of_words else "different"
    return "host"


class _Result(unittest.TestResult):
    """Writes one line of JSON for each test."""

    def __init__(self, out) -> None:
        super().__init__()
        self._out = out
        self._seen: set[str] = set()

    def _write(self, test, kind, why=""):
        name = test.id()
        if name in self._seen:
            return
        self._seen.add(name)
        self._out.write(json.dumps({"test": name, "class": kind, "why": why[:400]}) + "\n")
        self._out.flush()

    def startTest(self, test):
        super().startTest(test)
        _called.clear()
        signal.alarm(120)

    def stopTest(self, test):
        signal.alarm(0)
        super().stopTest(test)

    def addSuccess(self, test):
        self._write(test, "passed")

    def addExpectedFailure(self, test, err):
        self._write(test, "passed", "fails, as expected")

    def addUnexpectedSuccess(self, test):
        self._write(test, "host", "passes, and numba-cuda fails")

    def addSkip(self, test, reason):
        self._write(test, "not applicable", reason)

    def addError(self, test, err):
        error = err[1]
        if isinstance(error, pytest.skip.Exception):
            self._write(test, "not applicable", str(error))
            return
        self._write(test, *_outcome(error, test))

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addError(test, err)


#: The variable of the environment with the folder of the suite.
ROOT = "KERNELDSL_SUITE_ROOT"


def prepare(root: Path) -> None:
    """Let this process find the suite, under the drop-in."""
    import kerneldsl.cuda
    import kerneldsl.drop_in

    sys.meta_path.insert(1, _Finder(root))
    for below, (why, names) in NAMES.items():
        module = kerneldsl.cuda.submodule(below) if below else kerneldsl.cuda
        for each in names.split():
            setattr(module, each, _Placeholder(f"numba.cuda.{below}.{each}", why))
    _note_reads_of_text()
    kerneldsl.cuda.submodule("cudadrv.nvvm").nvvmError = None  # there is no binding of NVVM
    for below, why in INTERNAL.items():
        if "." not in below and below not in kerneldsl.cuda.SUBMODULES:
            setattr(kerneldsl.cuda, below, _Placeholder(f"numba.cuda.{below}", why))
    for package in PACKAGES:
        if importlib.util.find_spec(package) is None:
            sys.modules[package] = _Placeholder(package, MISSING)


def _run_module(root: Path, name: str, out) -> None:
    prepare(root)

    def too_long(*_):
        raise TimeoutError("the test takes longer than 120 s")

    signal.signal(signal.SIGALRM, too_long)
    try:
        module = importlib.import_module(name)
    except (unittest.SkipTest, pytest.skip.Exception) as reason:
        out.write(json.dumps({"module": name, "class": "not applicable", "why": str(reason)}))
        return
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        # Numba itself looks for cffi, so nothing can stand for it.
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == "cffi"
        kind = "not applicable" if is_missing else _class_of(error)
        out.write(json.dumps({"module": name, "class": kind, "why": why}))
        return
    suite = unittest.TestSuite()
    for each in vars(module).values():
        if isinstance(each, type) and issubclass(each, unittest.TestCase):
            if each.__module__ == name:  # and none that it imports
                suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(each))
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        suite.run(_Result(out))


# --------------------------------------------------------------------------- all of them


def _modules(root: Path, only: list[str]) -> list[str]:
    found = sorted(root.glob("tests/**/test_*.py"))
    names = ["numba.cuda." + ".".join(p.relative_to(root).with_suffix("").parts) for p in found]
    return [n for n in names if ".benchmarks." not in n and (not only or any(o in n for o in only))]


def _count_in(root: Path, name: str) -> int:
    text = root.joinpath(*name.split(".")[2:]).with_suffix(".py").read_text()
    return text.count("    def test")


def _run_in_process(root: Path, name: str) -> list[dict]:
    command = [sys.executable, "-m", "tests.compat.suite", str(root), "--module", name]
    # The processes that tests start have the drop-in and the suite, too.
    at_start = Path(__file__).parent / "at_start"
    path = os.pathsep.join([str(at_start), os.environ.get("PYTHONPATH") or os.getcwd()])
    environment = {**os.environ, "PYTHONPATH": path, ROOT: str(root)}
    options = {"capture_output": True, "text": True, "timeout": 600, "env": environment}
    try:
        done = subprocess.run(command, check=False, **options)
        status, text, said = done.returncode, done.stdout, done.stderr[-300:]
    except subprocess.TimeoutExpired as late:
        status, said = "late", ""
        text = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    if status != 0:
        rows.append({"test": f"{name}.(end)", "class": "host", "why": f"exit {status}: {said}"})
    spread = []
    for row in rows:
        if "module" in row:
            count = _count_in(root, name)
            spread += [{**row, "test": f"{name}.({i})"} for i in range(count)]
        else:
            spread.append(row)
    return spread


def _below(row: dict) -> str:
    return row["test"].removeprefix("numba.cuda.tests.")


def table(rows: list[dict]) -> str:
    """Return counts of each class, and the tests that do not pass with what they say."""
    counts = Counter(row["class"] for row in rows)
    applicable = sum(n for kind, n in counts.items() if kind != "not applicable")
    lines = ["| class | tests | share |", "|---|---:|---:|"]
    for kind in CLASSES:
        share = f"{100 * counts[kind] / max(applicable, 1):.1f} %" if kind != CLASSES[-1] else ""
        lines.append(f"| {kind} | {counts[kind]} | {share} |")
    lines.append(f"| applicable | {applicable} | |")
    alone = sum(
        row["class"] == CLASSES[-1] and row["why"].startswith(_ON_GPU_ALONE) for row in rows
    )
    if alone:
        share = 100 * counts["passed"] / (applicable + alone)
        lines.append(f"| not applicable: a GPU alone runs them | {alone} | passed: {share:.1f} % |")
    left_out = [r for r in rows if r["class"] == "host" and r["test"] in LEFT_OUT]
    if left_out:
        share = 100 * counts["passed"] / max(applicable - len(left_out), 1)
        lines.append(f"| host: text of numba-cuda | {len(left_out)} | passed: {share:.1f} % |")
        lines += ["", "## text of numba-cuda, left out of the last share", ""]
        lines += [f"- {_below(row)}: {LEFT_OUT[row['test']]}" for row in left_out]
    for kind in CLASSES[1:]:
        lines += ["", f"## {kind}", ""]
        if kind == CLASSES[-1]:
            reasons: dict[str, list[str]] = {}
            for row in rows:
                if row["class"] == kind:
                    reasons.setdefault(row["why"] or "without a reason", []).append(_below(row))
            for why, names in sorted(reasons.items(), key=lambda each: -len(each[1])):
                each = Counter(".".join(n.split(".")[:2]) for n in names)
                lines.append(f"- {len(names)}: {why} ({', '.join(each)})")
            continue
        for row in rows:
            if row["class"] == kind:
                said = " ".join(row["why"].split())[:220]
                lines.append(f"- {_below(row)}: {said}")
    return "\n".join(lines)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--module")
    given = parser.parse_args()
    root = given.path.resolve()
    if given.module:
        with os.fdopen(os.dup(1), "w") as out:
            _run_module(root, given.module, out)
        sys.stdout.flush()
        os._exit(0)
    names = _modules(root, given.only)
    found: dict[str, list[dict]] = {}
    with ThreadPoolExecutor(given.jobs) as pool:
        runs = {pool.submit(_run_in_process, root, name): name for name in names}
        for run in as_completed(runs):
            found[runs[run]] = run.result()
            print(f"{len(found)} of {len(names)} modules: {runs[run]}", file=sys.stderr)
            if given.json:  # what is there if the run is ended early
                given.json.write_text(json.dumps(list(chain(*found.values())), indent=1))
    rows = [row for name in names for row in found[name]]
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))
    print(table(rows))


if __name__ == "__main__":
    main()
