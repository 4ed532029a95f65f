"""The key of compiled code: what can change the code changes it, and nothing else does."""

from __future__ import annotations

import importlib
import itertools
import linecache
import math
import os
import sys
import textwrap
from collections import namedtuple
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import grimp
import numpy as np
import pytest

from kerneldsl.analysis.analyze import analyze
from kerneldsl.cache import toolchain
from kerneldsl.cache.key import Key, describe, key_of
from kerneldsl.cache.reasons import UncacheableError
from kerneldsl.contract import CompileOptions, ElementMapping, Promises, Specialization
from kerneldsl.contract.abi import LaunchMode
from kerneldsl.contract.device_code import CodeModule
from kerneldsl.contract.options import EntryForm
from kerneldsl.frontend.fingerprint import UnidentifiedError, identify
from kerneldsl.frontend.linked_code import CodeForm
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.language.signatures import parse_signature
from kerneldsl.launch.artifact import find_key
from kerneldsl.placement.registry import get_target
from kerneldsl.utilities import figures

_numbers = itertools.count()
HEAD = """
import math
import operator
import numpy as np
import kerneldsl as kd
"""
KERNEL = """
SCALE = 2.0
TABLE = np.arange(5.0)
TABLE.flags.writeable = False

@kd.func
def inner(x):
    return x * SCALE

@kd.func
def helper(x, plus=1.0):
    return inner(x) + plus

@kd.kernel
def kernel(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = helper(x[i]) + TABLE[i % 5]
"""


def define(text: str, **names: Any) -> Any:
    """The kernel of some text, as if a module of its own had defined it."""
    filename = f"<key {next(_numbers)}>"
    text = HEAD + textwrap.dedent(text)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"__name__": "m", **names}
    exec(compile(text, filename, "exec"), scope)
    return scope["kernel"]


def specialize(text: str = KERNEL, **changes: Any) -> Specialization:
    unit = make_unit(define(text).function)
    kinds = parse_signature("float64[::1], float64[::1]")
    return replace(Specialization(unit, analyze(unit), kinds, arch="sm_90"), **changes)


def key(text: str = KERNEL, **changes: Any) -> Key:
    return key_of(specialize(text, **changes), "cuda", {"driver": "1"})


SAME = {
    # Code is made from a copy of an array, which has no gaps.
    "an array with gaps": KERNEL.replace("np.arange(5.0)", "np.arange(0.0, 5.0, 0.5)[::2]"),
    "moved": "\n\n\n" + KERNEL,
    "comment": KERNEL.replace("i = kd.grid(1)", "i = kd.grid(1)  # the index"),
    "docstring": KERNEL.replace(
        "def helper(x, plus=1.0):", "def helper(x, plus=1.0):\n    'Text.'"
    ),
    "annotation": KERNEL.replace(
        "def kernel(x, out):", "def kernel(x: object, out: object) -> None:"
    ),
    "spacing": KERNEL.replace("inner(x) + plus", "(inner( x )+plus)"),
    "order of functions": KERNEL.replace("SCALE = 2.0\n", "").replace(
        "@kd.kernel", "SCALE = 2.0\n@kd.kernel"
    ),
    "an equal constant": KERNEL.replace("SCALE = 2.0", "SCALE = 4.0 / 2.0"),
    "how a name is imported": KERNEL.replace("kd.grid(1)", "grid(1)").replace(
        "SCALE = 2.0", "SCALE = 2.0\nfrom kerneldsl import grid"
    ),
    "something that is not reached": KERNEL
    + "\nOTHER = 3\n@kd.func\ndef unused(x):\n    return x\n",
}
DIFFERENT = {
    "body": KERNEL.replace("i < out.size", "i < out.size - 1"),
    "a global": KERNEL.replace("SCALE = 2.0", "SCALE = 3.0"),
    "its type": KERNEL.replace("SCALE = 2.0", "SCALE = 2"),
    "its width": KERNEL.replace("SCALE = 2.0", "SCALE = np.float32(2.0)"),
    "its sign": KERNEL.replace("SCALE = 2.0", "SCALE = -0.0"),
    "its sign, from": KERNEL.replace("SCALE = 2.0", "SCALE = 0.0"),
    "a nan": KERNEL.replace("SCALE = 2.0", "SCALE = math.nan"),
    "another nan": KERNEL.replace("SCALE = 2.0", "SCALE = -math.nan"),
    "a bool": KERNEL.replace("SCALE = 2.0", "SCALE = True"),
    "a tuple": KERNEL.replace("SCALE = 2.0", "SCALE = (2.0,)").replace("x * SCALE", "x * SCALE[0]"),
    "an element": KERNEL.replace("SCALE = 2.0", "SCALE = (2.5,)").replace(
        "x * SCALE", "x * SCALE[0]"
    ),
    "an array": KERNEL.replace("np.arange(5.0)", "np.arange(1.0, 6.0)"),
    "its dtype": KERNEL.replace("np.arange(5.0)", "np.arange(5)"),
    "its shape": KERNEL.replace("np.arange(5.0)", "np.arange(6.0)"),
    "its values": KERNEL.replace("np.arange(5.0)", "np.arange(0.0, 10.0, 2.0)"),
    "a callee": KERNEL.replace("inner(x) + plus", "inner(x) - plus"),
    "a callee's callee": KERNEL.replace("x * SCALE", "x / SCALE"),
    "a default value": KERNEL.replace("plus=1.0", "plus=1.5"),
    "which callee": KERNEL.replace("out[i] = helper(x[i])", "out[i] = inner(x[i])"),
    "the name of a parameter": KERNEL.replace("(x, out)", "(y, out)").replace("x[i])", "y[i])"),
    "the kernel's name": KERNEL.replace("def kernel(", "def other(") + "\nkernel = other\n",
    "a callee's name": KERNEL.replace("helper", "assistant"),
    "a function of a library": KERNEL.replace("x * SCALE", "math.sin(x) * SCALE"),
    "which one": KERNEL.replace("x * SCALE", "math.cos(x) * SCALE"),
    "under the same name": KERNEL.replace(
        "SCALE = 2.0", "SCALE = 2.0\nfrom math import cos as f"
    ).replace("x * SCALE", "f(x) * SCALE"),
    "of another module": KERNEL.replace(
        "SCALE = 2.0", "SCALE = 2.0\nfrom math import sin as f"
    ).replace("x * SCALE", "f(x) * SCALE"),
    "an intrinsic": KERNEL.replace("out[i] = helper", "out[i] = kd.threadIdx.x + helper"),
    "another one": KERNEL.replace("out[i] = helper", "out[i] = kd.blockIdx.x + helper"),
    "a static argument": KERNEL.replace(
        "i = kd.grid(1)", "i = kd.grid(1)\n    s = kd.shared.array(32, np.float32)"
    ),
    "its dtype there": KERNEL.replace(
        "i = kd.grid(1)", "i = kd.grid(1)\n    s = kd.shared.array(32, np.float64)"
    ),
    "its size there": KERNEL.replace(
        "i = kd.grid(1)", "i = kd.grid(1)\n    s = kd.shared.array(64, np.float32)"
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_what_keeps_the_key(name: str) -> None:
    assert key(SAME[name]) == key()


def test_what_changes_the_key() -> None:
    found = {name: key(text).digest for name, text in {"": KERNEL, **DIFFERENT}.items()}
    same = [(a, b) for a, b in itertools.combinations(found, 2) if found[a] == found[b]]
    assert same == []


def test_closures() -> None:
    def make(scale: float) -> Any:
        text = f"""
        def outer(scale):
            @kd.kernel
            def kernel(x):
                x[0] = scale
            return kernel
        kernel = outer({scale!r})
        """
        return make_unit(define(text).function)

    assert identify(make(1.5)) == identify(make(1.5))
    assert identify(make(1.5)) != identify(make(2.5))


def test_attributes_of_modules() -> None:
    config = ModuleType("config")
    text = "@kd.kernel\ndef kernel(x):\n    x[0] = config.WIDTH\n"
    found = []
    for width in (1, 2):
        config.WIDTH = width
        found.append(identify(make_unit(define(text, config=config).function)))
    assert found[0] != found[1]


def test_names_of_a_named_tuples_elements() -> None:
    text = "@kd.kernel\ndef kernel(x):\n    x[0] = pair.a\n"
    found = []
    for names in ("a b", "b a"):
        pair = namedtuple("Pair", names)(9.0, 8.0)
        found.append(identify(make_unit(define(text, pair=pair).function)))
    assert found[0] != found[1]


CHANGES = {
    "kinds": parse_signature("float64[::1], float64[:]"),
    "options": CompileOptions(fastmath=True),
    "mode": LaunchMode(1),
    "block_dim": (32, 1, 1),
    "arch": "sm_80",
    "ptx_version": "8.0",
    "mapping": ElementMapping(items=(4, 1, 1)),
    "promises": Promises(is_disjoint=True),
    "code": CodeModule(CodeForm.PTX, "x.ptx", b"").declare("x"),
}


def test_every_field_of_a_specialization_is_part_of_it() -> None:
    base = specialize()
    names = {field.name for field in fields(Specialization)}
    assert names == {"unit", "traits", *CHANGES}, "add a change for the new field"
    for name, value in CHANGES.items():
        assert key(**{name: value}) != key(), name
    for name in ("uses_block", "has_barrier", "uses_dynamic_shared"):
        traits = replace(base.traits, **{name: not getattr(base.traits, name)})
        assert key(traits=traits) != key(), name


def test_every_option_is_part_of_it() -> None:
    changed = {
        "fastmath": True,
        "contract": False,
        "checks_division": True,
        "lineinfo": True,
        "optimize": False,
        "variables": True,
        "wraparound": False,
        "max_registers": 32,
        "launch_bounds": (256, 2),
        "early_start": True,
        "entry": EntryForm.FUNCTION,
        "disabled_passes": ("unroll-strides",),
    }
    assert {f.name for f in fields(CompileOptions)} == {*changed, "debug"}
    found = {key(options=CompileOptions(**{name: value})).digest for name, value in changed.items()}
    assert len({*found, key().digest}) == len(changed) + 1


def test_debug_mode_has_no_key() -> None:
    with pytest.raises(UncacheableError, match="debug"):
        key(options=CompileOptions(debug=True))


def test_line_information_belongs_to_lines() -> None:
    options = CompileOptions(lineinfo=True)
    assert key("\n" + KERNEL, options=options) != key(KERNEL, options=options)


@pytest.mark.parametrize("name", ["kerneldsl", "python", "numpy", "numba", "llvmlite"])
def test_every_part_of_the_toolchain_is_part_of_it(name: str, monkeypatch) -> None:
    before = key()
    assert before.components[name]
    found = {**toolchain.toolchain_identity(), name: "another"}
    monkeypatch.setattr("kerneldsl.cache.toolchain.toolchain_identity", lambda anew=False: found)
    assert key() != before


def test_what_the_target_says_and_its_name_are_part_of_it() -> None:
    base = specialize()
    found = {
        key_of(base, target, identity).digest
        for target in ("cpu", "cuda")
        for identity in ({}, {"driver": "1"}, {"driver": "2"})
    }
    assert len(found) == 6
    with pytest.raises(UncacheableError, match="two parts"):
        key_of(base, "cpu", {"numba": "1"})


def test_the_processor_is_part_of_it(monkeypatch) -> None:
    import llvmlite.binding as llvm

    cpu = get_target("cpu").compiler
    found = [find_key(cpu, specialize(arch="native")).digest]
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "z80")
    found.append(find_key(cpu, specialize(arch="native")).digest)
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: {"avx9": True, "sse": False})
    found.append(find_key(cpu, specialize(arch="native")).digest)
    assert len(set(found)) == 3


def test_what_is_chosen_for_a_gpu_is_part_of_it() -> None:
    cuda = get_target("cuda").compiler
    default = find_key(cuda, specialize(arch=None)).components
    assert default["architecture"].startswith("sm_")
    assert find_key(cuda, specialize(arch="sm_90")).components["PTX"]
    assert find_key(cuda, specialize(ptx_version="8.4")).components["PTX"] == "8.4"


def test_numbas_settings_are_part_of_it(monkeypatch, tmp_path) -> None:
    import numba.core.config as config

    monkeypatch.chdir(tmp_path)
    before = key()
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
    assert key() == before
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "numba")
        patch.setenv("NUMBA_OPT", "1")
        changed = key()
        assert changed != before
        (tmp_path / ".numba_config.yaml").write_text("opt: 2")
        assert key() not in (before, changed)
        (tmp_path / ".numba_config.yaml").unlink()
    monkeypatch.setattr(config, "OPT", 1)
    with pytest.raises(UncacheableError, match=r"numba.config was changed: OPT"):
        key()


def test_it_is_computed_from_the_installed_files(tmp_path, monkeypatch) -> None:
    """The list beside a package identifies it; without one there is no identity."""
    package = tmp_path / "somepackage"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UncacheableError, match="nothing lists"):
        toolchain.package_identity("somepackage")
    info = tmp_path / "somepackage-1.5.dist-info"
    info.mkdir()
    found = []
    for digest in ("abc", "def", "abc"):
        (info / "RECORD").write_text(
            f"somepackage/__init__.py,sha256={digest},0\n"
            "somepackage/__pycache__/x.pyc,,\n../../../bin/tool,sha256=zzz,1\n"
        )
        toolchain.package_identity.cache_clear()
        found.append(toolchain.package_identity("somepackage"))
    assert found[0] == found[2] != found[1]
    assert found[0].startswith("1.5 ")
    assert "somepackage" not in sys.modules
    # What an older installation has left behind must not stand for the newer one.
    older = tmp_path / "somepackage-1.4.dist-info"
    older.mkdir()
    (older / "RECORD").write_text("somepackage/__init__.py,sha256=old,0\n")
    for digest in ("abc", "def"):
        (info / "RECORD").write_text(f"somepackage/__init__.py,sha256={digest},0\n")
        toolchain.package_identity.cache_clear()
        found.append(toolchain.package_identity("somepackage"))
    assert found[3] != found[4]
    with pytest.raises(UncacheableError, match="not installed"):
        toolchain.package_identity("nopackage")


def test_every_source_that_the_identity_names_is_there() -> None:
    root = Path(toolchain.__file__).parents[2]
    for part in toolchain._PARTS:
        assert [
            path for path in toolchain._sources(str(root / part), {}) if Path(path).is_file()
        ], part


def test_identity_names_every_source_that_compiles() -> None:
    root = Path(toolchain.__file__).parents[2]
    graph = grimp.build_graph("kerneldsl", "targets", cache_dir=None)
    compile_it = [f"targets.cpu.{part}" for part in ("codegen", "intrinsics", "math", "regions")]
    compile_it += ["targets.cuda.compile", "targets.cuda.intrinsics"]
    compile_it += ["kerneldsl.ir", "kerneldsl.lowering"]
    found = {
        module
        for part in compile_it
        for each in (part, *graph.find_descendants(part))
        for module in (each, *graph.find_upstream_modules(each))
    }
    assert len(found) > 400
    named = {path for part in toolchain._PARTS for path in toolchain._sources(str(root / part), {})}
    # The version is named by itself.
    assert {_path_of(root, each) for each in found - {"kerneldsl._version"}} - named == set()


def _path_of(root: Path, module: str) -> str:
    path = root.joinpath(*module.split("."))
    return str(path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))


@pytest.mark.parametrize(
    "source",
    [
        "kerneldsl/ir/frontend/reader.py",
        "kerneldsl/ir/tiles/placement.py",
        "kerneldsl/launch/native/builder.py",
        "kerneldsl/lowering/loop_marks.py",
        "kerneldsl/planner/work.py",
        "kerneldsl/frontend/operators.py",
        "targets/cpu/regions/compile.py",
        "targets/cuda/compile/stored.py",
    ],
)
def test_an_edit_of_a_source_that_compiles_is_another_identity(source: str, tmp_path) -> None:
    root = Path(toolchain.__file__).parents[2]
    for part in toolchain._PARTS:
        for path in map(Path, toolchain._sources(str(root / part), {})):
            copy = tmp_path / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
            os.utime(copy, (1, 1))
    before = toolchain._digest_of_sources(tmp_path)
    assert before == toolchain._digest_of_sources(root)
    edited = tmp_path / source
    edited.write_bytes(edited.read_bytes().replace(b"e", b"f", 1))
    os.utime(edited, (1, 1))
    assert toolchain._digest_of_sources(tmp_path) != before


def test_sources_edited_while_the_process_runs(monkeypatch, tmp_path) -> None:
    for part in toolchain._PARTS:
        place = tmp_path / part if part.endswith(".py") else tmp_path / part / "a.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("1")
    monkeypatch.setattr(toolchain, "_LOADED_NS", 2**62)
    first = toolchain._digest_of_sources(tmp_path)
    assert toolchain._digest_of_sources(tmp_path) == first
    (tmp_path / "targets" / "a.py").write_text("2")
    assert toolchain._digest_of_sources(tmp_path) != first
    monkeypatch.setattr(toolchain, "_LOADED_NS", 1)
    with pytest.raises(UncacheableError, match="was edited"):
        toolchain._digest_of_sources(tmp_path)


def _edit_back(place: Path) -> None:
    status = place.stat()
    place.write_text("2")
    os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        _edit_back,
        lambda place: place.unlink(),
        lambda place: (place.parent / "b.py").write_text("1"),
        lambda place: place.rename(place.parent / "b.py"),
    ],
)
def test_sources_that_stay_the_same_are_read_once(change, monkeypatch, tmp_path) -> None:
    for part in toolchain._PARTS:
        place = tmp_path / part if part.endswith(".py") else tmp_path / part / "a.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("1")
    monkeypatch.setattr(toolchain, "_LOADED_NS", 2**62)
    monkeypatch.setattr(toolchain, "_root", lambda: tmp_path)
    monkeypatch.setattr(toolchain, "own_identity", cache(toolchain.own_identity.__wrapped__))
    first = toolchain.toolchain_identity()
    with monkeypatch.context() as patch:
        patch.setattr(toolchain, "_digest_of_sources", lambda root: pytest.fail("read again"))
        assert toolchain.toolchain_identity(anew=True) == first
    change(tmp_path / "targets" / "a.py")
    assert toolchain.toolchain_identity(anew=True) == first  # the code was made by what was loaded
    monkeypatch.setattr(toolchain, "_looked_with", [])
    assert toolchain.toolchain_identity(anew=True) != first


def test_sources_are_looked_at_after_a_module_was_loaded(monkeypatch) -> None:
    looked = []
    status_of = toolchain.status_of
    monkeypatch.setattr(toolchain, "status_of", lambda paths: looked.append(1) or status_of(paths))
    monkeypatch.setattr(toolchain, "_looked_with", [])
    for count, load in (
        (1, lambda: None),
        (1, lambda: None),
        (2, lambda: importlib.reload(figures)),
        (2, lambda: None),
        (3, lambda: monkeypatch.setitem(sys.modules, "targets.another", ModuleType("another"))),
    ):
        load()
        toolchain.toolchain_identity(anew=True)
        assert len(looked) == count


# ------------------------------------------------------------------ what has no identity


def unidentified(text: str, **names: Any) -> str:
    unit = make_unit(define(text, **names).function)
    with pytest.raises(UnidentifiedError) as raised:
        identify(unit)
    return str(raised.value)


def test_numbas_own_functions_have_none() -> None:
    """Their options, and what they reach, are for Numba to know."""
    text = """
    from numba import njit
    @njit(fastmath=True)
    def plain(x):
        return x + 1
    @kd.kernel
    def kernel(x):
        x[0] = plain(x[1])
    """
    assert "Numba" in unidentified(text)


def test_functions_of_other_libraries_have_none() -> None:
    text = "@kd.kernel\ndef kernel(x):\n    x[0] = other.sin(x[1])\n"
    for name in ("extension", "math"):
        other = ModuleType(name)
        other.sin = math.sin
        assert "other" in unidentified(text, other=other)
    assert identify(make_unit(define(text, other=math).function))


def test_a_users_ufunc_has_none() -> None:
    mine = np.frompyfunc(lambda x: x, 1, 1)
    text = "@kd.kernel\ndef kernel(x):\n    x[0] = mine(x[1])\n"
    assert "mine" in unidentified(text, mine=mine)
    assert identify(make_unit(define(text, mine=np.sin).function))


def test_exceptions_do_not_matter_without_checks() -> None:
    class OwnError(ValueError):
        pass

    text = "@kd.kernel\ndef kernel(x):\n    if x[0] > 1:\n        raise OwnError\n    x[0] = 1\n"
    assert identify(make_unit(define(text, OwnError=OwnError).function))


def test_describing() -> None:
    values = [1, True, 1.0, "1", b"1", None, (1,), (1, 1), ((1,),), frozenset({1}), {1: 2}, -0.0]
    assert len({describe(value) for value in values}) == len(values)
    with pytest.raises(UncacheableError, match="object"):
        describe(object())
