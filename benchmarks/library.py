"""Functions of ``stdlib_kernels`` against the fastest that others have, in one run.

On a GPU, with nothing else on it, and on a CPU::

    python benchmarks/library.py --json benchmarks/results/library-h200.json
    python benchmarks/library.py --device cpu --json benchmarks/results/library-cpu.json

Peers are torch, torch.compile and CuPy, whose reductions and scans are CUB's; on a CPU NumPy and
Numba's ``prange``. Large arrays are compared by device times, small ones (a name with "calls") by
the time from one call to the next, in which the host's work is most. A time of "copy" is that of
the bytes that must be moved at the bandwidth of a copy, measured in the same run. The exit status
says whether all bounds were kept.
"""

# ruff: noqa: E402 -- the cores are set before NumPy and Numba count them
from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

_CORES = 2
_ON_CPU = "cpu" in sys.argv
if __name__ == "__main__" and _ON_CPU and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_CORES])

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "benchmarks")]

from contest import make_parser, report


def main() -> int:
    """Measure, print and store."""
    options = make_parser(__doc__.splitlines()[0]).parse_args()
    if options.device == "cpu":
        from library_cpu import cases

        return report(cases(), options)
    from library_gpu import cases as gpu_cases
    from library_gpu_fields import cases as field_cases

    return report(itertools.chain(gpu_cases(), field_cases()), options)


if __name__ == "__main__":
    sys.exit(main())
