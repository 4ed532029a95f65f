"""Whole programs, run in an interpreter of their own: for what can be seen only from outside."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["run_program"]

_ROOT = Path(__file__).parents[2]


def run_program(tmp_path: Path, program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program's text and return what it wrote and its status.

    Parameters
    ----------
    tmp_path : Path
        Where its file goes; a kernel's source must be in a file.
    program : str
        The text.
    **variables
        Environment variables; those of kerneldsl that are set here are not passed on.
    """
    file = tmp_path / "program.py"
    file.write_text(program)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KERNELDSL_")}
    environment |= {"PYTHONPATH": str(_ROOT), "PYTHONFAULTHANDLER": "1", **variables}
    return subprocess.run(
        [sys.executable, str(file)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )
