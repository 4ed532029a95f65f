"""The public names: imported late, visible to type checkers."""

from __future__ import annotations

import ast
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kerneldsl as kd
from docs.library_stubs import late_stubs
from kerneldsl import errors
from kerneldsl.language import other_names
from kerneldsl.language.element_types import NUMPY_NAMES
from kerneldsl.language.intrinsics.table import INTERNAL, INTRINSICS


def run_python(code, **env):
    return subprocess.run(
        [sys.executable, *code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PYTHONPATH": ":".join(p for p in [".", *sys.path] if p), **env},
    )


#: Names that an optional package has.
_OPTIONAL = {"bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"}


def test_stubs_are_those_of_the_tables():
    """After a name was added: ``make docs``."""
    written = late_stubs()
    assert len(written) == 7
    for path, text in written.items():
        assert path.read_text(encoding="utf-8") == text, path


def test_table_stub_and_all_are_the_same_names():
    stub = ast.parse(Path(kd.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    typed = {each.target.id for each in stub.body if isinstance(each, ast.AnnAssign)}
    imported = {
        alias.name: statement.module
        for statement in stub.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    places = dict.fromkeys(typed - {"__all__"}, "kerneldsl.language.intrinsics.places")
    own = {"Any": "typing", "Protocol": "typing", "__version__": "kerneldsl._version"}
    assert {**imported, **places} == {**kd._HOME, **own}
    # A package that is optional has it; `from kerneldsl import *` works without.
    assert set(kd.__all__) == {*kd._HOME, "__version__"} - _OPTIONAL
    for name in kd.__all__:
        getattr(kd, name)
    assert set(kd.__all__) <= set(dir(kd))


def test_no_package_hides_a_public_name():
    # Python sets what it imports as an attribute of the package that it stands in.
    assert not {module.name for module in pkgutil.iter_modules(kd.__path__)} & set(kd.__all__) - {
        "cache",
        "cuda",
        "random",
    }


def test_dtypes_are_numpys():
    assert kd.float32 is np.float32
    assert kd.bool_ is np.bool_
    assert all(hasattr(kd, n if n != "bool" else "bool_") for n in NUMPY_NAMES)


def test_bfloat16_names_the_package_that_is_missing(monkeypatch):
    monkeypatch.delitem(vars(kd), "bfloat16", raising=False)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(kd.AttributeUnavailableError, match=r'pip install "kerneldsl\[bfloat16\]"'):
        kd.bfloat16
    assert not hasattr(kd, "bfloat16")
    scope = {}
    exec("from kerneldsl import *", scope)
    assert scope["float16"] is np.float16


def test_every_intrinsic_is_on_the_face():
    for name, intrinsic in INTRINSICS.items():
        if intrinsic in INTERNAL:
            continue
        found = kd
        for part in name.split("."):
            found = getattr(found, part)
        assert found is intrinsic


def test_every_error_is_on_the_face():
    for name in errors.__all__:
        if name != "fault_class":  # makes classes, for targets
            assert getattr(kd, name) is getattr(errors, name)


def test_unknown_names():
    with pytest.raises(AttributeError, match="no attribute 'kernell'"):
        kd.kernell
    assert not hasattr(kd, "sqrt")


@pytest.mark.parametrize("name", sorted(other_names.ON_HOST))
def test_names_of_numba_cuda_say_what_to_write(name):
    written = other_names.ON_HOST[name]
    assert callable(getattr(kd, written.removeprefix("kd.")))
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'\. Write {written}\b"):
        getattr(kd, name)


def test_names_of_numpy_are_the_librarys():
    import stdlib_kernels
    from stdlib_kernels import array_api

    for home, names in (
        (stdlib_kernels, other_names._OF_LIBRARY),
        (array_api, other_names._MAKING),
    ):
        for name in names.split():
            assert callable(getattr(home, name))
            written = rf"'{name}'\. Write {re.escape(home.__name__)}\.{name}\.$"
            with pytest.raises(AttributeError, match=written):
                getattr(kd, name)


@pytest.mark.parametrize(
    ("name", "written"),
    [("ravel", r"array\.reshape\(-1\)"), ("get", r"array\.copy_to_host\(\)"),
     ("argsort", r"stdlib_kernels\.argsort\(array, …\)"), ("trace", "a kernel, or use NumPy's")],
)  # fmt: skip
def test_methods_of_other_arrays_say_what_to_write(name, written):
    array = kd.zeros((2, 3), device="cpu")
    with pytest.raises(kd.errors.AttributeUnavailableError, match=f"no '{name}'. Write {written}"):
        getattr(array, name)
    assert not hasattr(array, name)


@pytest.mark.parametrize("name", ["device", "jit", "gird"])
def test_what_python_shows_of_a_missing_name_is_one_advice(name):
    done = run_python(["-c", f"import kerneldsl as kd\nkd.{name}"])
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"AttributeError: module 'kerneldsl' has no attribute '{name}'. ")
    assert ".." not in last
    assert "Did you mean" not in last
    assert last.endswith(".")


def test_a_device_function_of_numba_cuda_is_a_plain_one_here():
    for name in ("device", "jit"):
        with pytest.raises(AttributeError, match=r"kd\.func.*a plain one is a device function"):
            getattr(kd, name)
    with pytest.raises(kd.ArgumentTypeError, match="a plain one is a device function, too"):
        kd.kernel(device=True)


def test_misspelled_names_say_the_closest():
    with pytest.raises(AttributeError, match=r"'kernell'\. The closest name is kd\.kernel\.$"):
        kd.kernell
    with pytest.raises(AttributeError, match=r"no attribute 'quaternion'$"):
        kd.quaternion


def test_no_submodule_replaces_a_name_of_the_face():
    import pkgutil

    modules = {m.name for m in pkgutil.iter_modules(kd.__path__)}
    parts = {name for name, module in kd._HOME.items() if module == "kerneldsl"}
    assert modules & set(kd.__all__) == parts  # which are modules on purpose
    for name in parts:
        assert getattr(kd, name) is sys.modules[f"kerneldsl.{name}"]


def import_times(code):
    """Microseconds that each module took, with what it imports."""
    done = run_python(["-X", "importtime", "-c", code])
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"import time:\s+\d+ \|\s+(\d+) \|\s+(\S+)", done.stderr)
    return {name: int(microseconds) for microseconds, name in rows}


def test_importing_imports_nothing_heavy():
    modules = import_times("import kerneldsl; kerneldsl.__version__")
    assert "kerneldsl" in modules
    heavy = {"numba", "llvmlite", "sympy", "rich", "cuda", "typer", "torch", "numpy"}
    assert not {m for m in modules if m.partition(".")[0] in heavy}


def test_importing_costs_little_on_top_of_numpy():
    # The best of five, because the machine may be busy.
    best = min(import_times("import numpy, kerneldsl")["kerneldsl"] for _ in range(5))
    assert best < 40_000


def test_decorating_imports_no_compiler():
    code = (
        "import sys, numpy\n"
        "import kerneldsl as kd\n"
        "@kd.kernel\n"
        "def f(x):\n    x[0] = 1\n"
        "f[1, 1]\n"
        "print([m for m in sys.modules if m.partition('.')[0] in "
        "('numba', 'llvmlite', 'sympy', 'rich', 'cuda', 'typer')])\n"
    )
    done = run_python(["-c", code])
    assert done.stdout.strip() == "[]", done.stderr


def test_show_versions(capsys):
    kd.show_versions()
    shown = capsys.readouterr().out
    for word in ("kerneldsl", "python", "platform", "numpy", "numba", "llvmlite", "LLVM", "tbb"):
        assert re.search(rf"^{word} +\S", shown, re.MULTILINE), word
    assert "target cuda" in shown


def test_the_log_goes_to_standard_error():
    code = "import kerneldsl as kd\n@kd.kernel\ndef f(x):\n    x[0] = 1\nkd.get_target('null')\n"
    done = run_python(["-c", code], KERNELDSL_LOG="debug")
    assert "kerneldsl DEBUG target null" in done.stderr
    assert done.stdout == ""
    shown = run_python(["-c", code], KERNELDSL_LOG="loud").stderr
    assert shown.count("KERNELDSL_LOG") == 1
    assert "KERNELDSL_LOG is 'loud'. It is taken as debug" in shown
    assert "kerneldsl DEBUG target null" in shown
    assert run_python(["-c", code]).stderr == ""


def test_an_interpreter_completes_public_names_alone():
    shown = {name for name in dir(kd) if not name.startswith("__")}
    assert shown == {*kd.__all__, *_OPTIONAL} - {"__version__"}
    assert {"__version__", "__doc__", "__all__"} <= set(dir(kd))
    assert [name for name in dir(kd.cache) if not name.startswith("__")] == kd.cache.__all__
    completed = {name for name in dir(kd.random) if not name.startswith("__")}
    assert completed == {*kd.random.__all__, "xoroshiro128p_type"}
    assert {"__doc__", "__all__"} <= set(dir(kd.cache))
