"""Write ``golden.csv`` anew: answers of NVIDIA's header, for machines that have no header.

Run ``python -m tests.occupancy.make_golden`` where `find_header` finds one. The rows are random
configurations of each compute capability as it is, four at most for each set of limiting factors.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from kerneldsl.planner import DeviceOccupancyLimits
from tests.occupancy.configurations import random_configurations
from tests.occupancy.header import INPUTS, OUTPUTS, find_header

__all__ = ["GOLDEN", "GOLDEN_INPUTS"]

GOLDEN = Path(__file__).with_name("golden.csv")
#: What is stored of a configuration; the rest follows from the compute capability.
GOLDEN_INPUTS = ("major", "minor", *INPUTS[INPUTS.index("kernel_max_threads_per_block") :])

_MULTIPROCESSORS = 132
_EACH = 4
_SEED = 20261121


def _is_as_tabled(device: DeviceOccupancyLimits) -> bool:
    return device.compute_capability != (10, 7) and (
        device == DeviceOccupancyLimits.for_compute_capability(device.compute_capability)
    )


def main() -> int:
    """Write the file."""
    with tempfile.TemporaryDirectory() as folder:
        header = find_header(Path(folder))
        if isinstance(header, str):
            print(header, file=sys.stderr)
            return 1
        rows, devices = random_configurations(np.random.default_rng(_SEED), 20_000)
        rows[:, INPUTS.index("multiprocessor_count")] = _MULTIPROCESSORS
        answers = header.ask(rows)
    taken: Counter[tuple[int, ...]] = Counter()
    chosen = []
    for row, device, answer in zip(rows.tolist(), devices, answers.tolist(), strict=True):
        kind = (*row[:2], answer[OUTPUTS.index("limiting_factors")])
        if _is_as_tabled(device) and taken[kind] < _EACH:
            taken[kind] += 1
            named = dict(zip(INPUTS, row, strict=True))
            chosen.append([*(named[name] for name in GOLDEN_INPUTS), *answer])
    with GOLDEN.open("w", newline="") as file:
        file.write(
            f"# Answers of NVIDIA's cuda_occupancy.h of CUDA {header.version // 1000}."
            f"{header.version % 1000 // 10}, by tests/occupancy/make_golden.py, for devices of "
            f"{_MULTIPROCESSORS} multiprocessors.\n"
            f"# Columns 1 to {len(GOLDEN_INPUTS)} are a configuration (negative: not set), the "
            "others the answer (-1: no limit, or none).\n"
        )
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*GOLDEN_INPUTS, *(f"={name}" for name in OUTPUTS)])
        writer.writerows(sorted(chosen))
    print(f"{len(chosen)} rows in {GOLDEN}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
