"""What is registered with Numba for kernels serves a program's own compiled functions, too."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import numba
import numpy as np
import kerneldsl.lowering.numpy_functions

@numba.njit
def whole(x):
    return x[...]

for _ in range(20):
    x = np.ones(5)
    several = [whole(x) for _ in range(3)]
    del several
    assert whole(x).sum() == 5
"""


def test_a_whole_array_counts_its_references() -> None:
    """Else its memory is freed once for each result, and the process ends."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
