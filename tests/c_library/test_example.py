"""The example of a C program is built by its Makefile, as its reader does, and run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "c_program"


def _make(folder: Path, *targets: str) -> str:
    done = subprocess.run(
        [
            "make",
            f"KERNELDSL={sys.executable} -m kerneldsl",
            "CFLAGS=-Wall -Wextra -Werror",
            *targets,
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_is_built_and_run(tmp_path: Path) -> None:
    folder = tmp_path / "c_program"
    shutil.copytree(
        EXAMPLE, folder, ignore=shutil.ignore_patterns("build", "program", "__pycache__")
    )
    said = _make(folder, "run")
    assert said.splitlines()[-3:] == ["y[7] = 15", "sum = 10000000", "sums[1] = 2568"]
    # The package ships the same code.
    assert (folder / "build" / "manifest.json").is_file()
    assert "up to date" in _make(folder)
    _make(folder, "clean")
    assert not (folder / "build").exists()


def test_the_page_shows_the_example() -> None:
    page = (ROOT / "docs" / "shipping-kernels.md").read_text()
    main = (EXAMPLE / "main.c").read_text()
    shown = page.split("```c\n")[1].split("```")[0]
    for line in shown.splitlines():
        assert line.strip() in main, line
