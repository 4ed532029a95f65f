"""Run published packages of numba.cuda under the drop-in, and write a table of the results.

    python -m tests.compat.packages DIRECTORY [--only NAME …] [--numpy 2.5 --python FILE]
        [--workers N] [--commit TEXT] [--json FILE]

DIRECTORY is outside this repository. It gets a virtual environment with what the packages require,
and each package, unmodified, in a folder of its own; nothing of them is part of this repository.
A package's own tests run where it has some, and else the program of this folder. Two releases of
NumPy need two directories. FILE keeps its other rows, each with the commit and the releases of its
run. :mod:`tests.compat.packages.table` writes the page's table.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

from tests.compat.packages.listed import PACKAGES, SHARED, Package

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def run(*command: object, **options: object) -> None:
    subprocess.run([str(each) for each in command], check=True, **options)


def make_environment(directory: Path, numpy: str, interpreter: str) -> Path:
    """Return the interpreter of the environment that has what the packages require."""
    folder = directory / f"numpy-{numpy}"
    python = folder / "bin" / "python"
    done = folder / "done"
    if not done.exists():
        run(interpreter, "-m", "venv", "--clear", folder)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run(*pip, f"numpy=={numpy}.*", "-e", ROOT, *SHARED)
        done.touch()
    return python


def install(package: Package, directory: Path, python: Path) -> Path:
    """Return the folder with the distributions, unmodified. A checkout needs the others alone."""
    folder = directory / "packages" / f"{package.name}-{package.version}"
    done = folder / "done"
    itself = () if package.checkout else (f"{package.name}=={package.version}",)
    distributions = *itself, *package.needs
    if distributions and not done.exists():
        options = "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade"
        run(python, "-m", "pip", "install", *options, "--target", folder, *distributions)
        done.touch()
    return folder


def check_out(package: Package, directory: Path) -> Path:
    """Return the folder with the package's sources, which have its tests."""
    address, _, commit = package.checkout.partition("@")
    folder = directory / "checkouts" / package.name
    if not folder.exists():
        run("git", "clone", "--quiet", "--no-checkout", address, folder)
        run("git", "-C", folder, "checkout", "--quiet", commit)
    return folder


def counts(report: Path) -> dict[str, object]:
    """Return what a JUnit report of pytest says."""
    cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    failed, skipped = {}, 0
    for case in cases:
        name = f"{case.get('classname', '')}.{case.get('name')}"
        wrong = [each for each in case if each.tag in ("failure", "error")]
        if wrong:
            failed[name] = (wrong[0].get("message") or "").splitlines()[:1]
        skipped += any(each.tag == "skipped" for each in case)
    total = len(cases) - skipped
    return {"passed": total - len(failed), "total": total, "skipped": skipped, "failed": failed}


def of_run(python: Path, commit: str | None) -> dict[str, str]:
    """Return the commit, the date and the releases that a row stands for."""
    ask = "from platform import python_version as of; import numpy, numba; "
    ask += "print(of(), numpy.__version__, numba.__version__)"
    releases = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    describe = ["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"]
    if not commit:
        commit = subprocess.run(describe, capture_output=True, text=True, check=True).stdout.strip()
    names = "Python", "NumPy", "Numba"
    versions = ", ".join(map(" ".join, zip(names, releases.stdout.split(), strict=True)))
    return {"commit": commit, "date": f"{datetime.date.today()}", "versions": versions}


def store(rows: list[dict[str, object]], file: Path) -> None:
    """Replace the rows of ``file`` that ran again, and keep the others."""
    again = {(row["name"], row["numpy"]) for row in rows}
    stored = json.loads(file.read_text()) if file.exists() else []
    stored = [row for row in stored if (row["name"], row["numpy"]) not in again] + rows
    order = [package.name for package in PACKAGES]
    stored.sort(key=lambda row: (row["numpy"], order.index(row["name"])))
    file.write_text(json.dumps(stored, indent=1) + "\n")


def measure(package: Package, directory: Path, given: argparse.Namespace) -> dict[str, object]:
    python = make_environment(directory, given.numpy, given.python)
    folder = install(package, directory, python)
    work = directory / "work"
    work.mkdir(exist_ok=True)
    report = work / f"{package.name}.xml"
    report.unlink(missing_ok=True)
    where, tests = work, list(package.own)
    if package.checkout:
        where = check_out(package, directory)
    if package.program:
        tests = ["--noconftest", "-c", os.devnull, str(HERE / package.program)]
    options = ["--numpy-as-cupy"] if package.with_cupy else []
    command = [python, "-m", "kerneldsl", "run", *options, "-m", "pytest", "-q", "--tb=short"]
    command += ["-p", "no:cacheprovider", f"--junitxml={report}", *tests]
    command += ["-n", str(given.workers)] if given.workers else []
    environment = {
        **os.environ,
        "KERNELDSL_TARGET": "cpu",
        "PYTHONPATH": os.pathsep.join(map(str, (folder, HERE, ROOT))),
    }
    begin = time.monotonic()
    with (work / f"{package.name}.log").open("w") as log:
        try:
            status = subprocess.run(
                command,
                cwd=where,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=given.limit,
            ).returncode
        except subprocess.TimeoutExpired:
            status = -1
    return {
        "name": package.name,
        "version": package.version,
        "what": package.what,
        "reference": package.reference,
        "patched": [
            *(["NumPy replaces CuPy"] if package.with_cupy else []),
            *([package.patched] if package.patched else []),
        ],
        "numpy": given.numpy,
        **of_run(python, given.commit),
        "status": status,
        "seconds": round(time.monotonic() - begin),
        **counts(report),
    }


def line(row: dict[str, object]) -> str:
    patched = "; ".join(row["patched"]) or "nothing"
    cells = f"{row['name']} {row['version']}", row["what"], row["reference"], patched
    done = f"{row['passed']} of {row['total']}"
    return f"| {' | '.join(cells)} | {done} | {row['seconds']} s |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--numpy", default="2.4")
    parser.add_argument("--python", default=sys.executable, help="NumPy 2.5 needs 3.12 or newer")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--limit", type=int, default=7200, help="seconds for one package")
    parser.add_argument("--workers", type=int, help="processes for one package, by pytest-xdist")
    parser.add_argument("--commit", help="of a tree without a repository")
    given = parser.parse_args()
    directory = given.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, object]] = []
    for package in PACKAGES:
        if given.only and package.name not in given.only:
            continue
        try:
            row = measure(package, directory, given)
        except subprocess.CalledProcessError as error:
            print(f"| {package.name} {package.version} | not run: {error} |", flush=True)
            continue
        rows.append(row)
        print(line(row), flush=True)
        for name, message in row["failed"].items():
            print(f"    {name}: {' '.join(message)}"[:300], flush=True)
        if given.json:
            store(rows, given.json)


if __name__ == "__main__":
    main()
