"""Every example runs by itself, as a user runs it, and checks its own result."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.extent import full_beyond

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", full_beyond(EXAMPLES, EXAMPLES[:1]), ids=lambda p: p.stem)
def test_example(path, tmp_path):
    result = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.rstrip().endswith("as NumPy's"), result.stdout


def test_there_are_examples():
    assert len(EXAMPLES) >= 5
