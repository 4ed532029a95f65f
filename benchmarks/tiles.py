"""Kernels of tiles and groups against the fastest that others have, in one run.

On a GPU, with nothing else on it, and on a CPU::

    python benchmarks/tiles.py --json benchmarks/results/tiles-h200.json
    python benchmarks/tiles.py --device cpu --json benchmarks/results/tiles-cpu.json

Every contender's result is compared with a float64 reference first, from fresh random inputs and an
output filled with NaN. Then they take turns, and medians are reported; on a GPU of device times. A
time of "copy" is that of the case's bytes at the bandwidth of a copy, measured in the same run.
The bounds stand in ``tile_case.py``; the exit status says whether all were kept.
"""

# ruff: noqa: E402 -- the cores are set before NumPy and Numba count them
from __future__ import annotations

import argparse
import gc
import json
import math
import os
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_CORES = 2
_ON_CPU = "cpu" in sys.argv
if __name__ == "__main__" and _ON_CPU and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_CORES])

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "benchmarks")]

from machine import describe_cpu_machine, describe_gpu_machine
from tile_case import BOUNDS, Bound, Case, Prepared

import kerneldsl as kd


def measure(case: Case, prepared: Prepared, rounds: int, on_cpu: bool) -> dict[str, float]:
    """Check every contender, then return the median seconds of each."""
    for name, launch in prepared.contenders.items():
        result = launch()
        if result is None or name in prepared.out:
            result = prepared.out[name]
        error = prepared.error(result)
        if not error <= prepared.tolerance:  # NaN fails too
            raise AssertionError(
                f"{case.name}: {name} is off by {error:.3g}, allowed {prepared.tolerance:.3g}"
            )
    if not rounds:
        return {"ours": math.inf}
    if on_cpu:
        from tile_cpu import in_turns
    else:
        from device_time import in_turns
    samples = in_turns(prepared.contenders, rounds, prepared.count)
    return {name: statistics.median(taken) for name, taken in samples.items()}


def verdict(
    bound: Bound, seconds: dict[str, float], moved: int, copy_gbps: float
) -> tuple[float, bool] | None:
    """Return the ratio that a bound speaks of, and whether it is kept; ``None`` without one."""
    mine = seconds["ours"]
    if bound.over == "copy":
        if not moved:
            return None
        ratio = moved / (copy_gbps * 1e9) / mine
    else:
        peers = {name: s for name, s in seconds.items() if not name.startswith("ours")}
        if bound.over != "best peer":
            peers = {name: s for name, s in peers.items() if name.startswith(bound.over)}
        if not peers:
            return None
        ratio = min(peers.values()) / mine
    return ratio, ratio >= bound.at_least


def rows_of(options: argparse.Namespace, copy_gbps: float) -> Iterator[dict[str, Any]]:
    """Measure the cases one after the other."""
    on_cpu = options.device == "cpu"
    if on_cpu:
        from tile_cpu import cases

        found = cases()
    else:
        from tile_gpu import cases as gpu_cases

        found = gpu_cases(tuple(options.blocks))
    for case in found:
        if options.only not in case.name:
            continue
        try:
            prepared = case.prepare()
            seconds = measure(case, prepared, options.rounds, on_cpu)
        except Exception as error:  # noqa: BLE001 - the others are measured all the same
            yield {"case": case.name, "failed": f"{type(error).__name__}: {error}"}
            continue
        verdicts = {}
        for bound in BOUNDS[options.device]:
            judged = verdict(bound, seconds, prepared.moved, copy_gbps)
            if judged is not None:
                ratio, kept = judged
                verdicts[bound.over] = {"ratio": ratio, "at_least": bound.at_least, "kept": kept}
        yield {
            "case": case.name,
            "seconds": seconds,
            "moved_bytes": prepared.moved,
            "verdicts": verdicts,
        }
        del prepared
        gc.collect()


def shown(row: dict[str, Any]) -> str:
    """Return a row of the table, times in microseconds."""
    if "failed" in row:
        return f"{row['case']:22s} FAILED {row['failed']}"
    seconds = row["seconds"]
    ratios = "  ".join(
        f"{each['ratio']:5.2f}x of {over}{'' if each['kept'] else ' MISSED'}"
        for over, each in row["verdicts"].items()
    )
    times = ", ".join(f"{name} {1e6 * s:.1f}" for name, s in seconds.items() if name != "ours")
    return f"{row['case']:22s} {1e6 * seconds['ours']:9.1f} us  {ratios}  ({times})"


def main() -> int:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=BOUNDS, default="gpu")
    parser.add_argument(
        "--rounds", type=int, default=15, help="samples of each contender; 0 checks"
    )
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    parser.add_argument("--blocks", type=int, nargs="*", default=[], help="other blocks to try")
    parser.add_argument("--commit", help="what is measured, where there is no git repository")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    if options.device == "cpu":
        from tile_cpu import measure_copy as measure_host_copy

        kd.use("cpu")
        machine, copy_gbps = describe_cpu_machine(options.commit), measure_host_copy(15)
    else:
        from device_time import measure_copy

        kd.use("cuda:0")
        machine, copy_gbps = describe_gpu_machine(options.commit), measure_copy(15)
    print(json.dumps(machine, indent=1))
    print(f"copy: {copy_gbps:.0f} GB/s", flush=True)
    rows = []
    for row in rows_of(options, copy_gbps):
        rows.append(row)
        print(shown(row), flush=True)
    result = {"machine": machine, "copy_gbps": copy_gbps, "rows": rows}
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    failed = [row["case"] for row in rows if "failed" in row]
    if failed:
        print(f"BROKEN every contender runs and is right: {', '.join(failed)}")
    judged = [(row["case"], over, v) for row in rows for over, v in row.get("verdicts", {}).items()]
    for bound in BOUNDS[options.device]:
        missed = [name for name, over, v in judged if over == bound.over and not v["kept"]]
        text = f"at least {bound.at_least:g} of {bound.over}"
        print(f"BROKEN {text}: {', '.join(missed)}" if missed else f"kept   {text}")
    return 0 if not failed and all(v["kept"] for _, _, v in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
