"""Sixteen threads that need everything for the first time at once: 100 rounds, or 10 of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.extent import IS_QUICK, examples, full_beyond
from tests.support.targets import require

_ROOT = Path(__file__).resolve().parents[2]
_THREADS = 16
#: Interpreters, each of which touches everything for the first time, and the rounds in each.
_PROCESSES, _ROUNDS = examples(5), 5 if IS_QUICK else 10


@pytest.mark.parametrize("half", full_beyond(["first", "second"], ["first"]))
@pytest.mark.parametrize("targets", ["cpu,null", "cuda"])
def test_fifty_rounds(targets: str, half: str) -> None:
    """In two halves, which two workers share."""
    for name in targets.split(","):
        require(name)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KERNELDSL_")}
    environment |= {
        "PYTHONPATH": str(_ROOT),
        "PYTHONFAULTHANDLER": "1",
        "KERNELDSL_FALLBACK": "never",
    }
    command = [sys.executable, "-m", "tests.stress.first_touch"]
    for _ in range(_PROCESSES):
        done = subprocess.run(
            [*command, targets, str(_ROUNDS), str(_THREADS)],
            cwd=_ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert done.stdout.split()[-1] == "right"
