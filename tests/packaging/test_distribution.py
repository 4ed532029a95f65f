"""The wheel: what is in it, and that what it installs works on its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import kerneldsl
from tests.support.pages import blocks_of, prints

ROOT = Path(__file__).parents[2]
PACKAGES = ("kerneldsl", "targets", "stdlib_kernels", "kerneldsl_demo")

pytest.importorskip("hatchling", reason="the build backend is not installed")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built by the backend that is installed, without an isolated environment."""
    folder = tmp_path_factory.mktemp("wheel")
    program = f"from hatchling.build import build_wheel; print(build_wheel({str(folder)!r}))"
    built = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return folder / built.stdout.split()[-1]


def test_wheel_holds_the_packages_and_nothing_else(wheel):
    assert wheel.name.startswith(f"kerneldsl-{kerneldsl.__version__}-py3-none-any")
    names = zipfile.ZipFile(wheel).namelist()
    roots = {name.partition("/")[0] for name in names}
    assert {r for r in roots if not r.endswith(".dist-info")} == set(PACKAGES)
    expected = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".nbi", ".nbc")
    }
    assert expected <= set(names)
    for package in PACKAGES:
        assert f"{package}/py.typed" in names


def test_wheel_names_licence_command_and_python(wheel):
    archive = zipfile.ZipFile(wheel)
    info = f"kerneldsl-{kerneldsl.__version__}.dist-info"
    metadata = archive.read(f"{info}/METADATA").decode()
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata
    for extra in ("cuda12", "cuda13", "sym", "dev", "demo", "all"):
        assert f"Provides-Extra: {extra}\n" in metadata
    assert (
        "kerneldsl = kerneldsl.tools.cli:main" in archive.read(f"{info}/entry_points.txt").decode()
    )
    licence = archive.read(f"{info}/licenses/LICENSE").decode()
    assert "Apache License" in licence
    assert "2026 The kerneldsl authors" in licence


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """An environment with the wheel, which sees this one's dependencies through a path file."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "env", with_pip=False)
    site = next((folder / "env" / "lib").glob("python3.*")) / "site-packages"
    zipfile.ZipFile(wheel).extractall(site)
    dependencies = {str(Path(__import__(m).__file__).parents[1]) for m in ("numba", "numpy")}
    (site / "dependencies.pth").write_text("\n".join(sorted(dependencies)) + "\n")
    return folder / "env"


def run_installed(environment: Path, folder: Path, *args: str) -> str:
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    result = subprocess.run(
        [str(environment / "bin" / "python"), *args],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.full
def test_installed_wheel_runs_a_kernel_outside_the_checkout(installed, tmp_path):
    script = tmp_path / "use.py"
    script.write_text(
        "import numpy as np, kerneldsl as kd, targets, stdlib_kernels\n"
        "from stdlib_kernels.reduce import sum\n"
        "print(kd.__file__, targets.__file__, stdlib_kernels.__file__, sep='\\n')\n"
        "print(int(sum(np.arange(1000))))\n"
    )
    *places, total = run_installed(installed, tmp_path, str(script)).split()
    assert total == "499500"
    assert all(Path(place).is_relative_to(installed) for place in places)


#: Printed after each program of a page.
_SEPARATOR = "-- end of a program --"


#: A program of numba.cuda, for ``kerneldsl run program.py``.
_PROGRAM = """\
import numpy as np
from numba import cuda

@cuda.jit
def increment(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1

x = np.zeros(100)
increment[1, 128](x)
assert (x == 1).all()
"""


def follow(environment: Path, folder: Path, *pages: str) -> None:
    """Do what pages tell a reader to, in their order: the commands, and the programs."""
    (folder / "program.py").write_text(_PROGRAM)
    for page in pages:
        text = (ROOT / page).read_text(encoding="utf-8")
        for command in re.findall(r"^\$ kerneldsl (.+)", text, re.MULTILINE):
            run_installed(environment, folder, "-m", "kerneldsl", *command.split())
        blocks = blocks_of(ROOT / page)
        files = [folder / f"{Path(page).stem}{number}.py" for number in range(len(blocks))]
        for file, block in zip(files, blocks, strict=True):
            file.write_text(block.code)
        # One session, as in a notebook, in which every program has a file with its source.
        session = folder / "session.py"
        names = [str(file) for file in files]
        session.write_text(
            f"space = {{'__name__': 'page'}}\nfor file in {names}:\n"
            "    exec(compile(open(file).read(), file, 'exec'), space)\n"
            f"    print({_SEPARATOR!r})\n"
        )
        output = run_installed(environment, folder, str(session))
        for block, printed in zip(blocks, output.split(f"{_SEPARATOR}\n")[:-1], strict=True):
            assert block.printed is None or prints(block.printed, printed), printed


def test_the_first_pages_can_be_followed_to_explain(installed, tmp_path, monkeypatch):
    pytest.importorskip("sympy", reason="getting started installs the sym extra")
    monkeypatch.setenv("KERNELDSL_TARGET", "cpu")
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "cache"))
    follow(installed, tmp_path, "README.md", "docs/getting-started.md")


def test_the_first_pages_name_extras_that_the_wheel_has(wheel):
    archive = zipfile.ZipFile(wheel)
    file = next(name for name in archive.namelist() if name.endswith("METADATA"))
    metadata = archive.read(file).decode()
    named: set[str] = set()
    for page in ("README.md", "docs/getting-started.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert "pip install ." in text
        for extras in re.findall(r'pip install "(?:\.|kerneldsl)\[([\w,]+)\]"', text):
            named.update(extras.split(","))
    assert named >= {"cuda12", "cuda13", "sym"}
    for extra in named:
        assert f"Provides-Extra: {extra}\n" in metadata


@pytest.mark.full
def test_installed_wheel_has_the_demo(installed, tmp_path):
    pytest.importorskip("skimage", reason="the photograph of the demo is not installed")
    args = ("demo", "--target", "cpu", "--size", "16", "--json")
    report = json.loads(run_installed(installed, tmp_path, "-m", "kerneldsl", *args))
    assert all(stage["passed"] for stage in report["stages"])


def test_a_checkout_works_uninstalled(tmp_path):
    # -S: no site-packages, so nothing that is installed can help; NumPy comes by its own path.
    import numpy

    numpy_root = Path(numpy.__file__).parents[1]
    program = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}]; sys.path.append({str(numpy_root)!r})\n"
        "import kerneldsl, targets, stdlib_kernels; print(kerneldsl.__file__)"
    )
    result = subprocess.run(
        [sys.executable, "-S", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert Path(result.stdout.strip()) == ROOT / "kerneldsl" / "__init__.py"
