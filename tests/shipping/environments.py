"""One wheel in fresh environments: every supported Python, the oldest NumPy and the newest.

It is built here, once, with kernels for several levels of processors. In each environment two
packages are installed under umask 002, given to another user, and made read-only. They are also
used from a zip archive, from ``.pyc`` files alone, and as on a processor without AVX. Kernels must
be found without Numba and without making their normal form. The first call must take less than
150 ms of processor time.

Run it with ``make shipping``. It needs a package index, and takes minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kerneldsl as kd
from tests.shipping.programs import ROOT, USE, build, write_package

PACKAGES = ("mypkg", "otherpkg")
MAX_FIRST_CALL_S = 0.15
#: Processes that the time of the first call is measured in; other programs delay some.
SAMPLES = 7
#: The first NumPy with a wheel for a Python, where that is not the oldest that is supported.
FIRST_NUMPY = {"3.13": "2.1.0", "3.14": "2.3.2"}
_NOBODY = 65534
_PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "{name}"
version = "1.0"
dependencies = ["kerneldsl"]
[tool.hatch.build.targets.wheel]
packages = ["{name}"]
"""
#: Prints the seconds of processor time that the first call takes after imports.
FIRST = """
import sys, time
import numpy as np
import kerneldsl as kd
from mypkg.kernels import axpy
x, y = np.ones(1000, np.float32), np.ones(1000, np.float32)
started = time.process_time()
with kd.use("cpu"):
    axpy.forall(x.size)(np.float32(2), x, y)
print(time.process_time() - started, y[0] == 3, "numba" in sys.modules)
"""


class Failed(Exception):
    """A check failed; the message says which."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", action="append", help="a version, such as 3.12; default: all")
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args()
    versions = options.python or supported_versions()
    failed, results = 0, []
    with tempfile.TemporaryDirectory(prefix="kerneldsl-shipping-") as name:
        folder = Path(name)
        wheels = build_wheels(folder)
        for version in versions:
            for numpy in (FIRST_NUMPY.get(version, oldest_numpy()), None):
                title = f"Python {version}, NumPy {numpy or 'newest'}"
                try:
                    python = make_environment(folder / "env", version, numpy, wheels)
                    for form, found in check(python, folder):
                        print(f"{title}: {form}: {found}", flush=True)
                        results.append({"environment": title, "form": form, "found": found})
                except Failed as error:
                    failed += 1
                    print(f"{title}: FAILED: {error}", flush=True)
    if options.json is not None:
        about = {
            "device": kd.device_info("cpu").device.name,
            "host": platform.platform(),
            "cores": os.cpu_count(),
            "commit": _run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT).strip(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        document = {"machine": about, "results": results}
        options.json.write_text(json.dumps(document, indent=2) + "\n")
    print(f"{2 * len(versions) - failed} passed, {failed} failed")
    return 1 if failed else 0


def supported_versions() -> list[str]:
    """Return the versions of Python that the project is tested with."""
    text = (ROOT / "pyproject.toml").read_text()
    return re.findall(r'"Programming Language :: Python :: (\d+\.\d+)"', text)


def oldest_numpy() -> str:
    """Return the oldest NumPy that the project supports."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = next(each for each in project["dependencies"] if each.startswith("numpy"))
    return f"{re.findall(r'>=([0-9.]+)', wanted)[0]}.0"


def build_wheels(folder: Path) -> list[Path]:
    """Build the wheels of kerneldsl and of two packages with kernels."""
    wheels = [_wheel(ROOT, folder)]
    for name in PACKAGES:
        project = folder / name
        package = write_package(project, name)
        build(package, "--cpu", "x86-64-v2,x86-64-v3,x86-64-v4,aarch64")
        (project / "pyproject.toml").write_text(_PROJECT.format(name=name))
        wheels.append(_wheel(project, folder))
    return wheels


def _wheel(project: Path, folder: Path) -> Path:
    backend = f"from hatchling.build import build_wheel; print(build_wheel({str(folder)!r}))"
    return folder / _run([sys.executable, "-c", backend], cwd=project).split()[-1]


def find_python(version: str) -> str:
    """Return an interpreter of a version that can make environments, also one of pyenv's."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = (str(each) for each in root.glob(f"versions/{version}.*/bin/python{version}"))
    for python in (f"python{version}", *found):
        command = [python, "-c", "import sys, venv, ensurepip; print(sys.version_info[:2])"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError:
            continue
        if done.returncode == 0 and done.stdout.strip() == str(tuple(map(int, version.split(".")))):
            return python
    raise Failed(f"there is no Python {version} that can make environments; install it")


def make_environment(folder: Path, version: str, numpy: str | None, wheels: list[Path]) -> Path:
    """Make a fresh environment, install the wheels as under umask 002, and return its Python."""
    shutil.rmtree(folder, ignore_errors=True)
    _run([find_python(version), "-m", "venv", str(folder)])
    python = folder / "bin" / "python"
    pins = ["numpy" if numpy is None else f"numpy=={numpy}"]
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    _run([*install, *pins, *map(str, wheels)], umask=0o002)
    for name in PACKAGES:
        package = _site(folder) / name
        if (package / "_kernels").stat().st_mode & 0o777 != 0o775:
            raise Failed(f"{package} was not installed under umask 002")
        for path in (*sorted(package.rglob("*"), reverse=True), package):
            if os.geteuid() == 0:
                os.chown(path, _NOBODY, _NOBODY)
            path.chmod(path.stat().st_mode & 0o555)
    return python


def _site(environment: Path) -> Path:
    (found,) = environment.glob("lib/python*/site-packages")
    return found


def check(python: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Use the packages in every form; say what was found."""
    site = _site(python.parents[1])
    about = "import numpy, kerneldsl; print(numpy.__version__, kerneldsl.__file__)"
    numpy, place = _run([str(python), "-P", "-c", about]).split()
    if not place.startswith(str(site)):
        raise Failed(f"kerneldsl was imported from {place}")
    yield f"NumPy {numpy}", _use(python)
    yield "without AVX", _use(python, NUMBA_ENABLE_AVX="0")
    forms = folder / "forms"
    shutil.rmtree(forms, ignore_errors=True)
    for name in PACKAGES:
        shutil.copytree(site / name, forms / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (forms, *forms.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    archive = shutil.make_archive(str(folder / "packages"), "zip", forms)
    yield "zip", _use(python, PYTHONPATH=archive)
    _run([str(python), "-m", "compileall", "-q", "-b", "-s", str(forms), str(forms)])
    for path in forms.rglob("*.py"):
        path.unlink()
    yield ".pyc alone", _use(python, PYTHONPATH=str(forms))
    times = []
    for _ in range(SAMPLES):
        seconds, is_right, has_numba = _run([str(python), "-P", "-c", FIRST]).split()
        if (is_right, has_numba) != ("True", "False"):
            raise Failed(f"the first call: right {is_right}, Numba imported {has_numba}")
        times.append(float(seconds))
    if min(times) > MAX_FIRST_CALL_S:
        raise Failed(f"the first call takes {min(times):.3f} s of processor time")
    yield "first call", f"{min(times):.3f} s of processor time"


def _use(python: Path, **environment: str) -> str:
    program = USE.format(names=PACKAGES)
    report: dict[str, Any] = json.loads(_run([str(python), "-P", "-c", program], **environment))
    if report["modules"]:
        raise Failed(f"{', '.join(report['modules'])} was imported ({environment})")
    if report["parsed"]:
        raise Failed(f"the normal form of a kernel was made ({environment})")
    if report["warnings"]:
        raise Failed(f"{report['warnings'][0]} ({environment})")
    return "found without Numba, and nothing parsed"


def _run(command: list[str], cwd: Path | None = None, umask: int = -1, **environment: str) -> str:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KERNELDSL", "PYTHON"))}
    kept |= {"KERNELDSL_CACHE": "off", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command,
        cwd=cwd,
        umask=umask,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{' '.join(command)[:200]} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    raise SystemExit(main())
