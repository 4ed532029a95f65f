"""Kernels of tiles and groups against the fastest that others have, in one run.

On a GPU, with nothing else on it, and on a CPU::

    python benchmarks/tiles.py --json benchmarks/results/tiles-h200.json
    python benchmarks/tiles.py --device cpu --json benchmarks/results/tiles-cpu.json

Every contender's result is compared with a float64 reference first, from fresh random inputs and an
output filled with NaN. Then they take turns, and medians are reported; on a GPU of device times. A
time of "copy" is that of the case's bytes at the bandwidth of a copy, measured in the same run.
The exit status says whether all were kept.
"""

# ruff: noqa: E402 -- the cores are set before NumPy and Numba count them
from __future__ import annotations

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
    parser = make_parser(__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, nargs="*", default=[], help="other blocks to try")
    options = parser.parse_args()
    if options.device == "cpu":
        from tile_cpu import cases

        return report(cases(), options)
    from tile_gpu import cases as gpu_cases

    return report(gpu_cases(tuple(options.blocks)), options)


if __name__ == "__main__":
    sys.exit(main())
