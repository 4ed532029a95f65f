"""What is registered with Numba is sound in a program's own compiled functions, too."""

from __future__ import annotations

from pathlib import Path

from tests.support.programs import run_program

PROGRAM = """
import kerneldsl.lowering.numpy_functions
import numba
import numpy as np
from numba.core.runtime import rtsys


@numba.njit
def whole(n):
    x = np.ones(n)
    return x[...]


def living():
    counts = rtsys.get_allocation_stats()
    return counts.mi_alloc - counts.mi_free


result = whole(7)
print(living(), result.sum())
del result
print(living())
"""


def test_a_whole_array_counts_its_reference(tmp_path: Path):
    """Else its memory is freed at the return, and again with the result."""
    done = run_program(tmp_path, PROGRAM, NUMBA_NRT_STATS="1")
    assert done.stdout.splitlines() == ["1 7.0", "0"], done.stderr
