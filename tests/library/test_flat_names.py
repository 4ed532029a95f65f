"""The library's functions under its own name, ``sk.sum(x)``, beside their families."""

from __future__ import annotations

import inspect
import pickle
import pkgutil
import pydoc
import re
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

import kerneldsl as kd
import stdlib_kernels as sk
from docs.library_stubs import stubs

#: Of the packages, those that are no families: the namespace of device arrays.
OTHERS = {"array_api"}
FAMILIES = sorted({m.name for m in pkgutil.iter_modules(sk.__path__) if m.ispkg} - OTHERS)
#: Families that have a function of their own name, and so can be called.
CALLED = {"histogram", "reduce", "scan", "sort"}
#: Names of two families, of which the flat one is the first's.
TWICE = {
    "histogram": ("histogram", "imaging"),
    "matmul": ("linalg", "quantized"),
    "sobel": ("stencil", "imaging"),
}


def test_every_name_of_every_family_is_flat():
    homes: dict[str, list[str]] = {}
    for family in FAMILIES:
        for name in import_module(f"stdlib_kernels.{family}").__all__:
            homes.setdefault(name, []).append(family)
    twice = {name: found for name, found in homes.items() if len(found) > 1}
    assert {name: sorted(found) for name, found in TWICE.items()} == twice
    assert set(sk.__all__) == {*homes, *FAMILIES}
    assert len(set(sk.__all__)) == len(sk.__all__)
    for name, families in homes.items():
        home = import_module(f"stdlib_kernels.{TWICE.get(name, families)[0]}")
        found = getattr(sk, name)
        assert found is (home if name in CALLED else getattr(home, name)), name


def test_names_of_families_and_of_modules_meet_where_they_can_be_called():
    modules = {module.name for module in pkgutil.iter_modules(sk.__path__)}
    functions = {n for f in FAMILIES for n in import_module(f"stdlib_kernels.{f}").__all__}
    assert modules & functions == CALLED


@pytest.mark.parametrize("name", sorted(CALLED))
def test_a_family_is_its_function_too(name):
    family = getattr(sk, name)
    function = getattr(family, name)
    assert inspect.signature(family) == inspect.signature(function)
    assert pickle.loads(pickle.dumps(family)) is family  # noqa: S301 - our own bytes
    with pytest.raises(TypeError, match=rf"{name}\(\) missing") as caught:
        family()
    assert not re.search("stdlib_kernels", str(caught.traceback[-1].path))


def test_a_call_by_a_flat_name():
    x = np.array([3.0, 1.0, 2.0])
    with kd.use("cpu"):
        assert sk.sum(x) == 6
        np.testing.assert_array_equal(sk.sort(x), np.sort(x))
        np.testing.assert_array_equal(sk.sort.argsort(x), np.argsort(x))
        np.testing.assert_array_equal(sk.scan(x, lambda a, b: a + b, 0), np.cumsum(x))
        assert sk.reduce(x, lambda a, b: a + b, 0) == 6
        np.testing.assert_array_equal(sk.histogram(x, 2)[0], np.histogram(x, 2)[0])
        with pytest.raises(kd.ArgumentTypeError) as caught:
            sk.sort(object())
    assert not re.search("stdlib_kernels", str(caught.traceback[-1].path))


def test_names_are_found_by_those_who_look():
    from stdlib_kernels import sum

    assert sum is sk.reduce.sum
    assert set(sk.__all__) < set(dir(sk))
    assert not {name for name in dir(sk) if name not in sk.__all__ and not name.startswith("__")}
    shown = pydoc.plain(pydoc.render_doc(sk))
    for name in ("argsort", "gaussian_filter", "top_k"):
        assert re.search(rf"    {name}\(\s*x", shown)  # Python 3.14 breaks long lines


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("smu", "'smu'. Did you mean 'sum'?"),
        ("softmx", "'softmx'. Did you mean 'softmax'?"),
        ("percentil", "'percentil'. Did you mean 'percentile_filter'?"),
        ("median", "'median'. Write sort(x), and take the middle"),
        ("exp", "'exp'. Write stdlib_kernels.array_api.exp"),
        ("xyzzy", "'xyzzy'. Its names are in __all__"),
        ("_private", "'_private'"),
    ],
)
def test_an_unknown_name_gives_the_nearest(name, said):
    with pytest.raises(AttributeError) as caught:
        getattr(sk, name)
    assert str(caught.value) == f"module 'stdlib_kernels' has no attribute {said}"
    assert not hasattr(sk, name)


def test_the_namespace_of_device_arrays_is_imported_when_it_is_used():
    program = (
        "import sys, stdlib_kernels as sk; "
        "print(sk.array_api is sys.modules['stdlib_kernels.array_api'])"
    )
    command = [sys.executable, "-c", program]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert shown == "True\n"


def test_a_misspelled_name_imports_no_family():
    program = (
        "import sys, stdlib_kernels as sk; "
        "print(hasattr(sk, 'srot'), *(each for each in sys.modules if each.startswith('stdlib_k')))"
    )
    command = [sys.executable, "-c", program]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert shown == "False stdlib_kernels\n"


def test_importing_the_library_imports_nothing_else():
    program = (
        "import sys; before = {*sys.modules}; import stdlib_kernels; dir(stdlib_kernels); "
        "print(sorted({*sys.modules} - before))"
    )
    command = [sys.executable, "-c", program]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert shown.strip() == "['stdlib_kernels']"


def test_stubs_are_those_of_the_functions():
    """After a signature or a result was changed: ``make docs``."""
    written = stubs()
    assert len(written) == len(sk._FAMILIES) + 1
    for path, text in written.items():
        assert path.read_text(encoding="utf-8") == text, path


@pytest.mark.parametrize("name", ["elementwise", "parameters", "array_api.searching"])
def test_any_module_may_be_imported_first(name):
    """An import of a module reads its name from the package first, which finds no function."""
    code = f"import stdlib_kernels.{name}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_import_of_a_module_does_not_import_the_array_api():
    code = """import sys
from stdlib_kernels import parameters
assert "stdlib_kernels.array_api" not in sys.modules"""
    subprocess.run([sys.executable, "-c", code], check=True)
