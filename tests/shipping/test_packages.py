"""Packages whose kernels are found without compiling, however they are installed."""

from __future__ import annotations

import compileall
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kerneldsl.placement.registry import get_target
from kerneldsl.shipping.manifest import MANIFEST, Manifest, encode_document
from tests.shipping.programs import build, run, use, write_package
from tests.support.extent import full_beyond

DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[:-1],
    "empty": lambda data: b"",
    "changed": lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
    "foreign": lambda data: b"\x7fELF" + bytes(len(data) - 4),
}


def test_kernels_are_found_without_compiling(installed: Path) -> None:
    report = use(installed)
    assert report["modules"] == []
    assert not report["parsed"]
    assert report["of_own_kernels"] == []  # so that they are imported last while a driver starts
    assert report["warnings"] == []
    assert report["cache"]["hits"] == report["cache"]["writes"] == 0


def test_a_cache_that_is_on_costs_no_import(installed: Path, tmp_path: Path) -> None:
    # The keys of tuned plans of shipped kernels do not name LLVM and its view of the processor.
    report = use(installed, KERNELDSL_CACHE="on", KERNELDSL_CACHE_DIR=str(tmp_path / "cache"))
    assert report["modules"] == []
    assert report["cache"]["misses"] == {}


def test_a_tuned_plan_of_a_shipped_kernel_is_found(installed: Path, tmp_path: Path) -> None:
    launch = (
        "import numpy as np\nfrom mypkg.kernels import axpy\n"
        "x, y = np.ones(1 << 20, np.float32), np.ones(1 << 20, np.float32)\n"
        "launch = axpy.forall(x.size)\n"
    )
    plan = (
        "launch(np.float32(2), x, y)\n"
        "print(*(each.is_measured for each in axpy._dispatcher.state().choices.values()))"
    )
    tune = "launch.tune(np.float32(2), x, y, budget=0.05, processes=1)\n"
    cache = {"KERNELDSL_CACHE": "on", "KERNELDSL_CACHE_DIR": str(tmp_path / "cache")}
    tuned = run(launch + tune + plan, installed, KERNELDSL_TARGET="cpu", **cache)
    assert tuned.stdout == "True\n", tuned.stderr
    found = run(launch + plan, installed, KERNELDSL_TARGET="cpu", **cache)
    assert found.stdout == "True\n", found.stderr


#: Launches the kernel with a barrier and two axes; prints if Numba is imported, or it is refused.
TURN = """
import sys
import numpy as np
import kerneldsl as kd
from mypkg.kernels import turn
x = np.arange(64, dtype=np.float32).reshape(4, 16)
expected = x[::-1, ::-1].copy()
with kd.use("cpu"):
    try:
        turn[1, (16, 4)](x)
        assert np.array_equal(x, expected), x
        print("numba" in sys.modules)
    except kd.BarrierDivergenceError:
        print("refused")
"""


@pytest.mark.parametrize("change", [{}, {"kerneldsl": "0.0.1"}])
def test_shipped_kernels_are_not_analyzed_again(installed: Path, change: dict[str, Any]) -> None:
    path = installed / "mypkg" / "_kernels" / MANIFEST
    path.write_bytes(replace(Manifest.decode(path.read_bytes()), **change).encode())
    done = run(TURN, installed)
    assert (done.stdout.strip(), done.returncode) == ("False", 0), done.stderr


def test_barriers_of_a_changed_kernel_are_analyzed(installed: Path) -> None:
    path = installed / "mypkg" / "kernels.py"
    text = path.read_text()
    path.write_text(text.replace("    kd.sync", "    if row < 2:\n        kd.sync"))
    assert run(TURN, installed).stdout.strip() == "refused"


def test_what_is_missing_is_compiled(installed: Path) -> None:
    shutil.rmtree(installed / "mypkg" / "_kernels")
    report = use(installed)
    assert report["modules"] == ["numba", "llvmlite"]
    assert report["warnings"] == []


def test_packages_side_by_side(installed: Path) -> None:
    # The second has other kernels of the same names.
    other = installed / "otherpkg"
    shutil.copytree(installed / "mypkg", other)
    manifest = Manifest.decode((other / "_kernels" / MANIFEST).read_bytes())
    names = {each.kernel for each in manifest.entries}
    assert names == {f"mypkg.kernels.{name}" for name in ("axpy", "turn", "waves")}
    report = use(installed, "mypkg", "otherpkg")
    assert report["modules"] == []
    assert report["results"][0] == report["results"][1]


@pytest.mark.parametrize("how", full_beyond(DAMAGE, ("changed",)))
def test_a_damaged_file_is_a_miss_with_a_warning(installed: Path, how: str) -> None:
    folder = installed / "mypkg" / "_kernels"
    expected = use(installed)["results"]
    for path in folder.glob("axpy-*.o"):
        path.write_bytes(DAMAGE[how](path.read_bytes()))
    report = use(installed)
    assert report["modules"] == ["numba", "llvmlite"]
    # One for each file that might have served, and none for the other kernel.
    assert report["warnings"]
    assert all("axpy-" in each and "is damaged" in each for each in report["warnings"])
    assert report["results"] == pytest.approx(expected)


def test_code_for_an_earlier_level_is_used_instead_of_a_damaged_file(installed: Path) -> None:
    best, other, *_ = get_target("cpu").compiler.shipped_architectures("native")
    folder = installed / "mypkg" / "_kernels"
    for each in Manifest.decode((folder / MANIFEST).read_bytes()).entries:
        if each.arch == best and each.kernel == "mypkg.kernels.axpy":
            path = folder / each.files["object"]
            path.write_bytes(path.read_bytes()[:-1])
    report = use(installed)
    assert report["modules"] == []
    assert report["warnings"]
    assert all(f"differs. Code for {other} is used" in each for each in report["warnings"])


def test_code_that_its_digest_agrees_with_is_still_checked(installed: Path) -> None:
    # A manifest with the digests of files that are no code: nothing of them is mapped or run.
    import hashlib

    folder = installed / "mypkg" / "_kernels"
    document = json.loads((folder / MANIFEST).read_bytes())
    for name, file in document["files"].items():
        if name.startswith("axpy-"):
            data = (folder / name).read_bytes()[:512]
            (folder / name).write_bytes(data)
            file |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    del document["sha256"]
    (folder / MANIFEST).write_bytes(encode_document(document))
    report = use(installed)
    assert report["modules"] == ["numba", "llvmlite"]
    assert any("not an object file" in each for each in report["warnings"])


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        pytest.param("", "cannot be read", id="empty", marks=pytest.mark.full),
        pytest.param("[]", "cannot be read", id="list", marks=pytest.mark.full),
        pytest.param('{"format":1,"package":"mypkg"}\n', "its format is 1", id="format"),
        pytest.param('{"format":5,"sha256":"%s",\n"package' % ("0" * 64), "damaged", id="cut"),
        pytest.param("{" * 100_000, "cannot be read", id="nested", marks=pytest.mark.full),
    ],
)
def test_a_bad_manifest_is_a_warning(installed: Path, manifest: str, said: str) -> None:
    (installed / "mypkg" / "_kernels" / MANIFEST).write_text(manifest)
    report = use(installed)
    assert report["modules"] == ["numba", "llvmlite"]
    assert len(report["warnings"]) == 1
    assert said in report["warnings"][0]


def test_strict_raises_for_what_is_not_shipped(installed: Path) -> None:
    shutil.rmtree(installed / "mypkg" / "__pycache__", ignore_errors=True)
    init = installed / "mypkg" / "__init__.py"
    init.write_text(init.read_text().replace("(__name__)", "(__name__, strict=True)"))
    assert use(installed)["modules"] == []
    program = (
        "import numpy as np, kerneldsl as kd\nfrom mypkg.kernels import turn\n"
        "turn[1, (16, 4)](np.ones((4, 16), np.float32))\n"
        "try:\n    turn[1, (4, 4)](np.ones((4, 4), np.float32))\n"
        "except kd.NotShippedError as error:\n    print(error)\n"
    )
    done = run(program, installed, KERNELDSL_TARGET="cpu")
    assert done.returncode == 0, done.stderr
    kernel = "mypkg.kernels.turn(float32[:, ::1])"
    assert f"mypkg does not ship {kernel}, [grid, block], block (4, 4, 1), for x86" in done.stdout
    # One line for all architectures.
    assert f"It ships {kernel}, [grid, block], block (16, 4, 1), for aarch64, x86" in done.stdout
    assert done.stdout.count(kernel) == 2 + ("forall" in done.stdout)
    shutil.rmtree(installed / "mypkg" / "_kernels")
    # The package can be imported without its kernels, to be built.
    done = run(program, installed, KERNELDSL_TARGET="cpu")
    assert "_kernels/manifest.json cannot be read" in done.stderr
    build(installed / "mypkg", "--cpu", "x86-64-v2")
    assert use(installed)["modules"] == []


def test_strict_raises_for_a_damaged_file(installed: Path) -> None:
    init = installed / "mypkg" / "__init__.py"
    init.write_text(init.read_text().replace("(__name__)", "(__name__, strict=True)"))
    for path in (installed / "mypkg" / "_kernels").glob("turn-*.o"):
        path.write_bytes(path.read_bytes()[:-1])
    program = (
        "import numpy as np\nfrom mypkg.kernels import turn\n"
        "turn[1, (16, 4)](np.ones((4, 16), np.float32))"
    )
    done = run(program, installed, KERNELDSL_TARGET="cpu")
    assert "NotShippedError: mypkg does not ship mypkg.kernels.turn" in done.stderr
    assert "is damaged: its SHA-256 differs" in done.stderr
    assert "Warning" not in done.stderr


@pytest.mark.parametrize("how", ["zip", "pyc"])
def test_files_of_cuda_code_are_found_in_the_package(tmp_path: Path, how: str) -> None:
    # The current folder has other files of the names.
    package = tmp_path / "built" / "codes"
    package.mkdir(parents=True)
    for folder, factor in ((package, 3), (tmp_path, 5)):
        text = f"__device__ float f(float x) {{ return {factor} * x; }}"
        (folder / "f.cu").write_text(f'extern "C" {text}\n')
    (package / "__init__.py").write_text(
        "import kerneldsl as kd\n"
        "@kd.func(link='f.cu', signature='float32(float32)')\n"
        "def f(x):\n    return 3 * x\n"
        "whole = kd.cuda_source('f.cu')\n"
    )
    place = package.parent
    if how == "zip":
        place = Path(shutil.make_archive(str(tmp_path / "codes"), "zip", place))
    else:
        compileall.compile_dir(place, quiet=1, legacy=True)
        (package / "__init__.py").unlink()
        place = package.parent.rename(tmp_path / "moved")
    program = (
        f"import os\nos.chdir({str(tmp_path)!r})\nimport codes\n"
        "from kerneldsl.frontend.linked_code import code_of\n"
        "print(code_of(codes.f).code.decode() + codes.whole._module.text)"
    )
    done = run(program, place)
    assert done.stdout.count("return 3 * x") == 2, done.stderr


def test_a_module_that_is_newer_than_its_kernels(installed: Path) -> None:
    # Without source files, the shipped text is compared with the code, and is not used if it
    # differs.
    module = installed / "mypkg" / "kernels.py"
    module.write_text(module.read_text().replace("np.float32(1)", "np.float32(2)"))
    compileall.compile_dir(installed, quiet=1, legacy=True)
    for path in installed.rglob("*.py"):
        path.unlink()
    program = (
        "import numpy as np\nfrom mypkg.kernels import waves\nx = np.ones(9)\n"
        "waves.forall(x.size)(x, np.ones(9))"
    )
    done = run(program, installed, KERNELDSL_TARGET="cpu")
    assert "The source of poly is not the text that its package ships" in done.stderr


def test_a_processor_of_an_earlier_level(installed: Path) -> None:
    program = (
        "from kerneldsl.placement.registry import get_target\n"
        "print(*get_target('cpu').compiler.shipped_architectures('native'))"
    )
    every = run(program, installed).stdout.split()
    done = run(program, installed, NUMBA_ENABLE_AVX="0")
    assert done.stdout.split() == ["x86-64-v2"] == every[-1:]
    # Its code is the only one that is found there.
    for path in (installed / "mypkg" / "_kernels").glob("*-*.o"):
        data = path.read_bytes()
        manifest = json.loads((path.parent / MANIFEST).read_bytes())
        levels = {e["arch"] for e in manifest["entries"] if path.name in e["files"].values()}
        if "x86-64-v2" not in levels:
            path.write_bytes(data[:-1])
    report = use(installed, NUMBA_ENABLE_AVX="0")
    assert (report["modules"], report["warnings"]) == ([], [])


def test_a_zip_archive(installed: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "packages"), "zip", installed)
    report = use(archive)
    assert (report["modules"], report["warnings"]) == ([], [])


def _without_sources(folder: Path) -> None:
    assert compileall.compile_dir(folder, legacy=True, quiet=1, stripdir=folder)
    for path in folder.rglob("*.py"):
        path.unlink()


@pytest.mark.parametrize("is_zip", [False, True], ids=["folder", "zip"])
def test_bytecode_alone(installed: Path, tmp_path: Path, is_zip: bool) -> None:
    _without_sources(installed)
    path = (
        shutil.make_archive(str(tmp_path / "packages"), "zip", installed) if is_zip else installed
    )
    report = use(path)
    assert (report["modules"], report["warnings"]) == ([], [])
    # What is not shipped is compiled as usual, and an error shows the line.
    program = (
        "import numpy as np\nfrom mypkg.kernels import axpy, turn\n"
        "turn[1, (4, 4)](np.ones((4, 16), np.float32))\n"
        "axpy.ptx('float32, complex64, float32[::1]')"
    )
    done = run(program, path, KERNELDSL_TARGET="cpu")
    assert "KernelTypingError" in done.stderr
    assert "y[i] = a * x[i] + y[i]" in done.stderr


def test_the_text_of_another_function_is_not_used(installed: Path) -> None:
    kernels = installed / "mypkg" / "kernels.py"
    kernels.write_text(kernels.read_text().replace("a * x[i] + y[i]", "a * x[i] - y[i]"))
    _without_sources(installed)
    done = run(
        "from mypkg.kernels import axpy\naxpy.ptx('float32, float32[::1], float32[::1]')", installed
    )
    assert "changed after the kernels were built" in done.stderr


def test_only_the_lines_of_kernels_are_shipped(installed: Path) -> None:
    folder = installed / "mypkg" / "_kernels"
    (text,) = folder.glob("*.py.txt")
    assert "def axpy" in text.read_text()
    assert "import math" in text.read_text()
    assert "SECRET" not in text.read_text()


@pytest.mark.parametrize("mode", [0o555, 0o775], ids=["read-only", "umask 002"])
def test_folders_of_another_user(installed: Path, mode: int) -> None:
    for path in sorted(installed.rglob("*"), reverse=True):
        if os.geteuid() == 0:
            os.chown(path, 65534, 65534)
        path.chmod(mode if path.is_dir() else mode & 0o664)
    report = use(installed, PYTHONDONTWRITEBYTECODE="1")
    assert (report["modules"], report["warnings"]) == ([], [])


def test_an_unbuilt_package_is_no_problem(tmp_path: Path) -> None:
    write_package(tmp_path)
    program = "import mypkg; print(mypkg.shipped, mypkg.shipped.kernels)"
    done = run(program, tmp_path)
    assert done.stdout.strip() == "<ShippedKernels of mypkg: 0 kernels> ()"
    assert not done.stderr


def test_a_module_without_a_folder_has_no_kernels(tmp_path: Path) -> None:
    program = (
        "import sys, types, kerneldsl as kd\n"
        "sys.modules['made'] = types.ModuleType('made')\n"
        "print(*map(kd.load_package, ('sys', 'made', 'json.decoder')))"
    )
    done = run(program, tmp_path)
    assert done.stdout.count(": 0 kernels>") == 3, done.stderr


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("kd.load_package(3)", "package is an int"),
        ("kd.load_package('mypkg', '../x')", "folder is '../x'"),
        ("kd.load_package('no.such.package')", "there is no package 'no.such.package'"),
        ("kd.load_package(__name__)", "package is '__main__', a script"),
        ("kd.load_package('json', 'a\\0b')", "folder is 'a"),
        (r"kd.load_package('json', r'a\b')", "folder is 'a"),
    ],
)
def test_wrong_arguments(installed: Path, call: str, said: str) -> None:
    done = run(f"import kerneldsl as kd\n{call}", installed)
    assert done.returncode == 1
    assert said in done.stderr
