"""How `make demo` and `make check` choose a Python, with interpreters that only pretend."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FAKE = """#!/bin/sh
case "$*" in
  *version_info*print* | *print*version_info*) echo {version}; exit 0;;
  *"import ensurepip"*) exit {no_venv};;
  --version) echo "Python {version}"; exit 0;;
  *) echo "{version} $*" >>"$LOG"; exit 0;;
esac
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A folder of interpreters, which is all that the search path has beside the basic tools."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("bash", "env", "dirname", "grep", "head", "sed", "sh", "sort", "touch"):
        found = next(p for d in ("/usr/bin", "/bin") if (p := Path(d, tool)).exists())
        (folder / tool).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    for variable in ("PYTHON", "ANOTHER"):
        monkeypatch.delenv(variable, raising=False)

    def add(name: str | Path, version: str, *, no_venv: bool = False) -> None:
        script = folder / name
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(FAKE.format(version=version, no_venv=int(no_venv)))
        script.chmod(0o755)

    return add


def make_venv(tmp_path: Path) -> subprocess.CompletedProcess[str]:
    # The fake interpreter makes no environment, so the second step finds one of ours prepared.
    target = tmp_path / "env"
    (target / "bin").mkdir(parents=True, exist_ok=True)
    pip = target / "bin" / "python"
    pip.write_text('#!/bin/sh\necho "pip $*" >>"$LOG"\n')
    pip.chmod(0o755)
    return subprocess.run(
        ["bash", str(ROOT / ".ci" / "make-venv"), str(target), "demo"],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_missing_venv_module_is_one_line(machine, tmp_path):
    machine("python3.12", "3.12", no_venv=True)
    machine("python3", "3.12", no_venv=True)
    result = make_venv(tmp_path)
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "python3.12 cannot make virtual environments; run: apt install python3.12-venv"
    ]


@pytest.mark.parametrize("version", ["3.9", "3.99"])
def test_a_version_that_is_not_tested_is_not_taken(machine, tmp_path, version):
    machine("python3", version)
    machine(f"python{version}", version)
    result = make_venv(tmp_path)
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert "no Python of a tested version (3.14 3.13 3.12 3.11)" in line
    assert "apt install python3 python3-venv" in line


def test_the_newest_that_makes_environments_is_taken(machine, tmp_path):
    machine("python3.11", "3.11")
    machine("python3.12", "3.12")
    machine("python3.13", "3.13", no_venv=True)
    result = make_venv(tmp_path)
    assert result.returncode == 0, result.stderr
    first, second = (tmp_path / "log").read_text().splitlines()
    assert first == f"3.12 -m venv --clear {tmp_path / 'env'}"
    assert second.startswith("pip -m pip install")
    assert ".[demo" in second
    assert (tmp_path / "env" / ".stamp").exists()


def test_python_can_be_chosen(machine, tmp_path, monkeypatch):
    machine("python3.11", "3.11")
    machine("python3.12", "3.12")
    monkeypatch.setenv("PYTHON", "python3.11")
    assert make_venv(tmp_path).returncode == 0
    assert (tmp_path / "log").read_text().startswith("3.11 -m venv")


def test_another_version(machine, tmp_path, monkeypatch):
    """The newest but one, from pyenv too; where there is no other, the same one."""
    monkeypatch.setenv("ANOTHER", "1")
    machine("python3.12", "3.12")
    for expected in ("3.12", "3.11"):
        (tmp_path / "log").unlink(missing_ok=True)
        assert make_venv(tmp_path).returncode == 0
        assert (tmp_path / "log").read_text().startswith(f"{expected} -m venv")
        machine(tmp_path / "pyenv" / "versions" / "3.11.7" / "bin" / "python3.11", "3.11")
    monkeypatch.setenv("PYTHON", str(tmp_path / "bin" / "python3.12"))
    assert make_venv(tmp_path).returncode == 0
    assert (tmp_path / "log").read_text().splitlines()[-2].startswith("3.11 -m venv")


NEXT = """#!/bin/sh
echo "$(basename "$(dirname "$(dirname "$0")")") $*" >>"$LOG"
case "$*" in *--dry-run*) {answer};; esac
"""


def try_next(machine, tmp_path: Path, answer: str) -> subprocess.CompletedProcess[str]:
    """Run `make numba-next`'s script; the first interpreter's pip answers with a shell command."""
    machine("python3", "3.12")
    for name in ("asking", "env"):
        python = tmp_path / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(NEXT.format(answer=answer))
        python.chmod(0o755)
    return subprocess.run(
        [
            "bash",
            str(ROOT / ".ci" / "numba-next"),
            str(tmp_path / "asking/bin/python"),
            "some_tests",
        ],
        env={
            **os.environ,
            "PATH": f"{os.environ['PATH']}:/usr/bin:/bin",
            "NUMBA_NEXT_VENV": str(tmp_path / "env"),
            "PYTHON": str(tmp_path / "bin" / "python3"),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_index_without_the_next_numba_is_said_plainly(machine, tmp_path):
    refusal = (
        "echo 'ERROR: Could not find a version (from versions: 0.67.0, 0.68.1)' >&2; "
        "echo 'ERROR: No matching distribution found for numba' >&2; exit 1"
    )
    done = try_next(machine, tmp_path, refusal)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "The package index has no numba 0.69, nor a candidate of it; the newest is 0.68.1. "
        "Nothing was tried.\n"
    )
    assert len((tmp_path / "log").read_text().splitlines()) == 1, "nothing was installed"


def test_an_index_that_cannot_be_asked_is_an_error(machine, tmp_path):
    refusal = (
        "echo 'ERROR: Could not find a version (from versions: none)' >&2; "
        "echo 'ERROR: No matching distribution found for numba' >&2; exit 1"
    )
    done = try_next(machine, tmp_path, refusal)
    assert done.returncode == 1
    assert "could not be asked for numba 0.69" in done.stderr


def test_the_next_numba_is_tried_in_an_environment_of_its_own(machine, tmp_path):
    done = try_next(machine, tmp_path, "exit 0")
    assert done.returncode == 0, done.stderr
    asked, made, installed, upgraded, shown, tested = (tmp_path / "log").read_text().splitlines()
    assert asked.startswith("asking -m pip install --dry-run --pre")
    assert asked.endswith("numba>=0.69a0")
    assert made.endswith(f"-m venv --clear {tmp_path / 'env'}")
    assert installed.startswith("env -m pip install")
    assert upgraded.endswith("--pre --upgrade numba>=0.69a0")
    assert shown.startswith("env -c import llvmlite, numba")
    assert tested.startswith("env -m pytest")
    assert tested.endswith("some_tests")
