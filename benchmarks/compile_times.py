"""Compile times of the conformance suite's kernels on the CPU.

    python benchmarks/compile_times.py --json after.json --like before.json
    python benchmarks/compile_times.py --compare before.json after.json

Each kernel is launched once with nothing cached, and what its code took to compile is added up. Run
it from a checkout of another commit to compare with that: copy this file there, and run both at the
same time, each with the other's kernels alone. What both have is compared, in sum.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "benchmarks")]

#: Most that the sum may grow by.
BOUND = 1.2


def measure(names: frozenset[str] | None) -> dict[str, float]:
    """Return the seconds that the code of each case took to compile, of those with such names."""
    import numpy as np

    import kerneldsl as kd
    from tests.conformance.kernels import CASES

    found: dict[str, float] = {}
    cases = [case for case in CASES if names is None or case.name in names]
    with kd.use("cpu"):
        for case in cases:
            before = _spent(case.kernel)
            case.launch(case.arguments(np.random.default_rng(0)))
            found[case.name] = _spent(case.kernel) - before
            if len(found) % 100 == 0:
                print(f"{len(found)} of {len(cases)}, {sum(found.values()):.1f} s", flush=True)
    return found


def _spent(kernel: Any) -> float:
    return float(sum(each.compile_s for each in kernel.specializations if each.target == "cpu"))


def compare(before: dict[str, float], after: dict[str, float]) -> bool:
    """Print both sums over what both have; return whether the bound is kept."""
    common = sorted(before.keys() & after.keys())
    old, new = (sum(each[name] for name in common) for each in (before, after))
    print(f"{len(common)} kernels: {old:.1f} s before, {new:.1f} s after, {new / old:.2f}x")
    is_kept = new <= BOUND * old
    print(f"{'kept  ' if is_kept else 'BROKEN'} at most {BOUND}x")
    return is_kept


def main() -> int:
    """Measure, or compare what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="file for the times")
    parser.add_argument("--like", type=Path, help="a file whose kernels alone are measured")
    parser.add_argument("--commit", help="what is measured, where git cannot say")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"))
    options = parser.parse_args()
    if options.compare:
        before, after = (json.loads(path.read_text()) for path in options.compare)
        return int(not compare(before["seconds"], after["seconds"]))
    from machine import describe_cpu_machine

    machine = describe_cpu_machine(options.commit)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["KERNELDSL_CACHE_DIR"] = folder
        like = options.like and frozenset(json.loads(options.like.read_text())["seconds"])
        seconds = measure(like)
    print(f"{len(seconds)} kernels, {sum(seconds.values()):.1f} s")
    if options.json:
        result = {"machine": machine, "seconds": seconds}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
