"""Compile and run kernels by trees and by the region IR, in turns in one process.

    python -m benchmarks.ir_spike.harness                        # everything
    python -m benchmarks.ir_spike.harness lanes.grids cuda_c     # groups, or all that begin so
    python -m benchmarks.ir_spike.harness lanes --only stencil --turns 41

Of each sample one line is printed: ratios of processor time (IR over trees) of compiling and of
running in one thread, and whether all bits of the results are equal. Each group runs in its own
process, so that a crash ends only its group.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ir_spike.samples import GROUPS, Sample, samples

#: Least processor time of one measurement, and most of one sample.
_LEAST_S, _LONGEST_S = 0.003, 1.5


def _arrays(found: Any) -> list[np.ndarray]:
    if isinstance(found, tuple | list):
        return [array for each in found for array in _arrays(each)]
    return [] if found is None else [np.array(found)]


def _results(sample: Sample) -> list[np.ndarray]:
    for output in sample.outputs:
        if output.dtype.names is None:
            output.fill(7)
    sample.prepare()
    found = _arrays(sample.run())
    return [*found, *(output.copy() for output in sample.outputs)]


def _compare(one: list[np.ndarray], two: list[np.ndarray]) -> str:
    for a, b in zip(one, two, strict=True):
        if a.tobytes() == b.tobytes():
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            return "DIFFERS in shape"
        if a.dtype.kind in "fc" and np.array_equal(a, b, equal_nan=True):
            signs = np.signbit(a.view(a.real.dtype)) != np.signbit(b.view(b.real.dtype))
            zeros = np.count_nonzero(signs & (a.view(a.real.dtype) == 0))
            return f"DIFFERS in {zeros} zeros" if zeros else "other NaNs"
        width = a.dtype.itemsize
        bytes_of = [each.reshape(-1).view(np.uint8).reshape(-1, width) for each in (a, b)]
        bad = np.flatnonzero((bytes_of[0] != bytes_of[1]).any(1))
        first = bad[0]
        return f"DIFFERS in {bad.size} of {a.size}: [{first}] {a.flat[first]} {b.flat[first]}"
    return "equal"


def _time(sample: Sample, repeats: int) -> float:
    sample.prepare()
    began = time.process_time()
    for _ in range(repeats):
        sample.run()
    return (time.process_time() - began) / repeats


def _measure(sample: Sample, switch: Any, turns: int) -> tuple[float, float, dict[str, float]]:
    """Return the median of ratios, the ratio of the least times, and these."""
    once = max(_time(sample, 1), 1e-7)
    repeats = max(1, math.ceil(_LEAST_S / once))
    turns = max(3, min(turns, int(_LONGEST_S / (once * repeats))))
    times: dict[str, list[float]] = {path: [] for path in ("trees", "regions")}
    for number in range(turns):
        for path in times if number % 2 else reversed(times):
            switch.turn(path)
            times[path].append(_time(sample, repeats))
    ratios = [b / a for a, b in zip(times["trees"], times["regions"], strict=True)]
    least = {path: min(taken) for path, taken in times.items()}
    return statistics.median(ratios), least["regions"] / least["trees"], least


def run_group(group: str, only: str, turns: int) -> list[dict[str, Any]]:
    """Print a line for each sample of a group, and return what is in them."""
    import kerneldsl as kd
    from benchmarks.ir_spike.paths import install

    faulthandler.enable()
    rows = []
    with kd.use("cpu"):
        made = samples(group)
        switch = install()
        for sample in made:
            if only not in sample.name:
                continue
            row = _row(sample, switch, turns)
            row["group"] = group
            print(_described(row), flush=True)
            rows.append(row)
    return rows


def _row(sample: Sample, switch: Any, turns: int) -> dict[str, Any]:
    print(f"{sample.name:44s} ", end="", flush=True)
    first = len(switch.compiled)
    row: dict[str, Any] = {"name": sample.name}
    try:
        sample.prepare()
        sample.run()
        made = switch.compiled[first:]
        row["problems"] = sorted({f"{each.name}: {each.problem}" for each in made if each.problem})
        row["errors"] = any(each.is_error for each in made)
        both = [each for each in made if not each.problem]
        row["kernels"], row["read"] = len(made), len(both)
        if made and not both:
            return row
        for path in ("trees", "regions") if both else ():
            row[f"compile {path}"] = sum(each.seconds[path] for each in both)
        results = []
        for path in ("trees", "regions"):
            switch.turn(path)
            results.append(_results(sample))
        row["bits"] = _compare(*results)
        row["run"], row["run least"], row["seconds"] = _measure(sample, switch, turns)
    except Exception as error:  # noqa: BLE001 -- one line for each sample, whatever it does
        row["failed"] = f"{type(error).__name__}: {error}"[:160].replace("\n", " ")
    return row


def _described(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"FAILED {row['failed']}"
    read = f"{row['read']}/{row['kernels']} read"
    problems = "; ".join(row["problems"])[:150].replace("\n", " ")
    word = "ERROR " if row["errors"] else ""
    if "run" not in row:
        return f"{read}  {word}{problems}"
    ratio = _compile_ratio(row)
    compiling = "    -" if ratio is None else f"{ratio:.2f}x"
    taken = " -> ".join(f"{1e3 * each:.3f}" for each in row["seconds"].values())
    return (
        f"{read}  compile {compiling}  run {row['run']:.3f}x (least {row['run least']:.3f}x, "
        f"{taken} ms)  {row['bits']}  {word}{problems}".rstrip()
    )


def _compile_ratio(row: dict[str, Any]) -> float | None:
    """Return the ratio, if this sample is the first that compiles its kernels."""
    return row["compile regions"] / row["compile trees"] if "compile trees" in row else None


def _summary(rows: list[dict[str, Any]], crashed: list[str]) -> str:
    timed = [row for row in rows if "run" in row]
    lines = [f"{len(rows)} samples, {len(timed)} by both paths"]
    if timed:
        for key, ratio in (
            ("compile", [each for each in map(_compile_ratio, timed) if each is not None]),
            ("run", [row["run"] for row in timed]),
        ):
            mean = math.exp(statistics.mean(map(math.log, ratio)))
            lines.append(f"{key}: geometric mean {mean:.3f}x, largest {max(ratio):.3f}x")
    slower = sorted((row for row in timed if row["run"] > 1 / 0.97), key=lambda row: -row["run"])
    lines += [f"slower: {row['group']} {row['name']} {row['run']:.3f}x" for row in slower]
    other = [row for row in timed if row["bits"] != "equal"]
    lines += [f"bits: {row['group']} {row['name']}: {row['bits']}" for row in other]
    lines += [
        f"error: {row['group']} {row['name']}: {row['problems']}"
        for row in rows
        if row.get("errors")
    ]
    lines += [
        f"failed: {row['group']} {row['name']}: {row['failed']}" for row in rows if "failed" in row
    ]
    return "\n".join([*lines, *crashed])


def main() -> int:
    """Run the groups, each in its own process, and print a summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--only", default="", help="part of the names of samples")
    parser.add_argument("--turns", type=int, default=15, help="measurements of each path")
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--here", action="store_true", help="run in this process")
    options = parser.parse_args()
    wanted = [
        each for each in GROUPS if not options.groups or each.startswith(tuple(options.groups))
    ]
    rows: list[dict[str, Any]] = []
    crashed = []
    for group in wanted:
        if options.here:
            print(f"== {group}", flush=True)
            rows += run_group(group, options.only, options.turns)
            continue
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            command = [sys.executable, "-m", "benchmarks.ir_spike.harness", group, "--here"]
            command += ["--only", options.only, "--turns", str(options.turns), "--json", file.name]
            ended = subprocess.run(
                command, check=False, env={**os.environ, **_ENVIRONMENT}
            ).returncode
            if ended:
                crashed.append(f"crashed: {group} ({ended})")
                print(f"\ncrashed: {group} ({ended})", flush=True)
            else:
                rows += json.loads(Path(file.name).read_text())
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    if not options.here:
        print(_summary(rows, crashed))
    return 0


_ENVIRONMENT = {"NUMBA_NUM_THREADS": "1", "KERNELDSL_CACHE": "off"}

if __name__ == "__main__":
    os.environ.update(_ENVIRONMENT)
    sys.exit(main())
