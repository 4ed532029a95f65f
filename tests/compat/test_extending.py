"""Programs that add to Numba, in a process of their own: no code is cached after they did."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_CASES = Path(__file__).with_name("extending_cases.py")


def test_programs_that_add_to_numba() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(_CASES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-4000:]
