"""The planner's first choice against the best of all plans, kernel by kernel and size by size.

On a machine with a GPU, and nothing else on it::

    python benchmarks/planner.py --json benchmarks/results/planner.json --record sweep.json

Each kernel has processes of its own: they compile side by side and measure one after the other.
Every legal plan (block, items a thread, vector) is timed on the device through a graph of launches;
the five best and the planner's choice are then measured again, in turns, and compared by medians.
A size during which something else kept the machine busy is measured again
(``benchmarks/planner_case.py``), and the log says so.
``--record`` keeps every time, to which the constants of the model can be fitted elsewhere
(``benchmarks/planner_fit.py``). On the CPU::

    python benchmarks/planner.py --cpu

Lines that begin with BROKEN say which bound is missed; the exit status is 1 then.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from machine import describe_cpu_machine, describe_gpu_machine
from planner_case import STREAMING_FROM, check_case, measure_case
from planner_kernels import CASES

_ROOT = Path(__file__).resolve().parents[1]
#: Exponents of the sizes, in indices.
_EXPONENTS = (10, 14, 18, 22, 24, 26, 28)
#: A kernel with fewer plans is shown, and not counted.
_FEWEST_PLANS = 64

# The bounds of the issue.
_GEOMEAN, _WORST, _LONG_US, _WITHIN_US = 0.95, 0.8, 10.0, 1.0
_OVER_OCCUPANCY = 1.1
_OF_TORCH = 0.99


def run_all(arguments: argparse.Namespace) -> dict[str, Any]:
    """Compile and check all kernels side by side, then measure one after the other.

    Every kernel has a process of its own for each, and finds what was compiled in a cache: while
    one measures, nothing else has a context on the GPU.
    """
    names = [c.name for c in CASES if not arguments.only or c.name in arguments.only]
    results = []
    quietest = math.inf
    with tempfile.TemporaryDirectory() as folder:
        with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 1)) as workers:
            checked = dict(
                zip(
                    names,
                    workers.map(lambda name: run_part("check", name, folder), names),
                    strict=True,
                )
            )
        for name in names:
            found = checked[name]
            if not found["problem"]:
                options = ["--exponents", ",".join(map(str, arguments.exponents))]
                options += ["--rounds", str(arguments.rounds), "--quietest", str(quietest)]
                found |= run_part("measure", name, folder, *options)
                quietest = min(quietest, found.get("quietest_us", math.inf))
            results.append(found)
            show(found)
    return {"kernels": results}


def run_part(part: str, name: str, folder: str, *options: str) -> dict[str, Any]:
    """Check or measure one kernel in a process of its own, and take what it says."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path[:1]]),
        "KERNELDSL_CACHE_DIR": folder,
    }
    done = subprocess.run(
        [sys.executable, __file__, "--part", part, "--only", name, *options],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    for line in done.stdout.splitlines():
        if line.startswith("RESULT"):
            found: dict[str, Any] = json.loads(line[len("RESULT") :])
            return found
    said = done.stderr.strip().splitlines()[-3:]
    return {"name": name, "problem": " / ".join(said) or "it ended early", "sizes": []}


def show(found: dict[str, Any]) -> None:
    """Print a line for each size of a kernel."""
    if found["problem"]:
        print(f"{found['name']}: {found['problem']}")
        return
    timing = f"compiled in {found['compiled_s']:.1f} s, measured in {found['measured_s']:.1f} s"
    print(f"{found['name']} ({timing})")
    for size in found["sizes"]:
        best, chosen = size["best"], size["chosen"]
        print(
            f"  2^{size['exponent']:<2} {size['plans']:4} plans  "
            f"best {best['again_us']:9.2f} µs {_short(best):28} "
            f"chosen {chosen['again_us']:9.2f} µs {_short(chosen):28} {size['ratio']:.3f}",
            flush=True,
        )
        for pulse in size["disturbed_us"]:
            print(f"       measured again: a launch of nothing took {pulse:.2f} µs")
        if not size["is_quiet"]:
            print(f"       disturbed: a launch of nothing took {size['pulse_us']:.2f} µs")


def _short(found: dict[str, Any]) -> str:
    block, items = ("×".join(map(str, found[key])) for key in ("block", "items"))
    values = {name: v for name, v in found["parameters"].items() if name != "block"}
    own = f"items {items} v{found['vector']}"
    return f"{block} " + (", ".join(f"{k} {v}" for k, v in values.items()) or own)


def judge(results: dict[str, Any]) -> list[str]:
    """Return what falls short of the bounds."""
    broken = []
    counted: list[float] = []
    kernels = 0
    apart: dict[str, list[float]] = {}
    over_occupancy: list[float] = []
    for kernel in results["kernels"]:
        if kernel["problem"]:
            broken.append(f"{kernel['name']}: {kernel['problem']}")
        few = [size["ratio"] for size in kernel["sizes"] if size["plans"] < _FEWEST_PLANS]
        if few:
            apart[kernel["name"]] = few
        full = [size for size in kernel["sizes"] if size["plans"] >= _FEWEST_PLANS]
        kernels += bool(full)
        for size in full:
            counted.append(size["ratio"])
            best, mine = size["best"]["again_us"], size["chosen"]["again_us"]
            where = f"{kernel['name']} 2^{size['exponent']}"
            if best >= _LONG_US and size["ratio"] < _WORST:
                broken.append(f"{where}: {size['ratio']:.3f} of the best, at least {_WORST} wanted")
            if best < _LONG_US and mine - best > _WITHIN_US:
                broken.append(f"{where}: {mine - best:.2f} µs over the best")
            if size["by_occupancy"]:
                over_occupancy.append(size["by_occupancy"]["again_us"] / mine)
    summary = results["summary"] = {"kernels": kernels, "cases": len(counted)}
    if counted:
        summary["geomean"] = geomean(counted)
        summary["worst"] = min(counted)
        print(f"first choice / best: geomean {summary['geomean']:.4f}, worst {min(counted):.3f}, "
              f"{kernels} kernels, {len(counted)} cases")  # fmt: skip
        if summary["geomean"] < _GEOMEAN:
            broken.append(f"geomean {summary['geomean']:.4f}, at least {_GEOMEAN} wanted")
    for name, ratios in apart.items():
        print(f"apart, of fewer than {_FEWEST_PLANS} plans: {name} {geomean(ratios):.3f}, "
              f"worst {min(ratios):.3f}")  # fmt: skip
    if over_occupancy:
        summary["over_occupancy"] = geomean(over_occupancy)
        print(f"against the block of max_potential_block_size, streaming from 2^{STREAMING_FROM}: "
              f"{summary['over_occupancy']:.3f}×")  # fmt: skip
        if summary["over_occupancy"] < _OVER_OCCUPANCY:
            broken.append(f"{summary['over_occupancy']:.3f}× of max_potential_block_size")
    for kernel in results["kernels"]:
        found = kernel.get("torch")
        if found:
            share = found["torch"] / found["kerneldsl"]
            summary["of_torch"] = share
            print(f"axpy: {found['kerneldsl']:.1f} µs, torch {found['torch']:.1f} µs: {share:.3f}×")
            if share < _OF_TORCH:
                broken.append(f"axpy is {share:.3f}× of torch's, at least {_OF_TORCH} wanted")
    return broken


def geomean(values: list[float]) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))


def main() -> int:
    """Measure, print, write down; 1 where a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu", action="store_true", help="measure the CPU's plans")
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--record", type=Path, help="write every time of the sweep there")
    parser.add_argument("--only", action="append", help="a kernel; several times for several")
    parser.add_argument("--exponents", type=_exponents, default=_EXPONENTS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--commit", help="what is measured, where there is no git repository")
    parser.add_argument("--part", choices=("check", "measure"), help=argparse.SUPPRESS)
    parser.add_argument("--quietest", type=float, default=math.inf, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part == "check":
        check_case(*arguments.only)
        return 0
    if arguments.part == "measure":
        measure_case(*arguments.only, arguments.exponents, arguments.rounds, arguments.quietest)
        return 0
    started = time.perf_counter()
    if arguments.cpu:
        from planner_cpu import measure_cpu

        rows, broken = measure_cpu(arguments.only)
        results: dict[str, Any] = {"cpu": rows, "kernels": []}
    else:
        results = run_all(arguments)
        broken = judge(results)
    seconds = time.perf_counter() - started
    describe = describe_cpu_machine if arguments.cpu else describe_gpu_machine
    results = {"machine": describe(arguments.commit), "seconds": seconds, **results}
    results["broken"] = broken
    if arguments.record:
        arguments.record.write_text(json.dumps(results))
    for kernel in results["kernels"]:
        for size in kernel["sizes"]:
            del size["swept"]
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{results['seconds']:.0f} s")
    for line in broken:
        print(f"BROKEN {line}")
    return 1 if broken else 0


def _exponents(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
